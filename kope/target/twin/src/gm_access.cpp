// See gm_access.h.
#include "gm_access.h"

#include <algorithm>
#include <cstring>

namespace kope_twin {
namespace runtime {

namespace {

GmAccess access_of(const Block& block, const Instruction& instruction, uint64_t offset, uint64_t bytes, bool atomic)
{
    return {offset, offset + bytes, block.index, atomic, instruction.name, instruction.site};
}

const char* const kMeet =
    "give every block bytes of its own, or let all blocks meet with SyncAll between the two; for sums over blocks use SetAtomicAdd";

void report_overwrite(const DeviceBuffer& buffer, const GmAccess& earlier, uint32_t block, const Instruction& instruction, uint64_t begin,
    uint64_t end, bool same)
{
    control::Finding* found = note(same ? "gm-overlap" : "gm-race", instruction.site, same ? control::Severity::Note : control::Severity::Error);
    if (found == nullptr) {
        return;
    }
    describe(found, same ? "harmless as long as both blocks compute the same values" : kMeet,
        "%s of block %u writes bytes %llu to %llu of %s, which block %u writes as well (%s, %s)%s", instruction.name, block,
        static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end), buffer.name.c_str(), earlier.block, earlier.name,
        line_of(earlier.site).c_str(), same ? ", with the same values" : ": nothing orders the two");
}

void report_crossing(const DeviceBuffer& buffer, const GmAccess& read, const GmAccess& write)
{
    control::Finding* found = note("gm-race", read.site);
    if (found == nullptr) {
        return;
    }
    found->block = read.block;
    describe(found, kMeet, "%s of block %u reads bytes %llu to %llu of %s, which block %u writes (%s, line %d): nothing orders the two", read.name,
        read.block, static_cast<unsigned long long>(std::max(read.begin, write.begin)), static_cast<unsigned long long>(std::min(read.end, write.end)),
        buffer.name.c_str(), write.block, write.name, write.site.line);
}

bool watches(const DeviceBuffer& buffer) { return machine.options.checks && buffer.access != control::Access::Input; }

} // namespace

void gm_read(Block& block, const Instruction& instruction, DeviceBuffer& buffer, uint64_t offset, uint64_t bytes)
{
    if (!watches(buffer) || bytes == 0) {
        return;
    }
    size_t first = 0;
    const size_t missing = unwritten(buffer, offset, bytes, &first);
    if (missing != 0) {
        if (control::Finding* found = note("uninit-gm", instruction.site, control::Severity::Warning)) {
            describe(found, "write it first; device memory holds what was there before", "%s reads %zu bytes of %s that nothing has written, the first at byte %llu (block %u)",
                instruction.name, missing, buffer.name.c_str(), static_cast<unsigned long long>(offset + first), block.index);
        }
    }
    if (machine.block_count > 1) {
        buffer.order.read(access_of(block, instruction, offset, bytes, false));
    }
}

void gm_write(Block& block, const Instruction& instruction, DeviceBuffer& buffer, uint64_t offset, const uint8_t* data, uint64_t bytes,
    bool atomic)
{
    if (watches(buffer)) {
        size_t first = 0;
        if (atomic && unwritten(buffer, offset, bytes, &first) != 0) {
            if (control::Finding* found = note("atomic-uninit", instruction.site)) {
                describe(found, "fill the buffer first (one block, then SyncAll), or an earlier launch",
                    "%s combines with byte %llu of %s, which nothing has written: the result is undefined (block %u)", instruction.name,
                    static_cast<unsigned long long>(offset + first), buffer.name.c_str(), block.index);
            }
        }
        if (machine.block_count > 1) {
            buffer.order.write(access_of(block, instruction, offset, bytes, atomic), [&](const GmAccess& earlier, uint64_t begin, uint64_t end) {
                const bool same = !atomic && !earlier.atomic && std::memcmp(buffer.host + begin, data + (begin - offset), end - begin) == 0;
                report_overwrite(buffer, earlier, block.index, instruction, begin, end, same);
            });
        }
    }
    mark_written(buffer, offset, bytes);
}

void gm_meet()
{
    for (const auto& buffer : machine.buffers) {
        if (buffer->order.busy()) {
            buffer->order.meet([&](const GmAccess& read, const GmAccess& write) { report_crossing(*buffer, read, write); });
        }
    }
}

} // namespace runtime
} // namespace kope_twin
