// How instructions touch device memory: order between blocks, and whether there is data to read.
#ifndef KOPE_TWIN_SRC_GM_ACCESS_H
#define KOPE_TWIN_SRC_GM_ACCESS_H

#include "access.h"

namespace kope_twin {
namespace runtime {

// Bytes at `offset` of a buffer are read. Verify mode.
void gm_read(Block& block, const Instruction& instruction, DeviceBuffer& buffer, uint64_t offset, uint64_t bytes);
// Bytes are about to be written with `data`, or combined with it. Verify mode; marks them as written.
void gm_write(Block& block, const Instruction& instruction, DeviceBuffer& buffer, uint64_t offset, const uint8_t* data, uint64_t bytes,
    bool atomic);
// All blocks have met: what they did before is ordered before what they do next.
void gm_meet();

} // namespace runtime
} // namespace kope_twin

#endif
