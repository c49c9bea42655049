// Library functions a candidate may call, linked in between with --wrap: in device code they cost scalar time, and memory
// allocation, which the device does not have, is a finding. On the host, and inside the runtime, they are just called.
#include <cstddef>

#include "machine.h"

namespace kope_twin {
namespace runtime {

namespace {

bool in_device_code() { return current != nullptr && !in_runtime; }

void charge_call()
{
    if (in_device_code()) {
        current->trace.scalar(static_cast<uint64_t>(parameters.scalar_call_cycles));
    }
}

// The scalar unit moves eight bytes at a time at best.
void charge_bytes(size_t bytes)
{
    if (in_device_code()) {
        current->trace.scalar(static_cast<uint64_t>(parameters.scalar_block_cycles) * (1 + bytes / 8));
    }
}

void refuse(const char* name)
{
    if (!in_device_code()) {
        return;
    }
    in_runtime = true;
    if (control::Finding* found = note("host-call", machine.last_site)) {
        describe(found, "use UB tensors, or fixed arrays for a few scalars", "device code calls %s: there is no heap on the device (block %u)", name,
            current->index);
    }
    in_runtime = false;
}

} // namespace
} // namespace runtime
} // namespace kope_twin

using kope_twin::runtime::charge_bytes;
using kope_twin::runtime::charge_call;
using kope_twin::runtime::refuse;

#define KOPE_TWIN_ONE(name, result, type)                                                                                                  \
    result __real_##name(type);                                                                                                            \
    result __wrap_##name(type x)                                                                                                           \
    {                                                                                                                                      \
        charge_call();                                                                                                                     \
        return __real_##name(x);                                                                                                           \
    }
#define KOPE_TWIN_TWO(name, type)                                                                                                          \
    type __real_##name(type, type);                                                                                                        \
    type __wrap_##name(type x, type y)                                                                                                     \
    {                                                                                                                                      \
        charge_call();                                                                                                                     \
        return __real_##name(x, y);                                                                                                        \
    }
#define KOPE_TWIN_BOTH_ONE(name) KOPE_TWIN_ONE(name, double, double) KOPE_TWIN_ONE(name##f, float, float)
#define KOPE_TWIN_BOTH_TWO(name) KOPE_TWIN_TWO(name, double) KOPE_TWIN_TWO(name##f, float)
#define KOPE_TWIN_BOTH_WHOLE(name, result) KOPE_TWIN_ONE(name, result, double) KOPE_TWIN_ONE(name##f, result, float)

extern "C" {

KOPE_TWIN_BOTH_ONE(exp)
KOPE_TWIN_BOTH_ONE(exp2)
KOPE_TWIN_BOTH_ONE(expm1)
KOPE_TWIN_BOTH_ONE(log)
KOPE_TWIN_BOTH_ONE(log2)
KOPE_TWIN_BOTH_ONE(log10)
KOPE_TWIN_BOTH_ONE(log1p)
KOPE_TWIN_BOTH_ONE(sqrt)
KOPE_TWIN_BOTH_ONE(cbrt)
KOPE_TWIN_BOTH_ONE(sin)
KOPE_TWIN_BOTH_ONE(cos)
KOPE_TWIN_BOTH_ONE(tan)
KOPE_TWIN_BOTH_ONE(asin)
KOPE_TWIN_BOTH_ONE(acos)
KOPE_TWIN_BOTH_ONE(atan)
KOPE_TWIN_BOTH_ONE(sinh)
KOPE_TWIN_BOTH_ONE(cosh)
KOPE_TWIN_BOTH_ONE(tanh)
KOPE_TWIN_BOTH_ONE(asinh)
KOPE_TWIN_BOTH_ONE(acosh)
KOPE_TWIN_BOTH_ONE(atanh)
KOPE_TWIN_BOTH_ONE(erf)
KOPE_TWIN_BOTH_ONE(erfc)
KOPE_TWIN_BOTH_ONE(floor)
KOPE_TWIN_BOTH_ONE(ceil)
KOPE_TWIN_BOTH_ONE(round)
KOPE_TWIN_BOTH_ONE(trunc)
KOPE_TWIN_BOTH_ONE(rint)
KOPE_TWIN_BOTH_ONE(nearbyint)
KOPE_TWIN_BOTH_ONE(fabs)
KOPE_TWIN_BOTH_WHOLE(lround, long)
KOPE_TWIN_BOTH_WHOLE(llround, long long)
KOPE_TWIN_BOTH_WHOLE(lrint, long)
KOPE_TWIN_BOTH_WHOLE(llrint, long long)
KOPE_TWIN_BOTH_TWO(pow)
KOPE_TWIN_BOTH_TWO(atan2)
KOPE_TWIN_BOTH_TWO(fmod)
KOPE_TWIN_BOTH_TWO(hypot)
KOPE_TWIN_BOTH_TWO(fmax)
KOPE_TWIN_BOTH_TWO(fmin)
KOPE_TWIN_BOTH_TWO(fdim)
KOPE_TWIN_BOTH_TWO(copysign)

double __real_fma(double, double, double);
double __wrap_fma(double x, double y, double z)
{
    charge_call();
    return __real_fma(x, y, z);
}
float __real_fmaf(float, float, float);
float __wrap_fmaf(float x, float y, float z)
{
    charge_call();
    return __real_fmaf(x, y, z);
}
void __real_sincos(double, double*, double*);
void __wrap_sincos(double x, double* sine, double* cosine)
{
    charge_call();
    __real_sincos(x, sine, cosine);
}
void __real_sincosf(float, float*, float*);
void __wrap_sincosf(float x, float* sine, float* cosine)
{
    charge_call();
    __real_sincosf(x, sine, cosine);
}

void* __real_memcpy(void*, const void*, size_t);
void* __wrap_memcpy(void* to, const void* from, size_t bytes)
{
    charge_bytes(bytes);
    return __real_memcpy(to, from, bytes);
}
void* __real_memmove(void*, const void*, size_t);
void* __wrap_memmove(void* to, const void* from, size_t bytes)
{
    charge_bytes(bytes);
    return __real_memmove(to, from, bytes);
}
void* __real_memset(void*, int, size_t);
void* __wrap_memset(void* to, int value, size_t bytes)
{
    charge_bytes(bytes);
    return __real_memset(to, value, bytes);
}
int __real_memcmp(const void*, const void*, size_t);
int __wrap_memcmp(const void* a, const void* b, size_t bytes)
{
    charge_bytes(bytes);
    return __real_memcmp(a, b, bytes);
}

void* __real_malloc(size_t);
void* __wrap_malloc(size_t bytes)
{
    refuse("malloc");
    return __real_malloc(bytes);
}
void* __real_calloc(size_t, size_t);
void* __wrap_calloc(size_t count, size_t bytes)
{
    refuse("calloc");
    return __real_calloc(count, bytes);
}
void* __real_realloc(void*, size_t);
void* __wrap_realloc(void* memory, size_t bytes)
{
    refuse("realloc");
    return __real_realloc(memory, bytes);
}
void* __real__Znwm(size_t);
void* __wrap__Znwm(size_t bytes)
{
    refuse("operator new");
    return __real__Znwm(bytes);
}
void* __real__Znam(size_t);
void* __wrap__Znam(size_t bytes)
{
    refuse("operator new[]");
    return __real__Znam(bytes);
}

} // extern "C"
