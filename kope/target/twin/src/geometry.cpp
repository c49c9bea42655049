// See geometry.h.
#include "geometry.h"

namespace kope_twin {
namespace runtime {

namespace {

// The mask of a repeat, as a prefix when it is one.
void set_mask(Shape& shape, uint64_t low, uint64_t high)
{
    if (shape.lanes <= 64) {
        high = 0;
        low &= shape.lanes == 64 ? ~0ULL : (1ULL << shape.lanes) - 1;
    }
    shape.mask[0] = low;
    shape.mask[1] = high;
    const uint32_t in_low = low == ~0ULL ? 64U : static_cast<uint32_t>(__builtin_ctzll(~low));
    const uint32_t in_high = high == ~0ULL ? 64U : static_cast<uint32_t>(__builtin_ctzll(~high));
    const uint32_t run = in_low < 64 ? in_low : 64 + in_high;
    const uint32_t set = static_cast<uint32_t>(__builtin_popcountll(low) + __builtin_popcountll(high));
    shape.prefix = run == set;
    if (shape.prefix) {
        shape.used = run;
    } else { // the highest bit set ends the repeat
        shape.used = high != 0 ? 128U - static_cast<uint32_t>(__builtin_clzll(high)) : 64U - static_cast<uint32_t>(__builtin_clzll(low));
    }
    shape.used = std::min(shape.used, shape.lanes);
}

void set_prefix(Shape& shape, uint64_t lanes)
{
    const uint32_t used = static_cast<uint32_t>(std::min<uint64_t>(lanes, shape.lanes));
    const uint64_t low = used >= 64 ? ~0ULL : (1ULL << used) - 1;
    const uint64_t high = used <= 64 ? 0 : used >= 128 ? ~0ULL : (1ULL << (used - 64)) - 1;
    shape.mask[0] = low;
    shape.mask[1] = high;
    shape.prefix = true;
    shape.used = used;
}

// Counter mode: the mask is the number of elements, and decides how often the instruction repeats.
void set_total(Shape& shape, uint64_t elements)
{
    shape.repeats = static_cast<uint32_t>((elements + shape.lanes - 1) / shape.lanes);
    set_prefix(shape, shape.lanes);
    shape.last_lanes = elements == 0 ? 0 : static_cast<uint32_t>(elements - uint64_t(shape.repeats - 1) * shape.lanes);
}

} // namespace

Shape shape_of(const Block& block, const VectorCall& call, uint32_t widest)
{
    Shape shape;
    shape.lanes = 256 / widest;
    shape.last_lanes = shape.lanes;
    const Form& form = call.form;
    if (form.kind == Form::Contiguous) {
        shape.contiguous = true;
        shape.count = form.count;
        set_prefix(shape, shape.lanes);
        return shape;
    }
    const bool external = form.kind == Form::External;
    if (block.counter_mode) {
        set_total(shape, external ? block.mask[0] : form.mask[0]);
        return shape;
    }
    shape.repeats = form.repeat > 0 ? static_cast<uint32_t>(form.repeat) : 0;
    if (form.kind == Form::Prefix) {
        set_prefix(shape, form.mask[0]);
    } else {
        set_mask(shape, external ? block.mask[0] : form.mask[0], external ? block.mask[1] : form.mask[1]);
    }
    return shape;
}

void flatten(Shape& shape, const Operand* operands, int count)
{
    if (shape.contiguous || !shape.prefix || shape.used != shape.lanes) {
        return;
    }
    for (int k = 0; k < count; ++k) {
        const bool dense = operands[k].block_stride == 1
            && (shape.repeats <= 1 || operands[k].repeat_stride * kCell == shape.lanes * operands[k].element);
        if (!dense) {
            return;
        }
    }
    shape.contiguous = true;
    shape.count = shape.repeats == 0 ? 0 : uint64_t(shape.repeats - 1) * shape.lanes + shape.last_lanes;
}

uint64_t span_of(const Shape& shape, const Operand& operand)
{
    if (shape.contiguous) {
        return shape.count * operand.element;
    }
    uint64_t end = 0;
    // Strides are not negative: the end is in the last repeat, or the one before when the last is shorter.
    for (uint32_t repeat = shape.repeats > 1 ? shape.repeats - 2 : 0; repeat < shape.repeats; ++repeat) {
        const uint32_t lanes = shape.lanes_of(repeat);
        for (uint32_t lane = lanes; lane > 0;) { // a block stride of 0 puts the end elsewhere than in the last lane
            const uint64_t last = operand.address(repeat, lane - 1) + operand.element - operand.view->address;
            end = std::max(end, last);
            if (operand.block_stride != 0 || lane <= operand.per_block()) {
                break;
            }
            lane -= operand.per_block();
        }
    }
    return end;
}

double cycles_per_repeat(const VectorCall& call)
{
    const bool narrow = size_of(call.src_type) <= 2; // 16-bit elements: 128 a repeat
    switch (call.op) {
        case Op::Exp:
        case Op::Ln:
        case Op::Sqrt:
        case Op::Div: // 32 elements a cycle whatever the type
            return narrow ? 4.0 : 2.0;
        case Op::MulAddDst:       // 64 or 32 elements
        case Op::FusedMulAdd:     // three operands at different addresses halve the rate
        case Op::FusedMulAddRelu:
        case Op::GatherMask:
            return 2.0;
        case Op::RepeatSum:
        case Op::RepeatSumAll:
        case Op::RepeatMax:
        case Op::RepeatMin:
            return 7.0;
        case Op::BlockSum:
        case Op::BlockMax:
        case Op::BlockMin:
            return narrow ? 7.0 : 1.0;
        case Op::ReduceSum: // software: one fold per repeat
        case Op::ReduceMax:
        case Op::ReduceMin:
            return 7.0;
        case Op::Gather: // 5 elements a cycle
            return (narrow ? 128.0 : 64.0) / 5.0;
        default:
            return 1.0;
    }
}

} // namespace runtime
} // namespace kope_twin
