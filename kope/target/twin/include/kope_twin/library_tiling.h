// Tiling structs of library functions. The twin works rows out from shapes, so only a few members matter; the rest is there
// for the host code that fills them.
#ifndef KOPE_TWIN_LIBRARY_TILING_H
#define KOPE_TWIN_LIBRARY_TILING_H

#include <cstdint>

struct SoftMaxTiling {
    uint32_t srcM = 0, srcK = 0, srcSize = 0, outMaxM = 0, outMaxK = 0, outMaxSize = 0, splitM = 0, splitK = 0, splitSize = 0, reduceM = 0,
             reduceK = 0, reduceSize = 0, rangeM = 0, tailM = 0, tailSplitSize = 0, tailReduceSize = 0;
};
struct LayerNormTiling {
    uint32_t bLength = 0, sLength = 0, hLength = 0, originalHLength = 0, inputXSize = 0, meanVarSize = 0, numberOfTmpBuf = 0, meanTmpTensorPos = 0,
             meanTmpTensorSize = 0, varianceTmpTensorPos = 0, varianceTmpTensorSize = 0, tmpBufSize = 0, oneTmpSize = 0, firstTmpStartPos = 0,
             secondTmpStartPos = 0, thirdTmpStartPos = 0, loopRound = 0, inputRoundSize = 0, inputTailSize = 0, inputTailPos = 0,
             meanVarRoundSize = 0, meanVarTailSize = 0, meanVarTailPos = 0, bshCurLength = 0, bsCurLength = 0;
    float lastDimValueBack = 0.0F;
};
struct RmsNormTiling {
    uint32_t bLength = 0, sLength = 0, hLength = 0, originalHLength = 0;
    float reciprocalOfHLength = 0.0F;
    uint32_t mainBshLength = 0, mainBsLength = 0, mainBsLengthAlign = 0, loopRound = 0, inputTailPos = 0, tailBshLength = 0, tailBsLength = 0;
};

namespace AscendC {
namespace tiling {
using ::LayerNormTiling;
using ::RmsNormTiling;
using ::SoftMaxTiling;
} // namespace tiling
} // namespace AscendC

namespace optiling {
using ::LayerNormTiling;
using ::RmsNormTiling;
using ::SoftMaxTiling;
} // namespace optiling

#endif
