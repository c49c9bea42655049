// Vector instructions: checks and costs for all of them, and the elementwise ones themselves.
#include <cstring>

#include "geometry.h"
#include "loops.h"
#include "vector_ops.h"

namespace kope_twin {
namespace runtime {

namespace {

struct Elementwise {
    Loop loop = nullptr;
    Operand operands[3]; // dst, src0, src1
    int sources = 0;
    bool dst_is_source = false;
};

bool reads_destination(Op op)
{
    return op == Op::Axpy || op == Op::MulAddDst || op == Op::FusedMulAdd || op == Op::FusedMulAddRelu;
}

Loop loop_of(const Block& block, const VectorCall& call)
{
    if (call.op == Op::Cast) {
        if (call.dst_type == Dtype::F16 && call.src_type == Dtype::I32 && !block.deq_set) {
            if (control::Finding* found = note("deq-scale", call.site, control::Severity::Warning)) {
                describe(found, "call SetDeqScale((half)1.0) before it", "Cast from int32_t to half multiplies by a scale that SetDeqScale has not set");
            }
        }
        return cast_loop(call.dst_type, call.src_type, call.mode);
    }
    if (call.src1 != nullptr) {
        return binary_loop(call.op, call.dst_type, call.src_type);
    }
    Loop loop = unary_loop(call.op, call.src_type);
    return loop != nullptr ? loop : scalar_loop(call.op, call.dst_type, call.src_type);
}

// Masked or strided: elements are brought together, worked on, and put back where the mask allows.
void run_scattered(Block& block, const Shape& shape, const Elementwise& work, const Scalar& scalar)
{
    alignas(64) uint8_t dst[512];
    alignas(64) uint8_t sources[2][512];
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        const uint32_t lanes = shape.lanes_of(repeat);
        for (int k = 0; k < work.sources; ++k) {
            const Operand& operand = work.operands[1 + k];
            for (uint32_t lane = 0; lane < lanes; lane += operand.per_block()) {
                std::memcpy(sources[k] + lane * operand.element, ub(block, static_cast<uint32_t>(operand.address(repeat, lane))),
                    std::min(operand.per_block(), lanes - lane) * operand.element);
            }
        }
        const Operand& target = work.operands[0];
        if (work.dst_is_source) {
            for (uint32_t lane = 0; lane < lanes; lane += target.per_block()) {
                std::memcpy(dst + lane * target.element, ub(block, static_cast<uint32_t>(target.address(repeat, lane))),
                    std::min(target.per_block(), lanes - lane) * target.element);
            }
        }
        work.loop(dst, sources[0], sources[1], lanes, scalar);
        for (uint32_t lane = 0; lane < lanes; ++lane) {
            if (shape.on(lane)) {
                std::memcpy(ub(block, static_cast<uint32_t>(target.address(repeat, lane))), dst + lane * target.element, target.element);
            }
        }
    }
}

void run(Block& block, const Shape& shape, const Elementwise& work, const Scalar& scalar)
{
    const Operand* operands = work.operands;
    const auto at = [&](int which, uint32_t repeat) {
        return which <= work.sources ? ub(block, static_cast<uint32_t>(operands[which].address(repeat, 0))) : nullptr;
    };
    if (shape.contiguous) {
        work.loop(at(0, 0), at(1, 0), at(2, 0), shape.count, scalar);
        return;
    }
    bool dense = shape.prefix;
    for (int k = 0; k <= work.sources; ++k) {
        dense = dense && operands[k].block_stride == 1;
    }
    if (!dense) {
        run_scattered(block, shape, work, scalar);
        return;
    }
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        work.loop(at(0, repeat), at(1, repeat), at(2, repeat), shape.lanes_of(repeat), scalar);
    }
}

// Data comes from where it came from, repeat by repeat when the operands are not in step.
void trace_data(Block& block, const Shape& shape, const Elementwise& work)
{
    const auto range_of = [&](int which, uint32_t repeat, uint32_t lanes) {
        const Operand& operand = work.operands[which];
        const uint32_t begin = static_cast<uint32_t>(operand.address(repeat, 0));
        const uint32_t end = static_cast<uint32_t>(operand.address(repeat, lanes - 1)) + operand.element;
        return Range{operand.name, begin, end - begin};
    };
    const auto step = [&](uint32_t repeat, uint32_t lanes) {
        Range ranges[3];
        const Range* sources[3];
        int count = 0;
        for (int k = 1; k <= work.sources; ++k) {
            ranges[k] = range_of(k, repeat, lanes);
            sources[count++] = &ranges[k];
        }
        ranges[0] = range_of(0, repeat, lanes);
        if (work.dst_is_source) {
            sources[count++] = &ranges[0];
        }
        flow(block, ranges[0], sources, count);
    };
    if (shape.contiguous) {
        Range ranges[3];
        const Range* sources[3];
        int count = 0;
        for (int k = 0; k <= work.sources; ++k) {
            ranges[k] = {work.operands[k].name, work.operands[k].view->address, static_cast<uint32_t>(shape.count * work.operands[k].element)};
            if (k > 0 || work.dst_is_source) {
                sources[count++] = &ranges[k];
            }
        }
        flow(block, ranges[0], sources, count);
        return;
    }
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        if (shape.lanes_of(repeat) > 0) {
            step(repeat, shape.lanes_of(repeat));
        }
    }
}

