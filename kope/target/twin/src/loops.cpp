// See loops.h: one-source, scalar and two-source arithmetic.
#include "loops.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "float_math.h"

namespace kope_twin {
namespace runtime {

void half_to_float(const half* from, float* to, size_t count)
{
    size_t k = 0;
#if defined(__F16C__)
    for (; k + 8 <= count; k += 8) {
        _mm256_storeu_ps(to + k, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k))));
    }
#endif
    for (; k < count; ++k) {
        to[k] = static_cast<float>(from[k]);
    }
}

void float_to_half(const float* from, half* to, size_t count)
{
    size_t k = 0;
#if defined(__F16C__)
    for (; k + 8 <= count; k += 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + k), _mm256_cvtps_ph(_mm256_loadu_ps(from + k), _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    for (; k < count; ++k) {
        to[k] = static_cast<half>(from[k]);
    }
}

namespace {

// --- the operations, on one element -----------------------------------------------------------------------------------

template <typename T> T wrapped(int64_t value) { return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value)); }

// Integers wrap, as the default of the control register has it; floats round to nearest even.
struct AddOf {
    template <typename T> static T of(T a, T b)
    {
        if constexpr (std::is_integral_v<T>) {
            return wrapped<T>(int64_t(a) + int64_t(b));
        } else {
            return a + b;
        }
    }
};
struct SubOf {
    template <typename T> static T of(T a, T b)
    {
        if constexpr (std::is_integral_v<T>) {
            return wrapped<T>(int64_t(a) - int64_t(b));
        } else {
            return a - b;
        }
    }
};
struct MulOf {
    template <typename T> static T of(T a, T b)
    {
        if constexpr (std::is_integral_v<T>) {
            return wrapped<T>(int64_t(a) * int64_t(b));
        } else {
            return a * b;
        }
    }
};
struct DivOf {
    template <typename T> static T of(T a, T b) { return a / b; }
};
// A NaN in either operand is the result.
struct MaxOf {
    template <typename T> static T of(T a, T b) { return a != a ? a : (b != b ? b : (a < b ? b : a)); }
};
struct MinOf {
    template <typename T> static T of(T a, T b) { return a != a ? a : (b != b ? b : (b < a ? b : a)); }
};
struct AndOf {
    template <typename T> static T of(T a, T b) { return static_cast<T>(a & b); }
};
struct OrOf {
    template <typename T> static T of(T a, T b) { return static_cast<T>(a | b); }
};
template <typename T> T relu(T value) { return value > T(0) ? value : (value != value ? value : T(0)); }
struct AddReluOf {
    template <typename T> static T of(T a, T b) { return relu(AddOf::of(a, b)); }
};
struct SubReluOf {
    template <typename T> static T of(T a, T b) { return relu(SubOf::of(a, b)); }
};
struct LeakyReluOf {
    template <typename T> static T of(T a, T slope) { return a >= T(0) ? a : a * slope; }
};

struct AbsOf {
    static float of(float a) { return __builtin_fabsf(a); }
};
struct ExpOf {
    static float of(float a) { return exp_of(a); }
};
struct LnOf {
    static float of(float a) { return ln_of(a); }
};
struct ReciprocalOf {
    static float of(float a) { return 1.0F / a; }
};
struct SqrtOf {
    static float of(float a) { return __builtin_sqrtf(a); }
};
struct RsqrtOf {
    static float of(float a) { return 1.0F / __builtin_sqrtf(a); }
};
struct ReluOf {
    template <typename T> static T of(T a) { return relu(a); }
};

// --- loops over one type -------------------------------------------------------------------------------------------------

template <typename T, typename F> void unary(void* dst, const void* a, const void*, size_t count, const Scalar&)
{
    T* to = static_cast<T*>(dst);
    const T* from = static_cast<const T*>(a);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        to[k] = F::of(from[k]);
    }
}

