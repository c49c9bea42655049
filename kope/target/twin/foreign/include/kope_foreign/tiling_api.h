// Host helpers for the tiling of library functions: how large a temporary buffer may be, and the tiling structs.
// The twin's library functions work in no temporary buffer, so any size a kernel gives them will do; sizes here are what
// one row or 256 bytes would take, times the number of intermediate values.
#ifndef KOPE_FOREIGN_TILING_API_H
#define KOPE_FOREIGN_TILING_API_H

#include "kope_foreign/gert.h"
#include "kope_twin/library_tiling.h"

namespace AscendC {

using TensorShape = gert::Shape;

#define KOPE_FOREIGN_TMP_SIZE(NAME)                                                                                                        \
    inline void Get##NAME##MaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue) \
    {                                                                                                                                      \
        minValue = 1024;                                                                                                                   \
        maxValue = static_cast<uint32_t>(std::max<int64_t>(minValue, shape.GetShapeSize() * typeSize * 4));                                \
    }                                                                                                                                      \
    inline void Get##NAME##TmpBufferFactorSize(const uint32_t, uint32_t& maxLiveNodeCount, uint32_t& extraBuf)                             \
    {                                                                                                                                      \
        maxLiveNodeCount = 4;                                                                                                              \
        extraBuf = 0;                                                                                                                      \
    }

KOPE_FOREIGN_TMP_SIZE(Acos)
KOPE_FOREIGN_TMP_SIZE(Acosh)
KOPE_FOREIGN_TMP_SIZE(Asin)
KOPE_FOREIGN_TMP_SIZE(Asinh)
KOPE_FOREIGN_TMP_SIZE(Atan)
KOPE_FOREIGN_TMP_SIZE(Atanh)
KOPE_FOREIGN_TMP_SIZE(Axpy)
KOPE_FOREIGN_TMP_SIZE(Ceil)
KOPE_FOREIGN_TMP_SIZE(Clamp)
KOPE_FOREIGN_TMP_SIZE(Cos)
KOPE_FOREIGN_TMP_SIZE(Cosh)
KOPE_FOREIGN_TMP_SIZE(Digamma)
KOPE_FOREIGN_TMP_SIZE(DropOut)
KOPE_FOREIGN_TMP_SIZE(Erf)
KOPE_FOREIGN_TMP_SIZE(Erfc)
KOPE_FOREIGN_TMP_SIZE(Exp)
KOPE_FOREIGN_TMP_SIZE(Floor)
KOPE_FOREIGN_TMP_SIZE(Fmod)
KOPE_FOREIGN_TMP_SIZE(Frac)
KOPE_FOREIGN_TMP_SIZE(GeGLU)
KOPE_FOREIGN_TMP_SIZE(Lgamma)
KOPE_FOREIGN_TMP_SIZE(Round)
KOPE_FOREIGN_TMP_SIZE(Sigmoid)
KOPE_FOREIGN_TMP_SIZE(Sign)
KOPE_FOREIGN_TMP_SIZE(Sin)
KOPE_FOREIGN_TMP_SIZE(Sinh)
KOPE_FOREIGN_TMP_SIZE(Tan)
KOPE_FOREIGN_TMP_SIZE(Tanh)
KOPE_FOREIGN_TMP_SIZE(Trunc)
KOPE_FOREIGN_TMP_SIZE(Xor)
KOPE_FOREIGN_TMP_SIZE(ClampMax)
KOPE_FOREIGN_TMP_SIZE(ClampMin)

inline uint32_t GetGeluMinTmpSize(const ge::Shape&, const uint32_t) { return 1024; }
inline uint32_t GetGeluMaxTmpSize(const ge::Shape& shape, const uint32_t typeSize)
{
    return static_cast<uint32_t>(std::max<int64_t>(1024, shape.GetShapeSize() * typeSize * 4));
}
// These name their arguments in another order, or have others; a smallest and a largest size they give all the same.
#define KOPE_FOREIGN_SIZES(NAME, PARAMETERS)                                                                                               \
    inline void NAME PARAMETERS                                                                                                            \
    {                                                                                                                                      \
        minValue = 1024;                                                                                                                   \
        maxValue = static_cast<uint32_t>(std::max<int64_t>(minValue, shape.GetShapeSize() * typeSize * 4));                                \
    }
KOPE_FOREIGN_SIZES(GetSiluTmpSize, (const ge::Shape& shape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue))
KOPE_FOREIGN_SIZES(GetSwishTmpSize, (const ge::Shape& shape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue))
KOPE_FOREIGN_SIZES(GetSwiGLUMaxMinTmpSize, (const ge::Shape& shape, const uint32_t typeSize, uint32_t& maxValue, uint32_t& minValue, const bool = false))
KOPE_FOREIGN_SIZES(GetAscendQuantMaxMinTmpSize, (const ge::Shape& shape, const uint32_t typeSize, uint32_t& maxValue, uint32_t& minValue))
KOPE_FOREIGN_SIZES(GetAscendDequantMaxMinTmpSize, (const ge::Shape& shape, const uint32_t typeSize, uint32_t& maxValue, uint32_t& minValue))
KOPE_FOREIGN_SIZES(GetSelectMaxMinTmpSize, (const ge::Shape& shape, const ge::Shape&, const uint32_t typeSize, const ge::Shape&, const uint32_t,
    const bool, uint32_t& maxValue, uint32_t& minValue))
#undef KOPE_FOREIGN_SIZES

inline void GetLogTmpBufferFactorSize(const uint32_t, uint32_t& maxLiveNodeCount, uint32_t& extraBuf)
{
    maxLiveNodeCount = 1;
    extraBuf = 0;
}
inline void GetPowerMaxMinTmpSize(const ge::Shape& shape0, const ge::Shape& shape1, bool, uint32_t typeSize, bool, uint32_t& maxValue, uint32_t& minValue)
{
    minValue = 2048;
    maxValue = static_cast<uint32_t>(std::max<int64_t>(minValue, std::max(shape0.GetShapeSize(), shape1.GetShapeSize()) * typeSize * 4));
}

// One row's sum, or mean, takes one block.
inline void GetSumMaxMinTmpSize(const ge::Shape&, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue) { maxValue = minValue = 1024; }
inline void GetSumMaxMinTmpSize(const uint32_t, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue) { maxValue = minValue = 1024; }
inline void GetMeanMaxMinTmpSize(const uint32_t, const uint32_t, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue)
{
    maxValue = minValue = 1024;
}

inline uint32_t GetSoftMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool)
{
    return static_cast<uint32_t>(shape.GetDim(shape.GetDimNum() - 1) * typeSize * 2 + 1024);
}
inline uint32_t GetSoftMaxMaxTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool)
{
    return static_cast<uint32_t>(shape.GetShapeSize() * typeSize * 2 + 1024);
}
inline uint32_t GetSoftMaxFlashV2MinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const uint32_t, const bool, const bool = false)
{
    return GetSoftMaxMinTmpSize(shape, typeSize, true);
}
inline uint32_t GetSoftMaxFlashV2MaxTmpSize(const ge::Shape& shape, const uint32_t typeSize, const uint32_t, const bool, const bool = false)
{
    return GetSoftMaxMaxTmpSize(shape, typeSize, true);
}
inline uint32_t GetSoftMaxGradMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool, const bool)
{
    return GetSoftMaxMinTmpSize(shape, typeSize, true);
}
inline uint32_t GetSoftMaxGradMaxTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool, const bool)
{
    return GetSoftMaxMaxTmpSize(shape, typeSize, true);
}
// Rows and row length; the rest of the struct the twin does not read.
template <typename Tiling> inline void SoftMaxTilingFunc(const ge::Shape& shape, const uint32_t, const uint32_t, Tiling& tiling)
{
    const int64_t length = shape.GetDim(shape.GetDimNum() - 1);
    tiling.srcM = static_cast<uint32_t>(shape.GetShapeSize() / length);
    tiling.srcK = static_cast<uint32_t>(length);
    tiling.srcSize = static_cast<uint32_t>(shape.GetShapeSize());
}
template <typename Tiling> inline void SoftMaxFlashV2TilingFunc(const ge::Shape& shape, const uint32_t first, const uint32_t second, const uint32_t,
    Tiling& tiling, const bool, const bool = false)
{
    SoftMaxTilingFunc(shape, first, second, tiling);
}
template <typename Tiling> inline void SoftMaxGradTilingFunc(const ge::Shape& shape, const uint32_t typeSize, const uint32_t room, Tiling& tiling, const bool = false)
{
    SoftMaxTilingFunc(shape, typeSize, room, tiling);
}