void elementwise(Block& block, const VectorCall& call)
{
    const Instruction instruction = {call.name, kVector, call.site};
    Elementwise work;
    const uint32_t dst_bytes = static_cast<uint32_t>(size_of(call.dst_type));
    const uint32_t src_bytes = static_cast<uint32_t>(size_of(call.src_type));
    const Form& form = call.form;
    work.operands[0] = {"dst", call.dst, dst_bytes, form.block_stride[0], form.repeat_stride[0]};
    if (call.src0 != nullptr) {
        work.operands[++work.sources] = {call.src1 != nullptr ? "src0" : "src", call.src0, src_bytes, form.block_stride[1], form.repeat_stride[1]};
    }
    if (call.src1 != nullptr) {
        work.operands[++work.sources] = {"src1", call.src1, src_bytes, form.block_stride[2], form.repeat_stride[2]};
    }
    work.dst_is_source = reads_destination(call.op);
    Shape shape = shape_of(block, call, std::max(dst_bytes, src_bytes));
    flatten(shape, work.operands, work.sources + 1);
    charge(block, call, shape);
    if (shape.nothing() || !check(block, instruction, shape, work.operands, work.sources + 1, kCell) || !machine.verify) {
        return;
    }
    work.loop = loop_of(block, call);
    for (int k = 1; k <= work.sources; ++k) {
        each_piece(shape, work.operands[k], [&](const Range& range) { read(block, instruction, range); });
    }
    if (work.dst_is_source) {
        each_piece(shape, work.operands[0], [&](const Range& range) { read(block, instruction, range); });
    }
    each_piece(shape, work.operands[0], [&](const Range& range) { write(block, instruction, range); });
    trace_data(block, shape, work);
    Scalar scalar = call.scalar;
    if (call.op == Op::Cast) {
        scalar.real = block.deq_scale;
    }
    run(block, shape, work, scalar);
}

} // namespace

namespace {

int type_of(const VectorCall& call)
{
    switch (call.op) {
        case Op::Duplicate:
        case Op::Copy:
        case Op::Brcb:
        case Op::Gather:
        case Op::GatherMask:
        case Op::Select:
        case Op::SelectScalar:
        case Op::CreateVecIndex:
            return control::VectorMisc;
        default:
            break;
    }
    const Dtype wider = size_of(call.dst_type) > size_of(call.src_type) ? call.dst_type : call.src_type;
    switch (wider) {
        case Dtype::F32:
            return control::VectorFp32;
        case Dtype::F16:
        case Dtype::BF16:
            return control::VectorFp16;
        case Dtype::I32:
        case Dtype::U32:
            return control::VectorInt32;
        case Dtype::I16:
        case Dtype::U16:
            return control::VectorInt16;
        default:
            return control::VectorMisc;
    }
}

} // namespace

