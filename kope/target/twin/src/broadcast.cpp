// Broadcast, a sequence of instructions on the device: Brcb, Copy, and GatherMask where rows are no multiple of 32 bytes.
#include <cstring>

#include "geometry.h"

namespace kope_twin {
namespace runtime {

namespace {

void fold_cost(Block& block, uint64_t rows, uint64_t columns, uint32_t element, bool over_columns)
{
    const uint64_t row_bytes = (columns * element + kCell - 1) / kCell * kCell;
    const uint64_t repeats = (rows * row_bytes + 255) / 256;
    const uint32_t head = static_cast<uint32_t>(parameters.vector_head_cycles);
    if (over_columns) {
        block.trace.work(kVector, head + static_cast<uint32_t>((rows + 7) / 8));
    }
    block.trace.work(kVector, head + static_cast<uint32_t>(repeats));
    if (row_bytes != columns * element) {
        block.trace.work(kVector, head + static_cast<uint32_t>(2 * repeats));
    }
}

bool valid_shapes(const Instruction& instruction, const uint32_t* to, const uint32_t* from, uint32_t element)
{
    const bool fits = (from[0] == to[0] || from[0] == 1) && (from[1] == to[1] || from[1] == 1);
    const bool aligned = from[0] == to[0] || from[1] * element % kCell == 0 || from[1] == 1;
    if (fits && aligned) {
        return true;
    }
    if (control::Finding* found = note("argument-range", instruction.site)) {
        describe(found, fits ? "pad the rows to 32 bytes" : "source dimensions are 1 or those of the destination",
            "Broadcast from [%u, %u] to [%u, %u] (block %u)", from[0], from[1], to[0], to[1], current->index);
    }
    return false;
}

} // namespace
} // namespace runtime

namespace api {

using namespace runtime;

void broadcast(const UbView& dst, const UbView& src, Dtype dtype, const uint32_t* to, const uint32_t* from, Site site)
{
    Enter enter("Broadcast", site);
    Block& block = *current;
    const Instruction instruction = {"Broadcast", kVector, site};
    const uint32_t element = static_cast<uint32_t>(size_of(dtype));
    fold_cost(block, to[0], to[1], element, from[1] != to[1]);
    begin(block, instruction);
    if (to[0] == 0 || to[1] == 0 || !valid_shapes(instruction, to, from, element)) {
        return;
    }
    const Range target = {"dst", dst.address, to[0] * to[1] * element};
    const Range source = {"src", src.address, from[0] * from[1] * element};
    const bool dst_fine = usable(block, instruction, "dst", dst, target.bytes, kCell);
    const bool src_fine = usable(block, instruction, "src", src, source.bytes, kCell);
    if (!dst_fine || !src_fine || !machine.verify) {
        return;
    }
    read(block, instruction, source);
    write(block, instruction, target);
    fill(block, target, block.memory->shadow.holds_data(source.first_cell(), source.last_cell()));
    for (uint32_t row = 0; row < to[0]; ++row) {
        for (uint32_t column = 0; column < to[1]; ++column) {
            const uint32_t at = (from[0] == 1 ? 0 : row) * from[1] + (from[1] == 1 ? 0 : column);
            std::memcpy(ub(block, dst.address + (row * to[1] + column) * element), ub(block, src.address + at * element), element);
        }
    }
}

} // namespace api
} // namespace kope_twin
