// Library functions element by element: values in double precision, rounded once; costs as so many vector instructions each.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "library.h"

namespace kope_twin {
namespace runtime {

namespace {

// Vector instructions the device spends per element. None is published; counted from the operations of the usual
// evaluation (range reduction, polynomial, selection).
struct Function {
    LibraryOp op;
    double instructions;
    double (*value)(double a, double b, const double* scalar);
};

double sign_of(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double gelu(double x) { return x / (1.0 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))); }

double digamma(double x)
{
    if (x <= 0.0 && x == std::floor(x)) {
        return std::nan("");
    }
    if (x < 0.0) {
        return digamma(1.0 - x) - 3.14159265358979323846 / std::tan(3.14159265358979323846 * x);
    }
    double result = 0.0;
    for (; x < 10.0; x += 1.0) {
        result -= 1.0 / x;
    }
    const double y = 1.0 / (x * x);
    return result + std::log(x) - 0.5 / x - y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y / 132))));
}

#define KOPE_ONE(NAME, INSTRUCTIONS, VALUE)                                                                                                \
    {                                                                                                                                      \
        LibraryOp::NAME, INSTRUCTIONS, [](double a, double, const double*) -> double { return VALUE; }                                     \
    }
#define KOPE_ANY(NAME, INSTRUCTIONS, VALUE)                                                                                                \
    {                                                                                                                                      \
        LibraryOp::NAME, INSTRUCTIONS, []([[maybe_unused]] double a, [[maybe_unused]] double b, [[maybe_unused]] const double* s) -> double { return VALUE; } \
    }

const Function functions[] = {KOPE_ONE(Acos, 22, std::acos(a)), KOPE_ONE(Acosh, 6, std::acosh(a)), KOPE_ONE(Asin, 20, std::asin(a)),
    KOPE_ONE(Asinh, 10, std::asinh(a)), KOPE_ONE(Atan, 18, std::atan(a)), KOPE_ONE(Atanh, 6, std::atanh(a)), KOPE_ONE(Ceil, 2, std::ceil(a)),
    KOPE_ONE(Cos, 22, std::cos(a)), KOPE_ONE(Cosh, 6, std::cosh(a)), KOPE_ONE(Digamma, 60, digamma(a)), KOPE_ONE(Erf, 18, std::erf(a)),
    KOPE_ONE(Erfc, 24, std::erfc(a)), KOPE_ONE(Exp, 14, std::exp(a)), KOPE_ONE(Floor, 2, std::floor(a)), KOPE_ONE(Frac, 3, a - std::trunc(a)),
    KOPE_ONE(Lgamma, 60, std::lgamma(a)), KOPE_ONE(Log, 1, std::log(a)), KOPE_ONE(Log2, 2, std::log2(a)), KOPE_ONE(Log10, 2, std::log10(a)),
    KOPE_ONE(Rint, 2, std::nearbyint(a)), KOPE_ONE(Round, 2, std::round(a)), KOPE_ONE(Sign, 8, sign_of(a)), KOPE_ONE(Sin, 20, std::sin(a)),
    KOPE_ONE(Sinh, 6, std::sinh(a)), KOPE_ONE(Tan, 30, std::tan(a)), KOPE_ONE(Tanh, 8, std::tanh(a)), KOPE_ONE(Trunc, 2, std::trunc(a)),
    KOPE_ONE(Gelu, 9, gelu(a)), KOPE_ONE(FasterGelu, 8, a * sigmoid(1.702 * a)), KOPE_ONE(Sigmoid, 4, sigmoid(a)), KOPE_ONE(Silu, 4, a * sigmoid(a)),
    KOPE_ANY(Swish, 4, a * sigmoid(s[0] * a)), KOPE_ANY(ClampMax, 1, a < s[0] ? a : s[0]), KOPE_ANY(ClampMin, 1, a > s[0] ? a : s[0]),
    KOPE_ANY(Quant, 5, std::nearbyint(a * s[0] + s[1])), KOPE_ANY(Dequant, 3, a * s[0]), KOPE_ANY(AntiQuant, 4, s[0] * (a + s[1])),
    KOPE_ANY(Progression, 2, s[0] + s[1] * a), KOPE_ANY(Power, 12, std::pow(a, b)), KOPE_ANY(Fmod, 6, std::fmod(a, b)), KOPE_ANY(GeGlu, 10, a * gelu(b)),
    KOPE_ANY(ReGlu, 2, a * (b > 0.0 ? b : 0.0)), KOPE_ANY(SwiGlu, 6, a * (b * sigmoid(s[0] * b))), KOPE_ANY(DequantBy, 4, a * b)};

const Function& function_of(LibraryOp op)
{
    for (const Function& function : functions) {
        if (function.op == op) {
            return function;
        }
    }
    return functions[0]; // Xor is done apart
}

double loaded(const uint8_t* from, Dtype dtype)
{
    switch (dtype) {
        case Dtype::F32: {
            float value;
            std::memcpy(&value, from, sizeof(value));
            return value;
        }
        case Dtype::F16: {
            half value;
            std::memcpy(&value, from, sizeof(value));
            return static_cast<float>(value);
        }
        case Dtype::BF16: {
            bfloat16_t value;
            std::memcpy(&value, from, sizeof(value));
            return static_cast<float>(value);
        }
        case Dtype::I32: {
            int32_t value;
            std::memcpy(&value, from, sizeof(value));
            return value;
        }
        case Dtype::I16: {
            int16_t value;
            std::memcpy(&value, from, sizeof(value));
            return value;
        }
        case Dtype::I8:
            return static_cast<int8_t>(*from);
        case Dtype::U8:
            return *from;
        default:
            return 0.0;
    }
}

