// Reductions: what is inside a repeat or a block folds pairwise as a tree, repeats fold in order.
#include <cstring>
#include <limits>

#include "loops.h"
#include "vector_ops.h"

namespace kope_twin {
namespace runtime {

namespace {

// AscendC::ReduceOrder
enum Order { ValueIndex, IndexValue, OnlyValue, OnlyIndex };

enum class Kind { Sum, Max, Min };

Kind kind_of(Op op)
{
    switch (op) {
        case Op::RepeatMax:
        case Op::BlockMax:
        case Op::ReduceMax:
            return Kind::Max;
        case Op::RepeatMin:
        case Op::BlockMin:
        case Op::ReduceMin:
            return Kind::Min;
        default:
            return Kind::Sum;
    }
}

float load(const uint8_t* from, Dtype dtype)
{
    if (dtype == Dtype::F32) {
        float value;
        std::memcpy(&value, from, sizeof(value));
        return value;
    }
    half value;
    std::memcpy(&value, from, sizeof(value));
    return static_cast<float>(value);
}

uint64_t stored_bits(float value, Dtype dtype)
{
    uint64_t bits = 0;
    if (dtype == Dtype::F32) {
        std::memcpy(&bits, &value, sizeof(value));
    } else {
        const half narrow = static_cast<half>(value);
        std::memcpy(&bits, &narrow, sizeof(narrow));
    }
    return bits;
}

// Rounds to the element type, as every step of the hardware's tree does.
float stepped(float value, Dtype dtype) { return dtype == Dtype::F32 ? value : static_cast<float>(static_cast<half>(value)); }

struct Folded {
    float value = 0.0F;
    uint32_t index = 0;
    bool any = false;
};

// Element k with element k + 1, then pairs of pairs. Lanes that are masked out count as nothing.
Folded fold_sum(float* values, const bool* on, uint32_t lanes, Dtype dtype)
{
    Folded result;
    uint32_t width = 1;
    while (width < lanes) {
        width *= 2;
    }
    for (uint32_t k = 0; k < width; ++k) {
        const bool takes_part = k < lanes && on[k];
        result.any = result.any || takes_part;
        values[k] = takes_part ? values[k] : 0.0F;
    }
    for (uint32_t count = width; count > 1; count /= 2) {
        for (uint32_t k = 0; k < count / 2; ++k) {
            values[k] = stepped(values[2 * k] + values[2 * k + 1], dtype);
        }
    }
    result.value = values[0];
    return result;
}

// The first of equal extremes; a NaN wins over everything.
Folded fold_extreme(const float* values, const bool* on, uint32_t lanes, bool largest)
{
    Folded result;
    for (uint32_t k = 0; k < lanes; ++k) {
        if (!on[k]) {
            continue;
        }
        const bool better = !result.any || (values[k] != values[k] && result.value == result.value)
            || (largest ? values[k] > result.value : values[k] < result.value);
        if (better) {
            result.value = values[k];
            result.index = k;
            result.any = true;
        }
    }
    return result;
}

Folded fold_lanes(Kind kind, float* values, const bool* on, uint32_t lanes, Dtype dtype)
{
    return kind == Kind::Sum ? fold_sum(values, on, lanes, dtype) : fold_extreme(values, on, lanes, kind == Kind::Max);
}

// The lanes of a repeat: values, and whether they take part.
struct Lanes {
    float values[256];
    bool on[256];
    uint32_t count = 0;
};

void gather_repeat(Block& block, const Shape& shape, const Operand& src, Dtype dtype, uint32_t repeat, Lanes& lanes)
{
    lanes.count = shape.lanes_of(repeat);
    if (src.block_stride == 1) {
        const uint8_t* from = ub(block, static_cast<uint32_t>(src.address(repeat, 0)));
        if (dtype == Dtype::F32) {
            std::memcpy(lanes.values, from, lanes.count * sizeof(float));
        } else {
            half_to_float(reinterpret_cast<const half*>(from), lanes.values, lanes.count);
        }
    } else {
        for (uint32_t lane = 0; lane < lanes.count; ++lane) {
            lanes.values[lane] = load(ub(block, static_cast<uint32_t>(src.address(repeat, lane))), dtype);
        }
    }
    for (uint32_t lane = 0; lane < lanes.count; ++lane) {
        lanes.on[lane] = shape.on(lane);
    }
}

// A contiguous call of `count` elements as repeats.
Shape as_repeats(const Shape& shape)
{
    if (!shape.contiguous) {
        return shape;
    }
    Shape repeats = shape;
    repeats.contiguous = false;
    repeats.repeats = static_cast<uint32_t>((shape.count + shape.lanes - 1) / shape.lanes);
    repeats.last_lanes = shape.count == 0 ? 0 : static_cast<uint32_t>(shape.count - uint64_t(repeats.repeats - 1) * shape.lanes);
    return repeats;
}

void put(Block& block, uint64_t address, uint64_t bits, uint32_t bytes) { std::memcpy(ub(block, static_cast<uint32_t>(address)), &bits, bytes); }

bool source_data(Block& block, const Shape& shape, const Operand& src, uint32_t repeat)
{
    const uint32_t lanes = shape.lanes_of(repeat);
    if (lanes == 0) {
        return true;
    }
    const uint32_t first = static_cast<uint32_t>(src.address(repeat, 0)) / kCell;
    const uint32_t last = (static_cast<uint32_t>(src.address(repeat, lanes - 1)) + src.element + kCell - 1) / kCell;
    return src.block_stride != 1 || block.memory->shadow.holds_data(first, last);
}

// One result per repeat: how many bytes, and how many results one of them is.
struct RepeatResult {
    uint32_t bytes;
    uint32_t alignment;
};

RepeatResult result_of(const VectorCall& call, uint32_t element)
{
    if (kind_of(call.op) == Kind::Sum || call.mode == OnlyValue) {
        return {element, element};
    }
    return call.mode == OnlyIndex ? RepeatResult{4, 4} : RepeatResult{2 * element, 2 * element};
}

void store_repeat(Block& block, const VectorCall& call, uint64_t address, const Folded& folded, uint32_t element)
{
    const uint64_t value = stored_bits(folded.value, call.src_type);
    const bool value_only = kind_of(call.op) == Kind::Sum || call.mode == OnlyValue;
    if (value_only) {
        put(block, address, value, element);
    } else if (call.mode == OnlyIndex) {
        put(block, address, folded.index, 4);
    } else {
        put(block, address, call.mode == ValueIndex ? value : folded.index, element);
        put(block, address + element, call.mode == ValueIndex ? folded.index : value, element);
    }
}

void fold_repeats(Block& block, const VectorCall& call, const Instruction& instruction, const Shape& shape, const Operand& src)
{
    const RepeatResult result = result_of(call, src.element);
    const uint64_t step = uint64_t(call.form.repeat_stride[0]) * result.bytes;
    const uint64_t span = (shape.repeats - 1) * step + result.bytes;
    const bool stored = call.dst != nullptr; // else only the accumulator is of interest
    if ((stored && !usable(block, instruction, "dst", *call.dst, span, result.alignment)) || !machine.verify) {
        return;
    }
    Lanes lanes;
    Folded last;
    float total = 0.0F;
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        gather_repeat(block, shape, src, call.src_type, repeat, lanes);
        const Folded folded = fold_lanes(kind_of(call.op), lanes.values, lanes.on, lanes.count, call.src_type);
        total = stepped(total + folded.value, call.src_type);
        last = folded;
        if (!stored) {
            continue;
        }
        const uint64_t address = call.dst->address + repeat * step;
        const Range target = {"dst", static_cast<uint32_t>(address), result.bytes};
        write(block, instruction, target);
        const bool data = source_data(block, shape, src, repeat);
        const bool shared = repeat > 0 && step < kCell && address / kCell == (address - step) / kCell; // the cell holds earlier results too
        fill(block, target, shared ? data && block.memory->shadow.holds_data(target.first_cell(), target.last_cell()) : data);
        store_repeat(block, call, address, folded, src.element);
    }
    block.reduction[0] = stored_bits(call.op == Op::RepeatSumAll ? total : last.value, call.src_type);
    block.reduction[1] = stored_bits(last.value, call.src_type);
    block.reduction[2] = last.index;
}

// Eight results a repeat, one for each block; a block without a single lane leaves its result as it was.
void fold_blocks(Block& block, const VectorCall& call, const Instruction& instruction, const Shape& shape, const Operand& src)
{
    const uint32_t element = src.element;
    const uint32_t per_repeat = 8 * element; // bytes of results
    const uint64_t step = uint64_t(call.form.repeat_stride[0]) * per_repeat;
    const uint32_t blocks = (shape.used + src.per_block() - 1) / src.per_block();
    const uint64_t span = (shape.repeats - 1) * step + uint64_t(blocks) * element;
    if (!usable(block, instruction, "dst", *call.dst, span, per_repeat) || !machine.verify) {
        return;
    }
    Lanes lanes;
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        gather_repeat(block, shape, src, call.src_type, repeat, lanes);
        const uint64_t address = call.dst->address + repeat * step;
        const Range target = {"dst", static_cast<uint32_t>(address), blocks * element};
        write(block, instruction, target);
        fill(block, target, source_data(block, shape, src, repeat));
        for (uint32_t at = 0; at < lanes.count; at += src.per_block()) {
            const uint32_t count = std::min(src.per_block(), lanes.count - at);
            const Folded folded = fold_lanes(kind_of(call.op), lanes.values + at, lanes.on + at, count, call.src_type);
            if (folded.any) {
                put(block, address + at / src.per_block() * element, stored_bits(folded.value, call.src_type), element);
            }
        }
    }
}

// Neighbours with even and odd index; half a repeat of results. A pair without a lane leaves its result as it was.
void fold_pairs(Block& block, const VectorCall& call, const Instruction& instruction, const Shape& shape, const Operand& src)
{
    const uint32_t element = src.element;
    const uint64_t step = uint64_t(call.form.repeat_stride[0]) * 128;
    const uint64_t span = (shape.repeats - 1) * step + uint64_t((shape.used + 1) / 2) * element;
    if (!usable(block, instruction, "dst", *call.dst, span, kCell) || !machine.verify) {
        return;
    }
    Lanes lanes;
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        gather_repeat(block, shape, src, call.src_type, repeat, lanes);
        const uint64_t address = call.dst->address + repeat * step;
        const Range target = {"dst", static_cast<uint32_t>(address), (lanes.count + 1) / 2 * element};
        write(block, instruction, target);
        fill(block, target, source_data(block, shape, src, repeat));
        for (uint32_t at = 0; at < lanes.count; at += 2) {
            const Folded folded = fold_sum(lanes.values + at, lanes.on + at, std::min(2U, lanes.count - at), call.src_type);
            if (folded.any) {
                put(block, address + at / 2 * element, stored_bits(folded.value, call.src_type), element);
            }
        }
    }
}

} // namespace