template <typename T, typename F> void binary(void* dst, const void* a, const void* b, size_t count, const Scalar&)
{
    T* to = static_cast<T*>(dst);
    const T* left = static_cast<const T*>(a);
    const T* right = static_cast<const T*>(b);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        to[k] = F::of(left[k], right[k]);
    }
}

template <typename T> T value_of(const Scalar& scalar)
{
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(scalar.integer);
    } else {
        return static_cast<T>(scalar.real);
    }
}

template <typename T, typename F> void with_scalar(void* dst, const void* a, const void*, size_t count, const Scalar& scalar)
{
    T* to = static_cast<T*>(dst);
    const T* from = static_cast<const T*>(a);
    const T value = value_of<T>(scalar);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        to[k] = F::of(from[k], value);
    }
}

// dst = a * b + dst, a * dst + b, scalar * a + dst: one rounding each, as a fused unit has.
enum class Fused { AddDst, TimesDst, TimesDstRelu, Axpy };
template <Fused kind> float fused(float a, float b, float d)
{
    const double product = kind == Fused::AddDst || kind == Fused::Axpy ? double(a) * double(b) : double(a) * double(d);
    const float sum = static_cast<float>(product + (kind == Fused::AddDst || kind == Fused::Axpy ? double(d) : double(b)));
    return kind == Fused::TimesDstRelu ? relu(sum) : sum;
}

template <Fused kind> void fused_float(void* dst, const void* a, const void* b, size_t count, const Scalar& scalar)
{
    float* to = static_cast<float*>(dst);
    const float* left = static_cast<const float*>(a);
    const float* right = static_cast<const float*>(b);
    const float value = static_cast<float>(scalar.real);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        to[k] = fused<kind>(left[k], kind == Fused::Axpy ? value : right[k], to[k]);
    }
}

// --- half: through float, in pieces that stay in the cache. One operation in float, rounded once, is exact for half. -----

constexpr size_t kPiece = 512;

template <Loop loop> void unary_half(void* dst, const void* a, const void*, size_t count, const Scalar& scalar)
{
    float values[kPiece];
    for (size_t at = 0; at < count; at += kPiece) {
        const size_t piece = std::min(kPiece, count - at);
        half_to_float(static_cast<const half*>(a) + at, values, piece);
        loop(values, values, nullptr, piece, scalar);
        float_to_half(values, static_cast<half*>(dst) + at, piece);
    }
}

template <Loop loop> void binary_half(void* dst, const void* a, const void* b, size_t count, const Scalar& scalar)
{
    float left[kPiece];
    float right[kPiece];
    for (size_t at = 0; at < count; at += kPiece) {
        const size_t piece = std::min(kPiece, count - at);
        half_to_float(static_cast<const half*>(a) + at, left, piece);
        half_to_float(static_cast<const half*>(b) + at, right, piece);
        loop(left, left, right, piece, scalar);
        float_to_half(left, static_cast<half*>(dst) + at, piece);
    }
}

// Sources half, destination half or float, dst read as well.
template <Fused kind, bool wide> void fused_half(void* dst, const void* a, const void* b, size_t count, const Scalar& scalar)
{
    float left[kPiece];
    float right[kPiece];
    float third[kPiece];
    for (size_t at = 0; at < count; at += kPiece) {
        const size_t piece = std::min(kPiece, count - at);
        half_to_float(static_cast<const half*>(a) + at, left, piece);
        if (kind != Fused::Axpy) {
            half_to_float(static_cast<const half*>(b) + at, right, piece);
        }
        if (wide) {
            fused_float<kind>(static_cast<float*>(dst) + at, left, right, piece, scalar);
            continue;
        }
        half_to_float(static_cast<const half*>(dst) + at, third, piece);
        fused_float<kind>(third, left, right, piece, scalar);
        float_to_half(third, static_cast<half*>(dst) + at, piece);
    }
}

template <typename F> Loop floats_unary(Dtype type)
{
    return type == Dtype::F32 ? unary<float, F> : type == Dtype::F16 ? unary_half<unary<float, F>> : nullptr;
}

