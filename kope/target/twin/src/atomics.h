// Elementwise combination of a transfer with what device memory holds (SetAtomicAdd, SetAtomicMax, SetAtomicMin).
#ifndef KOPE_TWIN_SRC_ATOMICS_H
#define KOPE_TWIN_SRC_ATOMICS_H

#include <cstdint>

#include "kope_twin/types.h"

namespace kope_twin {
namespace runtime {

// operation: 1 add, 2 max, 3 min. `bytes` need not be a whole number of elements; the rest stays as it is.
void combine(uint8_t operation, Dtype dtype, uint8_t* memory, const uint8_t* values, uint64_t bytes);

} // namespace runtime
} // namespace kope_twin

#endif
