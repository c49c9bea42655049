// Keywords of the device language as the host compiler sees them, and how API functions are marked.
#ifndef KOPE_TWIN_ATTRIBUTES_H
#define KOPE_TWIN_ATTRIBUTES_H

// Function and address space keywords have no meaning here. Address space errors are therefore not found.
#define __aicore__
#define __global__
#define __vector__
#define __cube__
#define __mix__(cube, vector)
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __schedmode__(mode)
#define __BLOCK_LOCAL__
#define __in_pipe__(...)
#define __out_pipe__(...)
#define __check_sync_alias__
#define PRELOAD(lines)
#ifndef likely
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#endif

// What the vector core of architecture 2201 is called.
#define __NPU_ARCH__ 2201
#define __CCE_AICORE__ 220
#define __DAV_C220_VEC__ 1
#define __inout_pipe__(pipe)
#define __sync_alias__
#define __sync_noalias__

// API functions are not part of what scalar work is counted by (basic blocks of the candidate), so they must be neither
// instrumented nor inlined into code that is.
#if defined(__clang__)
#define KOPE_TWIN_API __attribute__((noinline, no_sanitize("coverage")))
#else
#define KOPE_TWIN_API __attribute__((noinline, no_sanitize_coverage))
#endif
// Straight-line accessors that cost what the surrounding code costs.
#define KOPE_TWIN_INLINE inline __attribute__((always_inline))

// Kernels that hand API functions over as template arguments need the documented signature to the letter. Then where a call
// stands is told by the address it returns to, not by an argument that the caller does not see.
#ifdef KOPE_TWIN_EXACT
#define KOPE_TWIN_SITE_PARAMETER
#define KOPE_TWIN_SITE (::kope_twin::Site{"", 0, __builtin_return_address(0)})
#else
#define KOPE_TWIN_SITE_PARAMETER , Site site = Site::here()
#define KOPE_TWIN_SITE site
#endif

#define GM_ADDR uint8_t*
#define ASCEND_IS_AIV (true)
#define ASCEND_IS_AIC (false)
#define ASCEND_IS_NOT_AIC (true)
#define ASCEND_IS_NOT_AIV (false)
#define KERNEL_TASK_TYPE_DEFAULT(type) static_assert(::AscendC::kTaskTypeRuns<(type)>, "the twin runs vector kernels: KERNEL_TYPE_AIV_ONLY")

#endif
