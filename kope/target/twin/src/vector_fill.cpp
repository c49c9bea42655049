// Duplicate, CreateVecIndex, Brcb, Copy.
#include <cstring>

#include "loops.h"
#include "vector_ops.h"

namespace kope_twin {
namespace runtime {

namespace {

uint64_t element_bits(Dtype dtype, double real, int64_t integer)
{
    uint64_t bits = 0;
    switch (dtype) {
        case Dtype::F32: {
            const float value = static_cast<float>(real);
            std::memcpy(&bits, &value, sizeof(value));
            return bits;
        }
        case Dtype::F16: {
            const half value = static_cast<half>(static_cast<float>(real));
            std::memcpy(&bits, &value, sizeof(value));
            return bits;
        }
        case Dtype::BF16: {
            const bfloat16_t value(static_cast<float>(real));
            return value.bits;
        }
        default:
            return static_cast<uint64_t>(integer);
    }
}

template <typename T> void fill_run(uint8_t* to, uint64_t count, uint64_t bits)
{
    T* elements = reinterpret_cast<T*>(to);
    const T value = static_cast<T>(bits);
    for (uint64_t k = 0; k < count; ++k) {
        elements[k] = value;
    }
}

void fill_elements(uint8_t* to, uint64_t count, uint64_t bits, uint32_t bytes)
{
    if (bytes == 4) {
        fill_run<uint32_t>(to, count, bits);
    } else {
        fill_run<uint16_t>(to, count, bits);
    }
}

Operand destination(const VectorCall& call)
{
    return {"dst", call.dst, static_cast<uint32_t>(size_of(call.dst_type)), call.form.block_stride[0], call.form.repeat_stride[0]};
}

// The value of element number `k`.
uint64_t bits_at(const VectorCall& call, uint64_t k)
{
    if (call.op == Op::Duplicate) {
        return element_bits(call.dst_type, call.scalar.real, call.scalar.integer);
    }
    return element_bits(call.dst_type, call.scalar.real + static_cast<double>(k), call.scalar.integer + static_cast<int64_t>(k));
}

} // namespace

void fill_values(Block& block, const VectorCall& call)
{
    const Instruction instruction = {call.name, kVector, call.site};
    const Operand dst = destination(call);
    Shape shape = shape_of(block, call, dst.element);
    flatten(shape, &dst, 1);
    charge(block, call, shape);
    if (shape.nothing() || !check(block, instruction, shape, &dst, 1, kCell) || !machine.verify) {
        return;
    }
    each_piece(shape, dst, [&](const Range& range) {
        write(block, instruction, range);
        fill(block, range, true);
    });
    if (shape.contiguous && call.op == Op::Duplicate) {
        fill_elements(ub(block, dst.view->address), shape.count, bits_at(call, 0), dst.element);
        return;
    }
    if (shape.contiguous) {
        for (uint64_t k = 0; k < shape.count; ++k) {
            const uint64_t bits = bits_at(call, k);
            std::memcpy(ub(block, static_cast<uint32_t>(dst.view->address + k * dst.element)), &bits, dst.element);
        }
        return;
    }
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        for (uint32_t lane = 0; lane < shape.lanes_of(repeat); ++lane) {
            if (shape.on(lane)) {
                const uint64_t bits = bits_at(call, uint64_t(repeat) * shape.lanes + lane);
                std::memcpy(ub(block, static_cast<uint32_t>(dst.address(repeat, lane))), &bits, dst.element);
            }
        }
    }
}

void copy_elements(Block& block, const VectorCall& call)
{
    const Instruction instruction = {call.name, kVector, call.site};
    const uint32_t bytes = static_cast<uint32_t>(size_of(call.dst_type));
    const Operand operands[2] = {destination(call), {"src", call.src0, bytes, call.form.block_stride[1], call.form.repeat_stride[1]}};
    // In counter mode the mask is the number of elements of every repeat, and the repeats stay what they are.
    const bool counter = block.counter_mode;
    VectorCall plain = call;
    if (counter && call.form.kind != Form::Contiguous) {
        plain.form.mask[0] = call.form.kind == Form::External ? block.mask[0] : call.form.mask[0];
        plain.form.kind = Form::Prefix;
        block.counter_mode = false;
    }
    Shape shape = shape_of(block, plain, bytes);
    flatten(shape, operands, 2);
    charge(block, call, shape);
    block.counter_mode = counter && call.form.kind != Form::Contiguous;
    if (shape.nothing() || !check(block, instruction, shape, operands, 2, kCell) || !machine.verify) {
        return;
    }
    each_piece(shape, operands[1], [&](const Range& range) { read(block, instruction, range); });
    each_piece(shape, operands[0], [&](const Range& range) { write(block, instruction, range); });
    if (shape.contiguous) {
        const Range source = {"src", operands[1].view->address, static_cast<uint32_t>(shape.count * bytes)};
        const Range target = {"dst", operands[0].view->address, static_cast<uint32_t>(shape.count * bytes)};
        const Range* const sources[] = {&source};
        flow(block, target, sources, 1);
        std::memmove(ub(block, target.address), ub(block, source.address), target.bytes);
        return;
    }
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        for (uint32_t lane = 0; lane < shape.lanes_of(repeat); ++lane) {
            if (!shape.on(lane)) {
                continue;
            }
            const Range source = {"src", static_cast<uint32_t>(operands[1].address(repeat, lane)), bytes};
            const Range target = {"dst", static_cast<uint32_t>(operands[0].address(repeat, lane)), bytes};
            const Range* const sources[] = {&source};
            flow(block, target, sources, 1);
            std::memcpy(ub(block, target.address), ub(block, source.address), bytes);
        }
    }
}

// Brcb: eight elements a repeat, each over one block.
void spread(Block& block, const VectorCall& call)
{
    const Instruction instruction = {call.name, kVector, call.site};
    const uint32_t bytes = static_cast<uint32_t>(size_of(call.dst_type));
    const uint32_t repeats = call.form.repeat > 0 ? static_cast<uint32_t>(call.form.repeat) : 0;
    block.trace.work(kVector, static_cast<uint32_t>(parameters.vector_head_cycles) + repeats);
    begin(block, instruction);
    if (repeats == 0) {
        return;
    }
    const uint64_t block_step = uint64_t(call.form.block_stride[0]) * kCell;
    const uint64_t repeat_step = uint64_t(call.form.repeat_stride[0]) * kCell;
    const uint64_t dst_span = (repeats - 1) * repeat_step + 7 * block_step + kCell;
    const uint64_t src_span = uint64_t(repeats) * 8 * bytes;
    const bool dst_fine = usable(block, instruction, "dst", *call.dst, dst_span, kCell);
    const bool src_fine = usable(block, instruction, "src", *call.src0, src_span, kCell);
    if (!dst_fine || !src_fine || !machine.verify) {
        return;
    }
    read(block, instruction, {"src", call.src0->address, static_cast<uint32_t>(src_span)});
    for (uint32_t k = 0; k < repeats * 8; ++k) {
        const Range source = {"src", call.src0->address + k * bytes, bytes};
        const Range target = {"dst", static_cast<uint32_t>(call.dst->address + (k / 8) * repeat_step + (k % 8) * block_step), kCell};
        write(block, instruction, target);
        const Range* const sources[] = {&source};
        flow(block, target, sources, 1);
        uint64_t bits = 0;
        std::memcpy(&bits, ub(block, source.address), bytes);
        fill_elements(ub(block, target.address), kCell / bytes, bits, bytes);
    }
}

} // namespace runtime
} // namespace kope_twin
