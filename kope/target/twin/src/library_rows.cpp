// Library functions over rows: softmax and its parts, sums and means, layer and RMS normalisation.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "access.h"
#include "library.h"

namespace kope_twin {
namespace runtime {

namespace {

// Vector instructions per row of elements, and per row besides. See library.cpp.
struct RowCost {
    double elements;
    double rows;
};

RowCost cost_of(RowsOp op)
{
    switch (op) {
        case RowsOp::SoftMax:
            return {6, 4};
        case RowsOp::SimpleSoftMax:
            return {4, 1};
        case RowsOp::SoftmaxFlash:
            return {5, 4};
        case RowsOp::SoftmaxFlashUpdate:
            return {5, 8};
        case RowsOp::SoftmaxGrad:
            return {5, 2};
        case RowsOp::SoftmaxGradFront:
            return {2, 2};
        case RowsOp::Sum:
            return {1, 1};
        case RowsOp::Mean:
            return {2, 1};
        case RowsOp::LayerNorm:
            return {9, 6};
        default:
            return {5, 4};
    }
}

float get(const uint8_t* from, Dtype dtype)
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

void put(uint8_t* to, float value, Dtype dtype)
{
    if (dtype == Dtype::F32) {
        std::memcpy(to, &value, sizeof(value));
        return;
    }
    const half narrow = static_cast<half>(value);
    std::memcpy(to, &narrow, sizeof(narrow));
}

// What is kept per row: one element, or one block of 32 bytes filled with it.
bool one_element(RowsOp op) { return op == RowsOp::Sum || op == RowsOp::Mean || op == RowsOp::LayerNorm; }

struct Rows {
    Block& block;
    const RowsCall& call;
    uint32_t element;      // bytes of one value
    uint32_t stat_element; // bytes of one statistic
    uint32_t stat_step;    // bytes from row to row

