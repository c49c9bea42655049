// Gather by offsets, GatherMask by bits.
#include <cstring>

#include "vector_ops.h"

namespace kope_twin {
namespace runtime {

void gather(Block& block, const VectorCall& call)
{
    const Instruction instruction = {call.name, kVector, call.site};
    const uint32_t bytes = static_cast<uint32_t>(size_of(call.dst_type));
    Shape shape = shape_of(block, call, bytes);
    const Operand operands[2] = {{"dst", call.dst, bytes, 1, 8}, {"srcOffset", call.mask, 4, 1, 8}};
    charge(block, call, shape);
    if (shape.nothing() || !check(block, instruction, shape, operands, 2, kCell)
        || !usable(block, instruction, "src", *call.src0, bytes, kCell) || !machine.verify) {
        return;
    }
    const Range offsets = {"srcOffset", call.mask->address, static_cast<uint32_t>(shape.count * 4)};
    read(block, instruction, offsets);
    require_data(block, instruction, offsets);
    const Range target = {"dst", call.dst->address, static_cast<uint32_t>(shape.count * bytes)};
    write(block, instruction, target);
    bool data = true;
    for (uint64_t k = 0; k < shape.count; ++k) {
        uint32_t offset = 0;
        std::memcpy(&offset, ub(block, static_cast<uint32_t>(call.mask->address + k * 4)), 4);
        const uint64_t from = call.src0->address + offset + static_cast<uint64_t>(call.scalar.integer);
        if (from + bytes > call.src0->limit || from % bytes != 0) {
            if (control::Finding* found = note("ub-oob", call.site)) {
                describe(found, "offsets count bytes, must be multiples of the element and stay inside the source",
                    "Gather takes element %llu from byte offset %u of src, which has %u bytes (block %u)", static_cast<unsigned long long>(k), offset,
                    call.src0->limit - call.src0->address, block.index);
            }
            continue;
        }
        const Range source = {"src", static_cast<uint32_t>(from), bytes};
        read(block, instruction, source);
        data = data && block.memory->shadow.holds_data(source.first_cell(), source.last_cell());
        std::memcpy(ub(block, static_cast<uint32_t>(call.dst->address + k * bytes)), ub(block, source.address), bytes);
    }
    fill(block, target, data);
}

namespace {

// Patterns 1 to 7 of GatherMask.
bool in_pattern(uint8_t pattern, uint64_t index)
{
    switch (pattern) {
        case 1:
        case 2:
            return index % 2 == pattern - 1U;
        case 7:
            return true;
        default:
            return index % 4 == pattern - 3U;
    }
}

bool valid_pattern(const VectorCall& call)
{
    if (call.mask != nullptr || (call.mode >= 1 && call.mode <= 7)) {
        return true;
    }
    if (control::Finding* found = note("argument-range", call.site)) {
        describe(found, "use a pattern from 1 to 7, or a tensor of bits", "GatherMask with pattern %u", call.mode);
    }
    return false;
}

} // namespace

// Elements of a repeat follow block by block; the kept ones close up over all repeats.
uint64_t keep_elements(Block& block, const VectorCall& call)
{
    const Instruction instruction = {call.name, kVector, call.site};
    const uint32_t bytes = static_cast<uint32_t>(size_of(call.dst_type));
    const Operand src = {"src0", call.src0, bytes, call.form.block_stride[1], call.form.repeat_stride[1]};
    Shape shape;
    shape.lanes = call.form.count;
    shape.last_lanes = call.form.count;
    shape.used = call.form.count;
    shape.repeats = static_cast<uint32_t>(call.form.repeat);
    const uint64_t pieces = (uint64_t(shape.lanes) * bytes + 255) / 256;
    block.trace.work(kVector, static_cast<uint32_t>(parameters.vector_head_cycles + static_cast<double>(shape.repeats * pieces) * cycles_per_repeat(call)));
    block.trace.join(pipe_bit(kVector)); // the count comes back through a register
    block.counter_mode = false;
    begin(block, instruction);
    if (shape.nothing() || !valid_pattern(call) || !usable(block, instruction, "src0", *call.src0, span_of(shape, src), kCell)) {
        return 0;
    }
    const uint64_t pattern_step = uint64_t(call.form.repeat_stride[2]) * kCell;
    const Range pattern = {"src1Pattern", call.mask != nullptr ? call.mask->address : 0,
        static_cast<uint32_t>((shape.repeats - 1) * pattern_step + (shape.lanes + 7) / 8)};
    if (call.mask != nullptr && !usable(block, instruction, pattern.operand, *call.mask, pattern.bytes, kCell)) {
        return 0;
    }
    if (!machine.verify) {
        machine.result.scalar_read = machine.result.scalar_read || call.mask != nullptr;
    }
    const uint8_t* bits = machine.verify && call.mask != nullptr ? ub(block, call.mask->address) : nullptr;
    const auto kept = [&](uint32_t repeat, uint32_t lane) {
        if (call.mask == nullptr) {
            return in_pattern(call.mode, lane);
        }
        return bits == nullptr || (bits[repeat * pattern_step + lane / 8] >> (lane % 8) & 1U) != 0;
    };
    uint64_t count = 0;
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
            count += kept(repeat, lane) ? 1 : 0;
        }
    }
    if (!usable(block, instruction, "dst", *call.dst, count * bytes, kCell) || !machine.verify) {
        return count;
    }
    bool data = true;
    each_piece(shape, src, [&](const Range& range) {
        read(block, instruction, range);
        data = data && block.memory->shadow.holds_data(range.first_cell(), range.last_cell());
    });
    if (call.mask != nullptr) {
        read(block, instruction, pattern);
        require_data(block, instruction, pattern);
    }
    const Range target = {"dst", call.dst->address, static_cast<uint32_t>(count * bytes)};
    write(block, instruction, target);
    fill(block, target, data);
    uint8_t* to = ub(block, call.dst->address);
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
            if (kept(repeat, lane)) {
                std::memcpy(to, ub(block, static_cast<uint32_t>(src.address(repeat, lane))), bytes);
                to += bytes;
            }
        }
    }
    return count;
}

} // namespace runtime
} // namespace kope_twin
