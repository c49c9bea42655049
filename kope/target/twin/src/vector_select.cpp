// Compare and Select: bits out of comparisons, and elements chosen by bits.
#include <cstring>

#include "loops.h"
#include "vector_ops.h"

namespace kope_twin {
namespace runtime {

namespace {

// AscendC::CMPMODE
enum Mode { Lt, Gt, Eq, Le, Ge, Ne };

template <typename T> bool holds(int mode, T a, T b)
{
    switch (mode) {
        case Lt:
            return a < b;
        case Gt:
            return a > b;
        case Eq:
            return a == b;
        case Le:
            return a <= b;
        case Ge:
            return a >= b;
        default:
            return a != b;
    }
}

template <typename T> void compare_run(int mode, const T* a, const T* b, T scalar, uint8_t* bits, uint32_t count)
{
    for (uint32_t k = 0; k < count; k += 8) {
        uint8_t byte = 0;
        for (uint32_t bit = 0; bit < 8; ++bit) {
            byte = static_cast<uint8_t>(byte | (holds(mode, a[k + bit], b != nullptr ? b[k + bit] : scalar) ? 1U << bit : 0U));
        }
        bits[k / 8] = byte;
    }
}

// One repeat's worth of contiguous elements, or the whole of a contiguous call.
void compare_elements(const VectorCall& call, const uint8_t* a, const uint8_t* b, uint8_t* bits, uint32_t count)
{
    if (call.src_type == Dtype::F32) {
        compare_run(call.mode, reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b), static_cast<float>(call.scalar.real), bits, count);
    } else if (call.src_type == Dtype::I32) {
        compare_run(call.mode, reinterpret_cast<const int32_t*>(a), reinterpret_cast<const int32_t*>(b), static_cast<int32_t>(call.scalar.integer), bits,
            count);
    } else {
        float left[256];
        float right[256];
        for (uint32_t at = 0; at < count; at += 256) {
            const uint32_t piece = std::min(256U, count - at);
            half_to_float(reinterpret_cast<const half*>(a) + at, left, piece);
            if (b != nullptr) {
                half_to_float(reinterpret_cast<const half*>(b) + at, right, piece);
            }
            compare_run(call.mode, left, b != nullptr ? right : nullptr, static_cast<float>(call.scalar.real), bits + at / 8, piece);
        }
    }
}

bool supported(const VectorCall& call)
{
    if (call.src_type != Dtype::I32 || call.mode == Eq) {
        return true;
    }
    if (control::Finding* found = note("unsupported", call.site)) {
        describe(found, "Cast int32_t to float first, or compare for EQ", "%s on int32_t knows EQ only on this chip", call.name);
    }
    return false;
}

} // namespace

void compare(Block& block, const VectorCall& call)
{
    const Instruction instruction = {call.name, kVector, call.site};
    const uint32_t bytes = static_cast<uint32_t>(size_of(call.src_type));
    Shape shape = shape_of(block, call, bytes);
    if (shape.contiguous && shape.count % shape.lanes != 0) {
        if (control::Finding* found = note("count-align", call.site)) {
            describe(found, "round the count up to 256 bytes (64 floats, 128 halfs) and allocate for it",
                "%s of %llu elements compares only %llu: the count must fill whole 256 bytes (block %u)", call.name,
                static_cast<unsigned long long>(shape.count), static_cast<unsigned long long>(shape.count / shape.lanes * shape.lanes), block.index);
        }
        shape.count = shape.count / shape.lanes * shape.lanes;
    }
    Operand operands[2] = {{"src0", call.src0, bytes, call.form.block_stride[1], call.form.repeat_stride[1]},
        {"src1", call.src1, bytes, call.form.block_stride[2], call.form.repeat_stride[2]}};
    const int sources = call.src1 != nullptr ? 2 : 1;
    flatten(shape, operands, sources);
    charge(block, call, shape);
    if (shape.nothing() || !supported(call)) {
        begin(block, instruction);
        return;
    }
    const uint64_t elements = shape.contiguous ? shape.count : uint64_t(shape.repeats) * shape.lanes;
    const Range target = {"dst", call.dst->address, static_cast<uint32_t>(elements / 8)};
    const bool sources_fine = check(block, instruction, shape, operands, sources, kCell);
    const bool target_fine = usable(block, instruction, "dst", *call.dst, target.bytes, kCell);
    if (!sources_fine || !target_fine || !machine.verify) {
        return;
    }
    Range ranges[2];
    const Range* flows[2];
    for (int k = 0; k < sources; ++k) {
        each_piece(shape, operands[k], [&](const Range& range) { read(block, instruction, range); });
        ranges[k] = {operands[k].name, operands[k].view->address, static_cast<uint32_t>(span_of(shape, operands[k]))};
        flows[k] = &ranges[k];
    }
    write(block, instruction, target);
    flow(block, target, flows, sources);
    uint8_t* bits = ub(block, call.dst->address);
    if (shape.contiguous) {
        compare_elements(call, ub(block, call.src0->address), call.src1 != nullptr ? ub(block, call.src1->address) : nullptr, bits,
            static_cast<uint32_t>(shape.count));
        return;
    }
    alignas(64) uint8_t gathered[2][256];
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        for (int k = 0; k < sources; ++k) {
            for (uint32_t lane = 0; lane < shape.lanes; lane += operands[k].per_block()) {
                std::memcpy(gathered[k] + lane * bytes, ub(block, static_cast<uint32_t>(operands[k].address(repeat, lane))), kCell);
            }
        }
        compare_elements(call, gathered[0], sources == 2 ? gathered[1] : nullptr, bits + repeat * shape.lanes / 8, shape.lanes);
    }
}

