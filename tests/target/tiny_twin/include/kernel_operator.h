// A twin of almost nothing, so that tests of the driver build a runtime in a moment. Kernels run as plain host functions.
#ifndef TINY_KERNEL_OPERATOR_H
#define TINY_KERNEL_OPERATOR_H
#include <cstdint>
#include <utility>
#define __global__
#define __aicore__
#define __vector__
#define __gm__
typedef uint8_t* GM_ADDR;
namespace kope_twin {
namespace api {
void tiny_launch(const char* name, uint32_t blocks, const char* file, int line);
void tiny_copy(void* to, const void* from, uint64_t bytes);
} // namespace api
template <typename... P>
struct TinyLaunch {
    void (*kernel)(P...);
    template <typename... A>
    void operator()(A&&... arguments) const
    {
        kernel(std::forward<A>(arguments)...);
    }
};
template <typename B, typename... P>
TinyLaunch<P...> launch(const char* name, void (*kernel)(P...), uint32_t blocks, B, void*, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE())
{
    api::tiny_launch(name, blocks, file, line);
    return {kernel};
}
} // namespace kope_twin
namespace AscendC {
inline void Copy(GM_ADDR to, GM_ADDR from, uint64_t bytes) { kope_twin::api::tiny_copy(to, from, bytes); }
} // namespace AscendC
#endif
