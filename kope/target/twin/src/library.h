// What the library functions share.
#ifndef KOPE_TWIN_SRC_LIBRARY_H
#define KOPE_TWIN_SRC_LIBRARY_H

#include "access.h"

namespace kope_twin {
namespace runtime {

// The temporary buffer of a library function holds nothing of use afterwards.
void clobber(Block& block, const Instruction& instruction, const UbView* work);

} // namespace runtime
} // namespace kope_twin

#endif