template <typename F> Loop arith_binary(Dtype type)
{
    switch (type) {
        case Dtype::F32:
            return binary<float, F>;
        case Dtype::F16:
            return binary_half<binary<float, F>>;
        case Dtype::I16:
            return binary<int16_t, F>;
        case Dtype::I32:
            return binary<int32_t, F>;
        default:
            return nullptr;
    }
}

template <typename F> Loop arith_scalar(Dtype type)
{
    switch (type) {
        case Dtype::F32:
            return with_scalar<float, F>;
        case Dtype::F16:
            return unary_half<with_scalar<float, F>>;
        case Dtype::I16:
            return with_scalar<int16_t, F>;
        case Dtype::I32:
            return with_scalar<int32_t, F>;
        default:
            return nullptr;
    }
}

template <Fused kind> Loop fused_loop(Dtype dst, Dtype src)
{
    if (src == Dtype::F32) {
        return fused_float<kind>;
    }
    return dst == Dtype::F32 ? fused_half<kind, true> : fused_half<kind, false>;
}

} // namespace

Loop unary_loop(Op op, Dtype type)
{
    switch (op) {
        case Op::Abs:
            return floats_unary<AbsOf>(type);
        case Op::Exp:
            return floats_unary<ExpOf>(type);
        case Op::Ln:
            return floats_unary<LnOf>(type);
        case Op::Reciprocal:
            return floats_unary<ReciprocalOf>(type);
        case Op::Sqrt:
            return floats_unary<SqrtOf>(type);
        case Op::Rsqrt:
            return floats_unary<RsqrtOf>(type);
        case Op::Relu:
            return type == Dtype::I32 ? unary<int32_t, ReluOf> : floats_unary<ReluOf>(type);
        case Op::Not:
            return integer_loop(op, type);
        default:
            return nullptr;
    }
}

Loop scalar_loop(Op op, Dtype dst, Dtype src)
{
    switch (op) {
        case Op::Adds:
            return arith_scalar<AddOf>(src);
        case Op::Muls:
            return arith_scalar<MulOf>(src);
        case Op::Maxs:
            return arith_scalar<MaxOf>(src);
        case Op::Mins:
            return arith_scalar<MinOf>(src);
        case Op::LeakyRelu:
            return src == Dtype::F32 ? with_scalar<float, LeakyReluOf> : unary_half<with_scalar<float, LeakyReluOf>>;
        case Op::ShiftLeft:
        case Op::ShiftRight:
        case Op::ShiftRightRound:
            return integer_loop(op, src);
        case Op::Axpy:
            return fused_loop<Fused::Axpy>(dst, src);
        default:
            return nullptr;
    }
}

Loop binary_loop(Op op, Dtype dst, Dtype src)
{
    switch (op) {
        case Op::Add:
            return arith_binary<AddOf>(src);
        case Op::Sub:
            return arith_binary<SubOf>(src);
        case Op::Mul:
            return arith_binary<MulOf>(src);
        case Op::Div:
            return src == Dtype::F32 ? binary<float, DivOf> : binary_half<binary<float, DivOf>>;
        case Op::Max:
            return arith_binary<MaxOf>(src);
        case Op::Min:
            return arith_binary<MinOf>(src);
        case Op::And:
            return binary<uint16_t, AndOf>;
        case Op::Or:
            return binary<uint16_t, OrOf>;
        case Op::AddRelu:
            return arith_binary<AddReluOf>(src);
        case Op::SubRelu:
            return arith_binary<SubReluOf>(src);
        case Op::MulAddDst:
            return fused_loop<Fused::AddDst>(dst, src);
        case Op::FusedMulAdd:
            return fused_loop<Fused::TimesDst>(dst, src);
        case Op::FusedMulAddRelu:
            return fused_loop<Fused::TimesDstRelu>(dst, src);
        default:
            return nullptr;
    }
}

} // namespace runtime
} // namespace kope_twin