inline void GetLayerNormMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue)
{
    minValue = 1024;
    maxValue = static_cast<uint32_t>(shape.GetShapeSize() * typeSize * 3 + 1024);
}
template <typename Tiling>
inline void GetLayerNormNDTilingInfo(const ge::Shape& shape, const uint32_t, const uint32_t, const bool, Tiling& tiling)
{
    tiling.bLength = static_cast<uint32_t>(shape.GetDim(0));
    tiling.sLength = static_cast<uint32_t>(shape.GetDim(1));
    tiling.hLength = static_cast<uint32_t>(shape.GetDim(2));
    tiling.originalHLength = static_cast<uint32_t>(shape.GetDimNum() > 3 ? shape.GetDim(3) : shape.GetDim(2));
}
inline bool GetRmsNormMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, uint32_t& maxValue, uint32_t& minValue, const bool = false)
{
    minValue = 1024;
    maxValue = static_cast<uint32_t>(shape.GetShapeSize() * typeSize * 3 + 1024);
    return true;
}
template <typename Tiling>
inline bool GetRmsNormTilingInfo(const ge::Shape& shape, const ge::Shape& original, const uint32_t, const uint32_t, Tiling& tiling, const bool = false)
{
    tiling.bLength = static_cast<uint32_t>(shape.GetDim(0));
    tiling.sLength = static_cast<uint32_t>(shape.GetDim(1));
    tiling.hLength = static_cast<uint32_t>(shape.GetDim(2));
    tiling.originalHLength = static_cast<uint32_t>(original.GetDim(2));
    return true;
}

} // namespace AscendC

#endif
