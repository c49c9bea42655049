// Where the elements of a vector instruction lie: repeats of 256 bytes, blocks of 32, strides and masks, worked out once.
#ifndef KOPE_TWIN_SRC_GEOMETRY_H
#define KOPE_TWIN_SRC_GEOMETRY_H

#include <algorithm>

#include "access.h"

namespace kope_twin {
namespace runtime {

// An operand of a vector instruction in memory.
struct Operand {
    const char* name = "";
    const UbView* view = nullptr;
    uint32_t element = 0; // bytes
    uint32_t block_stride = 1;
    uint32_t repeat_stride = 8;

    uint32_t per_block() const { return kCell / element; }
    uint64_t address(uint32_t repeat, uint32_t lane) const
    {
        const uint32_t block = lane / per_block();
        return view->address + (uint64_t(repeat) * repeat_stride + uint64_t(block) * block_stride) * kCell + (lane % per_block()) * element;
    }
};

// Which elements take part.
struct Shape {
    bool contiguous = false;
    uint64_t count = 0;      // contiguous: elements
    uint32_t repeats = 0;
    uint32_t lanes = 0;      // elements of a full repeat
    uint32_t last_lanes = 0; // of the last one (counter mode ends inside a repeat)
    bool prefix = true;      // the mask is the first `used` lanes
    uint32_t used = 0;
    uint64_t mask[2] = {0, 0};

    bool nothing() const { return contiguous ? count == 0 : repeats == 0 || used == 0; }
    uint64_t total_repeats() const { return contiguous ? (count + lanes - 1) / lanes : repeats; }
    uint32_t lanes_of(uint32_t repeat) const { return repeat + 1 == repeats ? std::min(used, last_lanes) : used; }
    bool on(uint32_t lane) const { return (mask[lane / 64] >> (lane % 64) & 1U) != 0; }
};

// `widest` is the larger element of source and destination: it decides how many elements a repeat has.
Shape shape_of(const Block& block, const VectorCall& call, uint32_t widest);

// Turns repeats that lie end to end in every operand into one contiguous run.
void flatten(Shape& shape, const Operand* operands, int count);

// Bytes from the operand's start to the end of its last element.
uint64_t span_of(const Shape& shape, const Operand& operand);

// Calls visit(Range) for the memory of an operand, in pieces without gaps.
template <typename Visit> void each_piece(const Shape& shape, const Operand& operand, Visit visit)
{
    if (shape.contiguous) {
        visit(Range{operand.name, operand.view->address, static_cast<uint32_t>(shape.count * operand.element)});
        return;
    }
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        const uint32_t lanes = shape.lanes_of(repeat);
        if (operand.block_stride == 1) {
            visit(Range{operand.name, static_cast<uint32_t>(operand.address(repeat, 0)), lanes * operand.element});
            continue;
        }
        for (uint32_t lane = 0; lane < lanes; lane += operand.per_block()) {
            const uint32_t here = std::min(operand.per_block(), lanes - lane);
            visit(Range{operand.name, static_cast<uint32_t>(operand.address(repeat, lane)), here * operand.element});
        }
    }
}

// Cycles of the vector unit for one repeat of the instruction, from the vendor's table of theoretical throughput.
double cycles_per_repeat(const VectorCall& call);

} // namespace runtime
} // namespace kope_twin

#endif
