// Library functions element by element: mathematics and activations. Each takes (dst, src), then optionally a temporary
// buffer, then optionally how many elements count; without a number all of the source.
#ifndef KOPE_TWIN_LIBRARY_MATH_H
#define KOPE_TWIN_LIBRARY_MATH_H

#include "kope_twin/tensor.h"

namespace kope_twin {

template <typename T, typename U>
KOPE_TWIN_INLINE LibraryCall library_call(const char* name, LibraryOp op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>* src0,
    const AscendC::LocalTensor<U>* src1, const AscendC::LocalTensor<uint8_t>* work, uint32_t count, Site site)
{
    LibraryCall call{};
    call.name = name;
    call.op = op;
    call.dst_type = dtype_of<T>;
    call.src_type = dtype_of<U>;
    call.src1_type = dtype_of<U>;
    call.dst = &dst.view();
    call.src0 = src0 != nullptr ? &src0->view() : nullptr;
    call.src1 = src1 != nullptr ? &src1->view() : nullptr;
    call.work = work != nullptr ? &work->view() : nullptr;
    call.count = count;
    call.site = site;
    return call;
}

template <typename T>
KOPE_TWIN_INLINE void run_library(const char* name, LibraryOp op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
    const AscendC::LocalTensor<uint8_t>* work, uint32_t count, Site site)
{
    const AscendC::LocalTensor<T>* none = nullptr;
    api::library(library_call(name, op, dst, &src, none, work, count, site));
}

template <typename T> KOPE_TWIN_INLINE double as_double(T value)
{
    if constexpr (std::is_integral_v<T>) {
        return static_cast<double>(value);
    } else {
        return static_cast<double>(static_cast<float>(value));
    }
}

} // namespace kope_twin

