// The L2 cache: whether what a transfer reads is still there.
//
// A sector is there when it was moved before and fewer bytes than the cache holds were moved since its line was. Blocks run one after another
// here and at once on the chip, so the distance is counted in lines of one core, times the cores. A case begins with nothing
// in the cache.
#ifndef KOPE_TWIN_SRC_CACHE_H
#define KOPE_TWIN_SRC_CACHE_H

#include "machine.h"

namespace kope_twin {
namespace runtime {

// Parts of device memory, `bytes` each, `step` apart.
struct GmParts {
    uint64_t count;
    uint64_t bytes;
    uint64_t step;
};

void cache_opens();                    // a launch begins
void cache_closes(const Block& block); // a block has ended
// Moves the parts, and returns how many of their sectors were not in the cache before; 0 without a cache.
uint32_t cache_misses(Block& block, const GmPlace& place, const GmParts& parts);

} // namespace runtime
} // namespace kope_twin

#endif
