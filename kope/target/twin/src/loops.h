// The arithmetic of vector instructions on contiguous elements, compiled once and vectorised.
#ifndef KOPE_TWIN_SRC_LOOPS_H
#define KOPE_TWIN_SRC_LOOPS_H

#include <cstddef>

#include "kope_twin/runtime_api.h"

// dst may be a source, so the compiler must be told that no iteration depends on another.
#if defined(__clang__)
#define KOPE_TWIN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety) interleave(enable)")
#else
#define KOPE_TWIN_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace kope_twin {
namespace runtime {

// dst[i] = f(a[i], b[i], scalar, dst[i]) for i < count. dst may be a or b; it must not overlap them otherwise.
using Loop = void (*)(void* dst, const void* a, const void* b, size_t count, const Scalar& scalar);

// nullptr when the instruction does not exist for these types (the headers have refused it before).
Loop unary_loop(Op op, Dtype type);
Loop scalar_loop(Op op, Dtype dst, Dtype src);
Loop binary_loop(Op op, Dtype dst, Dtype src);
Loop integer_loop(Op op, Dtype type); // Not and the shifts
// Rounds as AscendC::RoundMode `mode` says, saturating where the destination is an integer. scalar.real scales int32_t to half.
Loop cast_loop(Dtype dst, Dtype src, int mode);

void half_to_float(const half* from, float* to, size_t count);
void float_to_half(const float* from, half* to, size_t count); // nearest, ties to even

} // namespace runtime
} // namespace kope_twin

#endif
