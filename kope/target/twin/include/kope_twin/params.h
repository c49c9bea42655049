// Parameter structs of instructions. Strides count 32-byte blocks unless their comment says otherwise.
#ifndef KOPE_TWIN_PARAMS_H
#define KOPE_TWIN_PARAMS_H

#include "kope_twin/enums.h"

namespace AscendC {

struct UnaryRepeatParams {
    UnaryRepeatParams() = default;
    KOPE_TWIN_INLINE UnaryRepeatParams(uint16_t dst_block, uint16_t src_block, uint8_t dst_repeat, uint8_t src_repeat)
        : dstBlkStride(dst_block), srcBlkStride(src_block), dstRepStride(dst_repeat), srcRepStride(src_repeat)
    {
    }

    uint32_t blockNumber = DEFAULT_BLK_NUM;
    uint16_t dstBlkStride = DEFAULT_BLK_STRIDE;
    uint16_t srcBlkStride = DEFAULT_BLK_STRIDE;
    uint8_t dstRepStride = DEFAULT_REPEAT_STRIDE;
    uint8_t srcRepStride = DEFAULT_REPEAT_STRIDE;
};

struct BinaryRepeatParams {
    BinaryRepeatParams() = default;
    KOPE_TWIN_INLINE BinaryRepeatParams(uint8_t dst_block, uint8_t src0_block, uint8_t src1_block, uint8_t dst_repeat,
        uint8_t src0_repeat, uint8_t src1_repeat)
        : dstBlkStride(dst_block), src0BlkStride(src0_block), src1BlkStride(src1_block), dstRepStride(dst_repeat),
          src0RepStride(src0_repeat), src1RepStride(src1_repeat)
    {
    }

    uint32_t blockNumber = DEFAULT_BLK_NUM;
    uint8_t dstBlkStride = DEFAULT_BLK_STRIDE;
    uint8_t src0BlkStride = DEFAULT_BLK_STRIDE;
    uint8_t src1BlkStride = DEFAULT_BLK_STRIDE;
    uint8_t dstRepStride = DEFAULT_REPEAT_STRIDE;
    uint8_t src0RepStride = DEFAULT_REPEAT_STRIDE;
    uint8_t src1RepStride = DEFAULT_REPEAT_STRIDE;
};

struct CopyRepeatParams {
    CopyRepeatParams() = default;
    KOPE_TWIN_INLINE CopyRepeatParams(uint16_t dst_block, uint16_t src_block, uint16_t dst_repeat, uint16_t src_repeat)
        : dstStride(dst_block), srcStride(src_block), dstRepeatSize(dst_repeat), srcRepeatSize(src_repeat)
    {
    }

    uint16_t dstStride = DEFAULT_BLK_STRIDE;
    uint16_t srcStride = DEFAULT_BLK_STRIDE;
    uint16_t dstRepeatSize = DEFAULT_REPEAT_STRIDE;
    uint16_t srcRepeatSize = DEFAULT_REPEAT_STRIDE;
};

struct BrcbRepeatParams {
    BrcbRepeatParams() = default;
    KOPE_TWIN_INLINE BrcbRepeatParams(uint16_t dst_block, uint16_t dst_repeat) : dstRepStride(dst_repeat), dstBlkStride(dst_block) {}

    uint16_t dstRepStride = DEFAULT_REPEAT_STRIDE;
    uint16_t dstBlkStride = DEFAULT_BLK_STRIDE;
};

// blockLen and the gaps count 32-byte blocks; a gap lies between the end of one block and the start of the next.
struct DataCopyParams {
    KOPE_TWIN_INLINE DataCopyParams() : srcGap(0), dstGap(0) {}
    KOPE_TWIN_INLINE DataCopyParams(uint16_t count, uint16_t length, uint16_t src_gap, uint16_t dst_gap)
        : blockCount(count), blockLen(length), srcGap(src_gap), dstGap(dst_gap)
    {
    }

    uint16_t blockCount = 1;
    uint16_t blockLen = 0;
    union {
        uint16_t srcGap;
        uint16_t srcStride;
    };
    union {
        uint16_t dstGap;
        uint16_t dstStride;
    };
};

constexpr int K_MAX_DIM = 8; // axes of a slice

// One axis of a tensor, innermost first: elements startIndex to endIndex in pieces, stride elements apart. On the innermost
// axis a piece has burstLen blocks of 32 bytes, on the others one index. shapeValue: how long the axis is.
struct SliceInfo {
    uint32_t startIndex = 0;
    uint32_t endIndex = 0;
    uint32_t stride = 0;
    uint32_t burstLen = 0;
    uint32_t shapeValue = 0;
};

// blockLen counts bytes; a stride on the GM side counts bytes, on the UB side 32-byte blocks, both from end to start.
struct DataCopyExtParams {
    DataCopyExtParams() = default;
    KOPE_TWIN_INLINE DataCopyExtParams(uint16_t count, uint32_t length, uint32_t src_stride, uint32_t dst_stride, uint32_t reserved)
        : blockCount(count), blockLen(length), srcStride(src_stride), dstStride(dst_stride), rsv(reserved)
    {
    }

    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    uint32_t srcStride = 0;
    uint32_t dstStride = 0;
    uint32_t rsv = 0;
};

// Paddings count elements.
template <typename T> struct DataCopyPadExtParams {
    DataCopyPadExtParams() = default;
    KOPE_TWIN_INLINE DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }

    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    T paddingValue = T(0);
};

struct DataCopyPadParams {
    DataCopyPadParams() = default;
    KOPE_TWIN_INLINE DataCopyPadParams(bool pad, uint8_t left, uint8_t right, uint64_t value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }

    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    uint64_t paddingValue = 0;
};

struct GatherMaskParams {
    GatherMaskParams() = default;
    KOPE_TWIN_INLINE GatherMaskParams(uint8_t src0_block, uint16_t repeat, uint16_t src0_repeat, uint8_t src1_repeat)
        : src0BlockStride(src0_block), repeatTimes(repeat), src0RepeatStride(src0_repeat), src1RepeatStride(src1_repeat)
    {
    }

    uint8_t src0BlockStride = DEFAULT_BLK_STRIDE;
    uint16_t repeatTimes = 0;
    uint16_t src0RepeatStride = DEFAULT_REPEAT_STRIDE;
    uint8_t src1RepeatStride = DEFAULT_REPEAT_STRIDE;
};

} // namespace AscendC

#endif