// Selections by a mask in UB work in the last 8 KB of the unified buffer: what a kernel keeps there is gone.
void use_reserved(Block& block, const VectorCall& call)
{
    constexpr uint32_t reserved = 8192;
    const uint32_t begin = static_cast<uint32_t>(parameters.ub_bytes) - reserved;
    if (call.mode == 0 || block.ub_peak <= begin) {
        return;
    }
    if (control::Finding* found = note("ub-reserved", call.site)) {
        describe(found, "keep buffers below 184 KB when the kernel selects by a mask tensor, or select in mode VSEL_CMPMASK_SPR",
            "Select in this mode works in UB bytes %u to %u, which the kernel's buffers reach into (they take %u bytes, block %u)", begin,
            begin + reserved, block.ub_peak, block.index);
    }
    if (machine.verify) {
        std::memset(ub(block, begin), 0xff, reserved);
    }
}

void select(Block& block, const VectorCall& call)
{
    const Instruction instruction = {call.name, kVector, call.site};
    use_reserved(block, call);
    const uint32_t bytes = static_cast<uint32_t>(size_of(call.dst_type));
    const Operand operands[3] = {{"dst", call.dst, bytes, call.form.block_stride[0], call.form.repeat_stride[0]},
        {"src0", call.src0, bytes, call.form.block_stride[1], call.form.repeat_stride[1]},
        {"src1", call.src1, bytes, call.form.block_stride[2], call.form.repeat_stride[2]}};
    const int count = call.src1 != nullptr ? 3 : 2;
    Shape shape = shape_of(block, call, bytes);
    charge(block, call, shape);
    if (shape.nothing()) {
        begin(block, instruction);
        return;
    }
    const bool same_bits = call.mode == 0; // VSEL_CMPMASK_SPR: every repeat uses the first bits again
    const uint64_t elements = shape.contiguous ? shape.count : uint64_t(shape.repeats) * shape.lanes;
    const uint64_t bit_count = same_bits ? std::min<uint64_t>(elements, shape.lanes) : elements;
    const Range chosen = {"selMask", call.mask->address, static_cast<uint32_t>((bit_count + 7) / 8)};
    const bool fine = check(block, instruction, shape, operands, count, kCell);
    if (!usable(block, instruction, "selMask", *call.mask, chosen.bytes, kCell) || !fine || !machine.verify) {
        return;
    }
    read(block, instruction, chosen);
    const Range* flows[3] = {&chosen, nullptr, nullptr};
    Range ranges[3];
    for (int k = 1; k < count; ++k) {
        each_piece(shape, operands[k], [&](const Range& range) { read(block, instruction, range); });
        ranges[k] = {operands[k].name, operands[k].view->address, static_cast<uint32_t>(span_of(shape, operands[k]))};
        flows[k] = &ranges[k];
    }
    each_piece(shape, operands[0], [&](const Range& range) { write(block, instruction, range); });
    const Range target = {"dst", call.dst->address, static_cast<uint32_t>(span_of(shape, operands[0]))};
    flow(block, target, flows, count);

    uint64_t other = 0;
    const float real = static_cast<float>(call.scalar.real);
    const half narrow = static_cast<half>(real);
    std::memcpy(&other, bytes == 4 ? static_cast<const void*>(&real) : static_cast<const void*>(&narrow), bytes);
    const uint8_t* bits = ub(block, call.mask->address);
    const uint32_t repeats = shape.contiguous ? static_cast<uint32_t>((shape.count + shape.lanes - 1) / shape.lanes) : shape.repeats;
    for (uint32_t repeat = 0; repeat < repeats; ++repeat) {
        const uint64_t first = uint64_t(repeat) * shape.lanes;
        const uint32_t lanes = shape.contiguous ? static_cast<uint32_t>(std::min<uint64_t>(shape.lanes, shape.count - first)) : shape.lanes_of(repeat);
        for (uint32_t lane = 0; lane < lanes; ++lane) {
            if (!shape.contiguous && !shape.on(lane)) {
                continue;
            }
            const uint64_t bit = same_bits ? lane : first + lane;
            const auto at = [&](int which) {
                const uint64_t address = shape.contiguous ? operands[which].view->address + (first + lane) * bytes : operands[which].address(repeat, lane);
                return ub(block, static_cast<uint32_t>(address));
            };
            const bool takes_first = (bits[bit / 8] >> (bit % 8) & 1U) != 0;
            const void* from = takes_first ? at(1) : (call.src1 != nullptr ? static_cast<const void*>(at(2)) : &other);
            std::memmove(at(0), from, bytes);
        }
    }
}

} // namespace runtime
} // namespace kope_twin