    const uint8_t* row(const UbView* view, uint32_t number) const { return ub(block, view->address) + size_t(number) * call.pitch * element; }
    float value(const UbView* view, uint32_t number, uint32_t column) const { return get(row(view, number) + column * element, call.dtype); }
    float along(const UbView* view, uint32_t column) const { return get(ub(block, view->address) + column * element, call.dtype); }
    float stat(const UbView* view, uint32_t number) const { return get(ub(block, view->address) + size_t(number) * stat_step, call.stat_dtype); }
    void set(uint32_t number, uint32_t column, float result) const
    {
        put(const_cast<uint8_t*>(row(call.dst, number)) + column * element, result, call.dtype);
    }
    void keep(const UbView* view, uint32_t number, float result) const
    {
        uint8_t* to = ub(block, view->address) + size_t(number) * stat_step;
        for (uint32_t at = 0; at < stat_step; at += stat_element) {
            put(to + at, result, call.stat_dtype);
        }
    }
};

void softmax(const Rows& rows, uint32_t number, std::vector<float>& work)
{
    const RowsCall& call = rows.call;
    const bool flash = call.op == RowsOp::SoftmaxFlash || call.op == RowsOp::SoftmaxFlashUpdate;
    const bool update = call.op == RowsOp::SoftmaxFlashUpdate;
    float most = -std::numeric_limits<float>::infinity();
    for (uint32_t k = 0; k < call.columns; ++k) {
        work[k] = rows.value(call.src, number, k);
        most = work[k] > most || work[k] != work[k] ? work[k] : most;
    }
    float scale = 1.0F;
    float before = 0.0F;
    if (update) {
        const float old = rows.stat(call.in[1], number);
        before = rows.stat(call.in[0], number);
        most = std::max(most, old);
        scale = std::exp(old - most);
    }
    float sum = 0.0F;
    for (uint32_t k = 0; k < call.columns; ++k) {
        work[k] = std::exp(work[k] - most);
        sum += work[k];
    }
    for (uint32_t k = 0; k < call.columns; ++k) {
        rows.set(number, k, flash ? work[k] : work[k] / sum);
    }
    if (call.out[0] != nullptr) {
        rows.keep(call.out[0], number, scale * before + sum);
    }
    if (call.out[1] != nullptr) {
        rows.keep(call.out[1], number, most);
    }
    if (update && call.out[2] != nullptr) {
        uint8_t* to = ub(rows.block, call.out[2]->address) + size_t(number) * 32;
        for (uint32_t at = 0; at < 32; at += rows.element) { // in the type of the values
            put(to + at, scale, call.dtype);
        }
    }
}

void gradient(const Rows& rows, uint32_t number)
{
    const RowsCall& call = rows.call;
    float sum = 0.0F;
    for (uint32_t k = 0; k < call.columns; ++k) {
        sum += rows.value(call.in[0], number, k) * rows.value(call.src, number, k);
    }
    if (call.op == RowsOp::SoftmaxGradFront) {
        uint8_t* to = ub(rows.block, call.dst->address) + size_t(number) * 32;
        for (uint32_t at = 0; at < 32; at += rows.element) {
            put(to + at, sum, call.dtype);
        }
        return;
    }
    for (uint32_t k = 0; k < call.columns; ++k) {
        rows.set(number, k, (rows.value(call.in[0], number, k) - sum) * rows.value(call.src, number, k));
    }
}

void normalise(const Rows& rows, uint32_t number, std::vector<float>& work)
{
    const RowsCall& call = rows.call;
    const float share = 1.0F / static_cast<float>(call.columns);
    float mean = 0.0F;
    float square = 0.0F;
    const bool centred = call.op == RowsOp::LayerNorm;
    for (uint32_t k = 0; k < call.columns; ++k) {
        work[k] = rows.value(call.src, number, k);
        mean += centred ? work[k] * share : 0.0F;
    }
    for (uint32_t k = 0; k < call.columns; ++k) {
        square += (work[k] - mean) * (work[k] - mean) * share;
    }
    const float factor = 1.0F / std::sqrt(square + static_cast<float>(call.epsilon));
    for (uint32_t k = 0; k < call.columns; ++k) {
        const float shift = centred ? rows.along(call.in[1], k) : 0.0F;
        rows.set(number, k, (work[k] - mean) * factor * rows.along(call.in[0], k) + shift);
    }
    if (centred) {
        rows.keep(call.out[0], number, mean);
        rows.keep(call.out[1], number, square);
    }
}

void one_row(const Rows& rows, uint32_t number, std::vector<float>& work)
{
    const RowsCall& call = rows.call;
    switch (call.op) {
        case RowsOp::SoftMax:
        case RowsOp::SoftmaxFlash:
        case RowsOp::SoftmaxFlashUpdate:
            return softmax(rows, number, work);
        case RowsOp::SimpleSoftMax:
            for (uint32_t k = 0; k < call.columns; ++k) {
                rows.set(number, k, std::exp(rows.value(call.src, number, k) - rows.stat(call.in[1], number)) / rows.stat(call.in[0], number));
            }
            return;
        case RowsOp::SoftmaxGrad:
        case RowsOp::SoftmaxGradFront:
            return gradient(rows, number);
        case RowsOp::Sum:
        case RowsOp::Mean: {
            float sum = 0.0F;
            for (uint32_t k = 0; k < call.columns; ++k) {
                sum += rows.value(call.src, number, k);
            }
            rows.keep(call.dst, number, call.op == RowsOp::Sum ? sum : sum / static_cast<float>(call.columns));
            return;
        }
        default:
            return normalise(rows, number, work);
    }
}

struct Part {
    const char* name;
    const UbView* view;
    uint64_t bytes;
    bool written;
};

// Everything the call touches, with its extent.
std::vector<Part> parts_of(const RowsCall& call, const Rows& rows)
{
    const uint64_t matrix = uint64_t(call.rows) * call.pitch * rows.element;
    const uint64_t stats = uint64_t(call.rows) * rows.stat_step;
    const bool reduces = call.op == RowsOp::Sum || call.op == RowsOp::Mean;
    const bool norm = call.op == RowsOp::LayerNorm || call.op == RowsOp::RmsNorm;
    const bool grad = call.op == RowsOp::SoftmaxGrad || call.op == RowsOp::SoftmaxGradFront;
    std::vector<Part> parts;
    parts.push_back({"src", call.src, matrix, false});
    for (const UbView* view : call.in) {
        if (view != nullptr) {
            parts.push_back({norm ? "gamma or beta" : grad ? "grad" : "sum or max", view, norm ? uint64_t(call.columns) * rows.element : grad ? matrix : stats, false});
        }
    }
    parts.push_back({"dst", call.dst, reduces ? stats : call.op == RowsOp::SoftmaxGradFront ? uint64_t(call.rows) * 32 : matrix, true});
    for (const UbView* view : call.out) {
        if (view != nullptr) {
            parts.push_back({"sum, max, mean or variance", view, view == call.out[2] ? uint64_t(call.rows) * 32 : stats, true});
        }
    }
    return parts;
}

bool valid_shape(const Instruction& instruction, const RowsCall& call, uint32_t element)
{
    if (call.columns != 0 && call.columns <= call.pitch && call.pitch * element % kCell == 0) {
        return true;
    }
    if (control::Finding* found = note("argument-range", instruction.site)) {
        describe(found, "pad rows to a multiple of 32 bytes and give the real length apart", "%s on %u rows of %u elements, %u of them valid (block %u)",
            instruction.name, call.rows, call.pitch, call.columns, current->index);
    }
    return false;
}

} // namespace
} // namespace runtime

namespace api {

using namespace runtime;

void library_rows(const RowsCall& call)
{
    Enter enter(call.name, call.site);
    Block& block = *current;
    const Instruction instruction = {call.name, kVector, call.site};
    const uint32_t element = static_cast<uint32_t>(size_of(call.dtype));
    const uint32_t stat_element = static_cast<uint32_t>(size_of(call.stat_dtype));
    const Rows rows = {block, call, element, stat_element, one_element(call.op) ? stat_element : kCell};
    const RowCost cost = cost_of(call.op);
    const double repeats = static_cast<double>((uint64_t(call.rows) * call.pitch * 4 + 255) / 256); // computed in float
    block.trace.scalar(static_cast<uint64_t>((cost.elements + cost.rows) * parameters.issue_cycles));
    block.trace.work(kVector, static_cast<uint32_t>((cost.elements + cost.rows) * parameters.vector_head_cycles + cost.elements * repeats + 7.0 * call.rows),
        control::VectorFp32);
    begin(block, instruction);
    if (call.rows == 0 || !valid_shape(instruction, call, element)) {
        return;
    }
    const std::vector<Part> parts = parts_of(call, rows);
    bool fine = true;
    for (const Part& part : parts) {
        fine = usable(block, instruction, part.name, *part.view, part.bytes, kCell) && fine;
    }
    if (!fine || !machine.verify) {
        return;
    }
    bool data = true;
    for (const Part& part : parts) {
        const Range range = {part.name, part.view->address, static_cast<uint32_t>(part.bytes)};
        if (!part.written) {
            read(block, instruction, range);
            data = data && block.memory->shadow.holds_data(range.first_cell(), range.last_cell());
        }
    }
    clobber(block, instruction, call.work);
    for (const Part& part : parts) {
        const Range range = {part.name, part.view->address, static_cast<uint32_t>(part.bytes)};
        if (part.written) {
            write(block, instruction, range);
            fill(block, range, data);
        }
    }
    std::vector<float> work(call.columns);
    for (uint32_t number = 0; number < call.rows; ++number) {
        one_row(rows, number, work);
    }
}

} // namespace api
} // namespace kope_twin