void fold(Block& block, const VectorCall& call)
{
    const Instruction instruction = {call.name, kVector, call.site};
    const uint32_t bytes = static_cast<uint32_t>(size_of(call.src_type));
    const Operand src = {"src", call.src0, bytes, call.form.block_stride[1], call.form.repeat_stride[1]};
    const Shape shape = shape_of(block, call, bytes);
    charge(block, call, shape);
    if (shape.nothing() || !check(block, instruction, shape, &src, 1, kCell)) {
        return;
    }
    if (machine.verify) {
        each_piece(shape, src, [&](const Range& range) { read(block, instruction, range); });
    }
    switch (call.op) {
        case Op::RepeatSum:
        case Op::RepeatSumAll:
        case Op::RepeatMax:
        case Op::RepeatMin:
            return fold_repeats(block, call, instruction, shape, src);
        case Op::PairSum:
            return fold_pairs(block, call, instruction, shape, src);
        default:
            return fold_blocks(block, call, instruction, shape, src);
    }
}

// Over everything. ReduceSum of the first n elements adds repeat after repeat; the masked forms fold the repeats' results as
// a tree as well. Work space is needed by the latter and by the extremes.
void reduce(Block& block, const VectorCall& call)
{
    const Instruction instruction = {call.name, kVector, call.site};
    const uint32_t bytes = static_cast<uint32_t>(size_of(call.src_type));
    const Operand src = {"src", call.src0, bytes, 1, call.form.repeat_stride[1]};
    const Shape asked = shape_of(block, call, bytes);
    charge(block, call, asked);
    const Shape shape = as_repeats(asked);
    const Kind kind = kind_of(call.op);
    const bool index = call.mode != 0;
    if (shape.nothing()) {
        begin(block, instruction);
        return;
    }
    // The result is put together by further instructions, and by the scalar unit.
    const double further = static_cast<double>(shape.repeats) / shape.lanes * (kind == Kind::Sum ? 1.0 : 2.0);
    if (kind != Kind::Sum || call.form.kind != Form::Contiguous) {
        block.trace.work(kVector, static_cast<uint32_t>(parameters.vector_head_cycles + 7.0 * (further + 1.0)),
            call.src_type == Dtype::F32 ? control::VectorFp32 : control::VectorFp16);
    }
    if (kind == Kind::Sum || index) {
        block.trace.join(pipe_bit(kVector));
        block.trace.scalar(static_cast<uint64_t>(parameters.ub_scalar_write_cycles));
    }
    begin(block, instruction);
    const uint32_t result_bytes = index ? 2 * bytes : bytes;
    const bool src_fine = usable(block, instruction, "src", *call.src0, span_of(shape, src), kCell);
    const bool dst_fine = usable(block, instruction, "dst", *call.dst, result_bytes, result_bytes);
    if (!src_fine || !dst_fine) {
        return;
    }
    const bool uses_work = kind != Kind::Sum || call.form.kind != Form::Contiguous;
    if (uses_work) {
        const uint32_t per_repeat = kind == Kind::Sum ? bytes : 2 * bytes;
        const uint64_t needed = (uint64_t(shape.repeats) * per_repeat + kCell - 1) / kCell * kCell;
        if (!usable(block, instruction, "sharedTmpBuffer", *call.mask, needed, kCell)) {
            return;
        }
        if (machine.verify) {
            const Range work = {"sharedTmpBuffer", call.mask->address, static_cast<uint32_t>(needed)};
            write(block, instruction, work);
        }
    }
    if (!machine.verify) {
        return;
    }
    each_piece(shape, src, [&](const Range& range) { read(block, instruction, range); });
    bool data = true;
    Lanes lanes;
    std::vector<float> results;
    Folded total;
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        data = data && source_data(block, shape, src, repeat);
        gather_repeat(block, shape, src, call.src_type, repeat, lanes);
        const Folded folded = fold_lanes(kind, lanes.values, lanes.on, lanes.count, call.src_type);
        if (kind == Kind::Sum && uses_work) {
            results.push_back(folded.value);
        } else if (kind == Kind::Sum) {
            total.value = total.any ? stepped(total.value + folded.value, call.src_type) : folded.value;
            total.any = true;
        } else if (folded.any) {
            const bool nan = folded.value != folded.value && total.value == total.value;
            if (!total.any || nan || (kind == Kind::Max ? folded.value > total.value : folded.value < total.value)) {
                total = folded;
                total.index = repeat * shape.lanes + folded.index;
            }
        }
    }
    while (results.size() > 1) { // the tree over repeats, 256 bytes at a time
        std::vector<float> shorter;
        for (size_t at = 0; at < results.size(); at += shape.lanes) {
            lanes.count = static_cast<uint32_t>(std::min<size_t>(shape.lanes, results.size() - at));
            for (uint32_t k = 0; k < lanes.count; ++k) {
                lanes.values[k] = results[at + k];
                lanes.on[k] = true;
            }
            shorter.push_back(fold_sum(lanes.values, lanes.on, lanes.count, call.src_type).value);
        }
        results = std::move(shorter);
    }
    if (!results.empty()) {
        total.value = results[0];
    }
    const Range target = {"dst", call.dst->address, result_bytes};
    write(block, instruction, target);
    fill(block, target, data);
    put(block, target.address, stored_bits(total.value, call.src_type), bytes);
    if (index) {
        put(block, target.address + bytes, total.index, bytes);
    }
    block.reduction[0] = stored_bits(total.value, call.src_type);
    block.reduction[1] = block.reduction[0];
    block.reduction[2] = total.index;
}

} // namespace runtime
} // namespace kope_twin