namespace AscendC {

#define KOPE_TWIN_LIBRARY_FLOATS(T, NAME)                                                                                                  \
    static_assert(kope_twin::is_one_of<T, half, float>, NAME " takes half or float on this chip; Cast other types to float first")

// Every form of a function of one source.
#define KOPE_TWIN_LIBRARY_ONE_AS(NAME, OP)                                                                                                 \
    template <typename T, bool isReuseSource = false>                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                                          \
        const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount KOPE_TWIN_SITE_PARAMETER)                                     \
    {                                                                                                                                      \
        KOPE_TWIN_LIBRARY_FLOATS(T, #NAME);                                                                                                \
        kope_twin::run_library(#NAME, kope_twin::LibraryOp::OP, dst, src, &sharedTmpBuffer, calCount, KOPE_TWIN_SITE);                     \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false>                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                                          \
        const LocalTensor<uint8_t>& sharedTmpBuffer KOPE_TWIN_SITE_PARAMETER)                                                              \
    {                                                                                                                                      \
        KOPE_TWIN_LIBRARY_FLOATS(T, #NAME);                                                                                                \
        kope_twin::run_library(#NAME, kope_twin::LibraryOp::OP, dst, src, &sharedTmpBuffer, src.GetSize(), KOPE_TWIN_SITE);                \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false>                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                                          \
        const uint32_t calCount KOPE_TWIN_SITE_PARAMETER)                                                                                  \
    {                                                                                                                                      \
        KOPE_TWIN_LIBRARY_FLOATS(T, #NAME);                                                                                                \
        kope_twin::run_library(#NAME, kope_twin::LibraryOp::OP, dst, src, nullptr, calCount, KOPE_TWIN_SITE);                              \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false>                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src KOPE_TWIN_SITE_PARAMETER)                                 \
    {                                                                                                                                      \
        KOPE_TWIN_LIBRARY_FLOATS(T, #NAME);                                                                                                \
        kope_twin::run_library(#NAME, kope_twin::LibraryOp::OP, dst, src, nullptr, src.GetSize(), KOPE_TWIN_SITE);                         \
    }
#define KOPE_TWIN_LIBRARY_ONE(NAME) KOPE_TWIN_LIBRARY_ONE_AS(NAME, NAME)

KOPE_TWIN_LIBRARY_ONE(Acos)
KOPE_TWIN_LIBRARY_ONE(Acosh)
KOPE_TWIN_LIBRARY_ONE(Asin)
KOPE_TWIN_LIBRARY_ONE(Asinh)
KOPE_TWIN_LIBRARY_ONE(Atan)
KOPE_TWIN_LIBRARY_ONE(Atanh)
KOPE_TWIN_LIBRARY_ONE(Ceil)
KOPE_TWIN_LIBRARY_ONE(Cos)
KOPE_TWIN_LIBRARY_ONE(Cosh)
KOPE_TWIN_LIBRARY_ONE(Digamma)
KOPE_TWIN_LIBRARY_ONE(Erf)
KOPE_TWIN_LIBRARY_ONE(Erfc)
KOPE_TWIN_LIBRARY_ONE(Floor)
KOPE_TWIN_LIBRARY_ONE(Frac)
KOPE_TWIN_LIBRARY_ONE(Lgamma)
KOPE_TWIN_LIBRARY_ONE(Log)
KOPE_TWIN_LIBRARY_ONE(Log2)
KOPE_TWIN_LIBRARY_ONE(Log10)
KOPE_TWIN_LIBRARY_ONE(Rint)
KOPE_TWIN_LIBRARY_ONE(Round) // halves away from zero
KOPE_TWIN_LIBRARY_ONE(Sign)
KOPE_TWIN_LIBRARY_ONE(Sin)
KOPE_TWIN_LIBRARY_ONE(Sinh)
KOPE_TWIN_LIBRARY_ONE(Tan)
KOPE_TWIN_LIBRARY_ONE(Tanh)
KOPE_TWIN_LIBRARY_ONE(Trunc)
KOPE_TWIN_LIBRARY_ONE(Gelu)       // x / (1 + exp(-1.59576912 (x + 0.044715 x^3)))
KOPE_TWIN_LIBRARY_ONE(FasterGelu) // x / (1 + exp(-1.702 x))
KOPE_TWIN_LIBRARY_ONE(Sigmoid)
KOPE_TWIN_LIBRARY_ONE(Silu)

// Exp with its series taken further than the instruction does.
template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
KOPE_TWIN_API void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount,
    Site site = Site::here())
{
    KOPE_TWIN_LIBRARY_FLOATS(T, "Exp");
    const LocalTensor<T>* none = nullptr;
    kope_twin::api::library(kope_twin::library_call("Exp", kope_twin::LibraryOp::Exp, dst, &src, none, &sharedTmpBuffer, calCount, site));
}
template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
KOPE_TWIN_API void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t calCount, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    Exp<T, taylorExpandLevel, isReuseSource>(dst, src, work, calCount, site);
}

// x / (1 + exp(-scalar x))
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void Swish(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t dataSize, const T scalarValue, Site site = Site::here())
{
    KOPE_TWIN_LIBRARY_FLOATS(T, "Swish");
    const LocalTensor<T>* none = nullptr;
    kope_twin::LibraryCall call = kope_twin::library_call("Swish", kope_twin::LibraryOp::Swish, dst, &src, none, nullptr, dataSize, site);
    call.scalar[0] = kope_twin::as_double(scalarValue);
    kope_twin::api::library(call);
}

#define KOPE_TWIN_LIBRARY_CLAMP(NAME)                                                                                                      \
    template <typename T, bool isReuseSource = false>                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,             \
        const T scalar, const uint32_t calCount, Site site = Site::here())                                                                 \
    {                                                                                                                                      \
        KOPE_TWIN_LIBRARY_FLOATS(T, #NAME);                                                                                                \
        const LocalTensor<T>* none = nullptr;                                                                                              \
        kope_twin::LibraryCall call =                                                                                                      \
            kope_twin::library_call(#NAME, kope_twin::LibraryOp::NAME, dst, &src, none, &sharedTmpBuffer, calCount, site);                 \
        call.scalar[0] = kope_twin::as_double(scalar);                                                                                     \
        kope_twin::api::library(call);                                                                                                     \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false>                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T scalar, const uint32_t calCount,                 \
        Site site = Site::here())                                                                                                          \
    {                                                                                                                                      \
        const LocalTensor<uint8_t> work;                                                                                                   \
        NAME<T, isReuseSource>(dst, src, work, scalar, calCount, site);                                                                    \
    }
KOPE_TWIN_LIBRARY_CLAMP(ClampMax)
KOPE_TWIN_LIBRARY_CLAMP(ClampMin)

// Functions of two sources. The gated ones: dst = src0 * activation(src1).
#define KOPE_TWIN_LIBRARY_TWO(NAME, OP, REQUIRE)                                                                                           \
    template <typename T, bool isReuseSource = false>                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                             \
        const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount, Site site = Site::here())                                    \
    {                                                                                                                                      \
        REQUIRE(T, #NAME);                                                                                                                 \
        kope_twin::api::library(kope_twin::library_call(#NAME, kope_twin::LibraryOp::OP, dst, &src0, &src1, &sharedTmpBuffer, calCount, site)); \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false>                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const uint32_t calCount,    \
        Site site = Site::here())                                                                                                          \
    {                                                                                                                                      \
        const LocalTensor<uint8_t> work;                                                                                                   \
        NAME<T, isReuseSource>(dst, src0, src1, work, calCount, site);                                                                     \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false>                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                             \
        const LocalTensor<uint8_t>& sharedTmpBuffer, Site site = Site::here())                                                             \
    {                                                                                                                                      \
        NAME<T, isReuseSource>(dst, src0, src1, sharedTmpBuffer, src0.GetSize(), site);                                                    \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false>                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, Site site = Site::here())   \
    {                                                                                                                                      \
        const LocalTensor<uint8_t> work;                                                                                                   \
        NAME<T, isReuseSource>(dst, src0, src1, work, src0.GetSize(), site);                                                               \
    }
#define KOPE_TWIN_LIBRARY_POWERS(T, NAME) static_assert(kope_twin::is_one_of<T, half, float, int32_t>, NAME " takes half, float or int32_t on this chip")
#define KOPE_TWIN_LIBRARY_BITS(T, NAME) static_assert(kope_twin::is_one_of<T, int16_t, uint16_t>, NAME " takes int16_t or uint16_t on this chip")

KOPE_TWIN_LIBRARY_TWO(Power, Power, KOPE_TWIN_LIBRARY_POWERS)
KOPE_TWIN_LIBRARY_TWO(Fmod, Fmod, KOPE_TWIN_LIBRARY_FLOATS)
KOPE_TWIN_LIBRARY_TWO(Xor, Xor, KOPE_TWIN_LIBRARY_BITS)
KOPE_TWIN_LIBRARY_TWO(GeGLU, GeGlu, KOPE_TWIN_LIBRARY_FLOATS)
KOPE_TWIN_LIBRARY_TWO(ReGlu, ReGlu, KOPE_TWIN_LIBRARY_FLOATS)

// Power with a scalar exponent, or a scalar base.
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T& src1Scalar, const LocalTensor<uint8_t>& sharedTmpBuffer,
    uint32_t calCount, Site site = Site::here())
{
    KOPE_TWIN_LIBRARY_POWERS(T, "Power");
    const LocalTensor<T>* none = nullptr;
    kope_twin::LibraryCall call = kope_twin::library_call("Power", kope_twin::LibraryOp::Power, dst, &src0, none, &sharedTmpBuffer, calCount, site);
    call.scalar[1] = kope_twin::as_double(src1Scalar);
    kope_twin::api::library(call);
}
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T& src1Scalar, uint32_t calCount, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    Power<T, isReuseSource>(dst, src0, src1Scalar, work, calCount, site);
}
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void Power(const LocalTensor<T>& dst, const T& src0Scalar, const LocalTensor<T>& src1, const LocalTensor<uint8_t>& sharedTmpBuffer,
    uint32_t calCount, Site site = Site::here())
{
    KOPE_TWIN_LIBRARY_POWERS(T, "Power");
    const LocalTensor<T>* none = nullptr;
    kope_twin::LibraryCall call = kope_twin::library_call("Power", kope_twin::LibraryOp::Power, dst, none, &src1, &sharedTmpBuffer, calCount, site);
    call.scalar[0] = kope_twin::as_double(src0Scalar);
    kope_twin::api::library(call);
}
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void Power(const LocalTensor<T>& dst, const T& src0Scalar, const LocalTensor<T>& src1, uint32_t calCount, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    Power<T, isReuseSource>(dst, src0Scalar, src1, work, calCount, site);
}

// dst = src0 * src1 / (1 + exp(-scalar src1))
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
    const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount, Site site = Site::here())
{
    KOPE_TWIN_LIBRARY_FLOATS(T, "SwiGLU");
    kope_twin::LibraryCall call = kope_twin::library_call("SwiGLU", kope_twin::LibraryOp::SwiGlu, dst, &src0, &src1, &sharedTmpBuffer, calCount, site);
    call.scalar[0] = kope_twin::as_double(scalarValue);
    kope_twin::api::library(call);
}
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
    const uint32_t calCount, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    SwiGLU<T, isReuseSource>(dst, src0, src1, scalarValue, work, calCount, site);
}
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
    const LocalTensor<uint8_t>& sharedTmpBuffer, Site site = Site::here())
{
    SwiGLU<T, isReuseSource>(dst, src0, src1, scalarValue, sharedTmpBuffer, src0.GetSize(), site);
}
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
    Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    SwiGLU<T, isReuseSource>(dst, src0, src1, scalarValue, work, src0.GetSize(), site);
}

// firstValue + k diffValue, under its old and its current name.
#define KOPE_TWIN_LIBRARY_PROGRESSION(NAME)                                                                                                \
    template <typename T>                                                                                                                  \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const T firstValue, const T diffValue, const int32_t count, Site site = Site::here()) \
    {                                                                                                                                      \
        static_assert(kope_twin::is_one_of<T, int16_t, int32_t, half, float>, #NAME " takes int16_t, int32_t, half or float on this chip"); \
        const LocalTensor<T>* none = nullptr;                                                                                              \
        kope_twin::LibraryCall call = kope_twin::library_call(#NAME, kope_twin::LibraryOp::Progression, dst, none, none, nullptr,          \
            static_cast<uint32_t>(count > 0 ? count : 0), site);                                                                           \
        call.scalar[0] = kope_twin::as_double(firstValue);                                                                                 \
        call.scalar[1] = kope_twin::as_double(diffValue);                                                                                  \
        kope_twin::api::library(call);                                                                                                     \
    }
KOPE_TWIN_LIBRARY_PROGRESSION(Arange)
KOPE_TWIN_LIBRARY_PROGRESSION(ArithProgression)

} // namespace AscendC

#undef KOPE_TWIN_LIBRARY_ONE
#undef KOPE_TWIN_LIBRARY_ONE_AS
#undef KOPE_TWIN_LIBRARY_TWO
#undef KOPE_TWIN_LIBRARY_CLAMP
#undef KOPE_TWIN_LIBRARY_PROGRESSION

#endif
