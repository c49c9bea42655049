// MulCast, AddReluCast, SubReluCast: two sources, then a conversion.
#include <cstring>

#include "loops.h"
#include "vector_ops.h"

namespace kope_twin {
namespace runtime {

void combine_and_cast(Block& block, const VectorCall& call)
{
    const Instruction instruction = {call.name, kVector, call.site};
    const uint32_t dst_bytes = static_cast<uint32_t>(size_of(call.dst_type));
    const uint32_t src_bytes = static_cast<uint32_t>(size_of(call.src_type));
    const Operand operands[3] = {{"dst", call.dst, dst_bytes, call.form.block_stride[0], call.form.repeat_stride[0]},
        {"src0", call.src0, src_bytes, call.form.block_stride[1], call.form.repeat_stride[1]},
        {"src1", call.src1, src_bytes, call.form.block_stride[2], call.form.repeat_stride[2]}};
    Shape shape = shape_of(block, call, std::max(dst_bytes, src_bytes));
    flatten(shape, operands, 3);
    charge(block, call, shape);
    if (shape.nothing() || !check(block, instruction, shape, operands, 3, kCell) || !machine.verify) {
        return;
    }
    Range ranges[3];
    const Range* sources[2];
    for (int k = 1; k < 3; ++k) {
        each_piece(shape, operands[k], [&](const Range& range) { read(block, instruction, range); });
        ranges[k] = {operands[k].name, operands[k].view->address, static_cast<uint32_t>(span_of(shape, operands[k]))};
        sources[k - 1] = &ranges[k];
    }
    each_piece(shape, operands[0], [&](const Range& range) { write(block, instruction, range); });
    const Range target = {"dst", call.dst->address, static_cast<uint32_t>(span_of(shape, operands[0]))};
    flow(block, target, sources, 2);

    const Op first = call.op == Op::MulCast ? Op::Mul : call.op == Op::AddReluCast ? Op::AddRelu : Op::SubRelu;
    const bool integers = call.src_type == Dtype::I16;
    const Loop combine = binary_loop(first, call.src_type, call.src_type);
    const Loop convert = integers ? nullptr : cast_loop(call.dst_type, call.src_type, 0);
    alignas(64) uint8_t values[3][256];
    const uint32_t repeats = static_cast<uint32_t>(shape.total_repeats());
    for (uint32_t repeat = 0; repeat < repeats; ++repeat) {
        const uint64_t first_element = uint64_t(repeat) * shape.lanes;
        const uint32_t lanes = shape.contiguous ? static_cast<uint32_t>(std::min<uint64_t>(shape.lanes, shape.count - first_element)) : shape.lanes_of(repeat);
        const auto at = [&](int which, uint32_t lane) {
            const uint64_t address = shape.contiguous ? operands[which].view->address + (first_element + lane) * operands[which].element
                                                      : operands[which].address(repeat, lane);
            return ub(block, static_cast<uint32_t>(address));
        };
        for (uint32_t lane = 0; lane < lanes; ++lane) {
            std::memcpy(values[0] + lane * src_bytes, at(1, lane), src_bytes);
            std::memcpy(values[1] + lane * src_bytes, at(2, lane), src_bytes);
        }
        combine(values[0], values[0], values[1], lanes, Scalar());
        if (integers) {
            for (uint32_t lane = 0; lane < lanes; ++lane) {
                int16_t value;
                std::memcpy(&value, values[0] + lane * 2, 2);
                values[2][lane] = static_cast<uint8_t>(static_cast<int8_t>(std::clamp<int16_t>(value, -128, 127)));
            }
        } else {
            convert(values[2], values[0], nullptr, lanes, Scalar());
        }
        for (uint32_t lane = 0; lane < lanes; ++lane) {
            if (shape.contiguous || shape.on(lane)) {
                std::memcpy(at(0, lane), values[2] + lane * dst_bytes, dst_bytes);
            }
        }
    }
}

} // namespace runtime
} // namespace kope_twin
