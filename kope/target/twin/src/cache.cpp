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

// Sectors of a line from byte `begin` to byte `end`, as bits.
uint16_t sectors(uint64_t begin, uint64_t end)
{
    const uint32_t first = static_cast<uint32_t>(begin / kSectorBytes);
    const uint32_t past = static_cast<uint32_t>((end + kSectorBytes - 1) / kSectorBytes);
    return static_cast<uint16_t>((1U << past) - (1U << first));
}

} // namespace

void cache_opens()
{
    const uint32_t last = machine.core_lines.empty() ? 0 : *std::max_element(machine.core_lines.begin(), machine.core_lines.end());
    machine.core_lines.assign(cores_at_work(), last);
}

void cache_closes(const Block& block) { machine.core_lines[block.index % machine.core_lines.size()] += block.lines; }

uint32_t cache_misses(Block& block, const GmPlace& place, const GmParts& parts)
{
    if (parameters.l2_gbps <= 0.0 || place.buffer == nullptr || place.offset < 0) {
        return 0;
    }
    std::vector<CacheLine>& lines = place.buffer->lines;
    lines.resize((place.buffer->bytes + kLineBytes - 1) / kLineBytes);
    const uint64_t size = lines.size() * kLineBytes;
    const uint32_t before = machine.core_lines[block.index % machine.core_lines.size()] + 1;
    const double reach = parameters.l2_bytes / static_cast<double>(kLineBytes * cores_at_work());
    uint32_t missed = 0;
    for (uint64_t part = 0; part < parts.count; ++part) {
        const uint64_t begin = static_cast<uint64_t>(place.offset) + part * parts.step;
        const uint64_t end = std::min(begin + parts.bytes, size);
        for (uint64_t at = begin; at < end; at = (at / kLineBytes + 1) * kLineBytes) {
            CacheLine& line = lines[at / kLineBytes];
            const uint32_t now = before + block.lines++;
            if (line.moved == 0 || static_cast<double>(now) - line.moved > reach) {
                line.sectors = 0;
            }
            const uint16_t moved = sectors(at % kLineBytes, std::min(end - at / kLineBytes * kLineBytes, kLineBytes));
            missed += static_cast<uint32_t>(__builtin_popcount(moved & ~line.sectors));
            line.sectors |= moved;
            line.moved = now;
        }
    }
    return missed;
}

} // namespace runtime
} // namespace kope_twin