template <typename T> void put_integer(uint8_t* to, double value, double least, double most)
{
    const T result = static_cast<T>(value != value ? 0.0 : value < least ? least : value > most ? most : value);
    std::memcpy(to, &result, sizeof(result));
}

void stored(uint8_t* to, double value, Dtype dtype)
{
    switch (dtype) {
        case Dtype::F32: {
            const float result = static_cast<float>(value);
            std::memcpy(to, &result, sizeof(result));
            return;
        }
        case Dtype::F16: {
            const half result = static_cast<half>(value);
            std::memcpy(to, &result, sizeof(result));
            return;
        }
        case Dtype::BF16: {
            const bfloat16_t result(static_cast<float>(value));
            std::memcpy(to, &result, sizeof(result));
            return;
        }
        case Dtype::I32:
            return put_integer<int32_t>(to, value, -2147483648.0, 2147483647.0);
        case Dtype::I16:
            return put_integer<int16_t>(to, value, -32768.0, 32767.0);
        case Dtype::I8:
            return put_integer<int8_t>(to, value, -128.0, 127.0);
        case Dtype::U8:
            return put_integer<uint8_t>(to, value, 0.0, 255.0);
        default:
            return;
    }
}

void exclusive_or(uint8_t* to, const uint8_t* a, const uint8_t* b, size_t bytes)
{
    for (size_t k = 0; k < bytes; ++k) {
        to[k] = a[k] ^ b[k];
    }
}

void charge_library(Block& block, double instructions, uint32_t count, uint32_t widest)
{
    const double repeats = static_cast<double>((uint64_t(count) * widest + 255) / 256);
    block.trace.scalar(static_cast<uint64_t>((instructions - 1.0) * parameters.issue_cycles));
    block.trace.work(kVector, static_cast<uint32_t>(instructions * (parameters.vector_head_cycles + repeats)),
        widest == 4 ? control::VectorFp32 : control::VectorFp16);
}

} // namespace

void clobber(Block& block, const Instruction& instruction, const UbView* work)
{
    if (work == nullptr || work->bytes == 0 || work->limit == 0 || !machine.verify) {
        return;
    }
    const uint32_t bytes = std::min(work->bytes, work->limit - work->address);
    const Range range = {"sharedTmpBuffer", work->address, bytes};
    write(block, instruction, range);
    fill(block, range, false);
}

} // namespace runtime

namespace api {

using namespace runtime;

void library(const LibraryCall& call)
{
    Enter enter(call.name, call.site);
    Block& block = *current;
    const Instruction instruction = {call.name, kVector, call.site};
    const uint32_t dst_bytes = static_cast<uint32_t>(size_of(call.dst_type));
    const uint32_t src_bytes = static_cast<uint32_t>(size_of(call.src_type));
    const Function& function = function_of(call.op);
    charge_library(block, call.op == LibraryOp::Xor ? 3.0 : function.instructions, call.count, std::max(dst_bytes, src_bytes));
    begin(block, instruction);
    if (call.count == 0) {
        return;
    }
    const uint32_t src1_bytes = static_cast<uint32_t>(size_of(call.src1_type));
    const uint32_t src1_count = call.src1_period == 0 ? call.count : std::min(call.count, call.src1_period);
    bool fine = usable(block, instruction, "dst", *call.dst, uint64_t(call.count) * dst_bytes, kCell);
    fine = (call.src0 == nullptr || usable(block, instruction, "src", *call.src0, uint64_t(call.count) * src_bytes, kCell)) && fine;
    fine = (call.src1 == nullptr || usable(block, instruction, "src1", *call.src1, uint64_t(src1_count) * src1_bytes, kCell)) && fine;
    if (!fine || !machine.verify) {
        return;
    }
    Range sources[2];
    const Range* used[2];
    int source_count = 0;
    if (call.src0 != nullptr) {
        sources[source_count] = {"src", call.src0->address, call.count * src_bytes};
        used[source_count] = &sources[source_count];
        ++source_count;
    }
    if (call.src1 != nullptr) {
        sources[source_count] = {"src1", call.src1->address, src1_count * src1_bytes};
        used[source_count] = &sources[source_count];
        ++source_count;
    }
    for (int k = 0; k < source_count; ++k) {
        read(block, instruction, sources[k]);
    }
    const Range target = {"dst", call.dst->address, call.count * dst_bytes};
    clobber(block, instruction, call.work);
    write(block, instruction, target);
    flow(block, target, used, source_count);
    uint8_t* to = ub(block, call.dst->address);
    const uint8_t* a = call.src0 != nullptr ? ub(block, call.src0->address) : nullptr;
    const uint8_t* b = call.src1 != nullptr ? ub(block, call.src1->address) : nullptr;
    if (call.op == LibraryOp::Xor) {
        exclusive_or(to, a, b, size_t(call.count) * dst_bytes);
        return;
    }
    for (uint32_t k = 0; k < call.count; ++k) {
        const double first = a != nullptr ? loaded(a + size_t(k) * src_bytes, call.src_type) : call.op == LibraryOp::Progression ? k : call.scalar[0];
        const uint32_t at = call.src1_period == 0 ? k : k % call.src1_period;
        const double second = b != nullptr ? loaded(b + size_t(at) * src1_bytes, call.src1_type) : call.scalar[1];
        stored(to + size_t(k) * dst_bytes, function.value(first, second, call.scalar), call.dst_type);
    }
}

} // namespace api
} // namespace kope_twin
