#pragma once
#include "register/tilingdata_base.h"

namespace optiling {
constexpr uint32_t TILE = 1024;
BEGIN_TILING_DATA_DEF(ScaleTilingData)
  TILING_DATA_FIELD_DEF(uint32_t, total);
  TILING_DATA_FIELD_DEF(uint32_t, perCore);
  TILING_DATA_FIELD_DEF(float, factor);
  TILING_DATA_FIELD_DEF_ARR(int32_t, 2, extents);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Scale, ScaleTilingData)
} // namespace optiling