void charge(Block& block, const VectorCall& call, const Shape& shape)
{
    const double repeats = static_cast<double>(shape.nothing() ? 0 : shape.total_repeats());
    const double cycles = parameters.vector_head_cycles + repeats * cycles_per_repeat(call);
    block.trace.work(kVector, static_cast<uint32_t>(cycles), type_of(call));
    if (call.form.kind == Form::Contiguous) { // these forms use the mask themselves and leave it as it is by default
        block.counter_mode = false;
        block.mask[0] = ~0ULL;
        block.mask[1] = ~0ULL;
    } else if (call.form.kind != Form::External && !block.counter_mode) {
        block.mask[0] = shape.mask[0];
        block.mask[1] = shape.mask[1];
    }
}

bool check(Block& block, const Instruction& instruction, const Shape& shape, const Operand* operands, int count, uint32_t alignment)
{
    begin(block, instruction);
    bool fine = true;
    if (!shape.contiguous && shape.repeats > 255 && !block.counter_mode) {
        if (control::Finding* found = note("argument-range", instruction.site)) {
            describe(found, "split the call: the repeat count has 8 bits", "%s with %u repeats, the most is 255 (block %u)", instruction.name,
                shape.repeats, block.index);
        }
    }
    for (int k = 0; k < count; ++k) {
        fine = usable(block, instruction, operands[k].name, *operands[k].view, span_of(shape, operands[k]), alignment) && fine;
    }
    return fine;
}

} // namespace runtime

namespace api {

using namespace runtime;

void vector(const VectorCall& call)
{
    Enter enter(call.name, call.site);
    Block& block = *current;
    switch (call.op) {
        case Op::Duplicate:
        case Op::CreateVecIndex:
            return fill_values(block, call);
        case Op::Brcb:
            return spread(block, call);
        case Op::Gather:
            return gather(block, call);
        case Op::Copy:
            return copy_elements(block, call);
        case Op::Compare:
        case Op::CompareScalar:
            return compare(block, call);
        case Op::Select:
        case Op::SelectScalar:
            return select(block, call);
        case Op::RepeatSum:
        case Op::RepeatSumAll:
        case Op::RepeatMax:
        case Op::RepeatMin:
        case Op::BlockSum:
        case Op::BlockMax:
        case Op::BlockMin:
        case Op::PairSum:
            return fold(block, call);
        case Op::ReduceSum:
        case Op::ReduceMax:
        case Op::ReduceMin:
            return reduce(block, call);
        case Op::MulCast:
        case Op::AddReluCast:
        case Op::SubReluCast:
            return combine_and_cast(block, call);
        default:
            return elementwise(block, call);
    }
}

uint64_t gather_mask(const VectorCall& call)
{
    Enter enter(call.name, call.site);
    return keep_elements(*current, call);
}

void set_mask(uint64_t high, uint64_t low)
{
    Enter enter("SetVectorMask", machine.last_site);
    current->trace.scalar(1);
    current->mask[0] = low;
    current->mask[1] = high;
}

void set_mask_mode(bool counter)
{
    Enter enter("SetMaskCount", machine.last_site);
    current->trace.scalar(1);
    current->counter_mode = counter;
}

void set_deq_scale(double scale)
{
    Enter enter("SetDeqScale", machine.last_site);
    current->trace.scalar(1);
    current->deq_set = true;
    current->deq_scale = scale;
}

uint64_t last_reduction(int which)
{
    Enter enter("GetReduceRepeatSumSpr", machine.last_site);
    Block& block = *current;
    block.trace.join(pipe_bit(kVector));
    block.trace.scalar(static_cast<uint64_t>(parameters.flag_cycles));
    if (!machine.verify) {
        machine.result.scalar_read = true;
        return 0;
    }
    return block.reduction[which];
}

} // namespace api
} // namespace kope_twin
