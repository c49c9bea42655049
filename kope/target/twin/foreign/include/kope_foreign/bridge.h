// What passes between the host half of an operator project (its tiling function) and the half with the kernel.
#ifndef KOPE_FOREIGN_BRIDGE_H
#define KOPE_FOREIGN_BRIDGE_H

#include <cstddef>
#include <cstdint>

#include "kope_candidate.h"

namespace kope_foreign {

struct Tiling {
    alignas(16) uint8_t data[64 * 1024] = {};
    uint64_t key = 0;
    uint32_t blocks = 1;
    size_t workspace_bytes = 0;
};

// Runs the project's tiling function on the call's shapes and attributes. lengths: tensors of each of `count` inputs as the
// operator's definition counts them. Returns 0, or says on stderr why not.
int host_tiling(const KopeCall* call, const int* lengths, int count, Tiling& tiling);

} // namespace kope_foreign

#endif
