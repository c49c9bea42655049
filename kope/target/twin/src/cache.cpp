// See cache.h.
#include "cache.h"

#include <algorithm>

namespace kope_twin {
namespace runtime {

namespace {

constexpr uint64_t kLineBytes = 512;

uint32_t cores_at_work()
{
    return static_cast<uint32_t>(std::max(1.0, std::min<double>(machine.block_count, parameters.vector_core_count)));
}

} // namespace

void cache_opens()
{
    const uint32_t last = machine.core_lines.empty() ? 0 : *std::max_element(machine.core_lines.begin(), machine.core_lines.end());
    machine.core_lines.assign(cores_at_work(), last);
}

void cache_closes(const Block& block) { machine.core_lines[block.index % machine.core_lines.size()] += block.lines; }

bool cache_holds(Block& block, const GmPlace& place, const GmParts& parts)
{
    if (parameters.l2_gbps <= 0.0 || place.buffer == nullptr || place.offset < 0) {
        return false;
    }
    std::vector<uint32_t>& touched = place.buffer->touched;
    touched.resize((place.buffer->bytes + kLineBytes - 1) / kLineBytes, 0);
    const uint32_t before = machine.core_lines[block.index % machine.core_lines.size()];
    const double reach = parameters.l2_bytes / static_cast<double>(kLineBytes * cores_at_work());
    uint64_t lines = 0;
    uint64_t held = 0;
    for (uint64_t part = 0; part < parts.count; ++part) {
        const uint64_t begin = static_cast<uint64_t>(place.offset) + part * parts.step;
        const uint64_t end = std::min<uint64_t>((begin + parts.bytes + kLineBytes - 1) / kLineBytes, touched.size());
        for (uint64_t line = begin / kLineBytes; line < end; ++line) {
            const uint32_t now = before + block.lines + static_cast<uint32_t>(lines++);
            const uint32_t then = touched[line];
            held += then != 0 && static_cast<double>(now + 1) - then <= reach ? 1 : 0;
            touched[line] = now + 1;
        }
    }
    block.lines += static_cast<uint32_t>(lines);
    return held * 2 > lines;
}

} // namespace runtime
} // namespace kope_twin
