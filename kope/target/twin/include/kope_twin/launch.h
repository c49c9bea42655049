// How a kernel is started: `kernel<<<blocks, ub, stream>>>(arguments)` reaches the twin as
// `kope_twin::launch("kernel", kernel, blocks, ub, stream)(arguments)`.
#ifndef KOPE_TWIN_LAUNCH_H
#define KOPE_TWIN_LAUNCH_H

#include <tuple>
#include <utility>

#include "kope_twin/runtime_api.h"

namespace kope_twin {

template <typename... Parameters> class Launch {
public:
    KOPE_TWIN_INLINE Launch(const char* name, void (*kernel)(Parameters...), uint32_t blocks, Site site)
        : name_(name), kernel_(kernel), blocks_(blocks), site_(site)
    {
    }

    KOPE_TWIN_API void operator()(Parameters... arguments) const
    {
        Call call{kernel_, std::tuple<Parameters...>(arguments...)};
        api::launch(name_, blocks_, &Launch::run, &call, site_);
    }

private:
    struct Call {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> arguments;
    };

    // Every block gets its own copy of the arguments.
    static KOPE_TWIN_API void run(void* call)
    {
        const Call& made = *static_cast<Call*>(call);
        apply(made, std::index_sequence_for<Parameters...>());
    }
    template <size_t... index> static KOPE_TWIN_API void apply(const Call& call, std::index_sequence<index...>)
    {
        call.kernel(std::get<index>(call.arguments)...);
    }

    const char* name_;
    void (*kernel_)(Parameters...);
    uint32_t blocks_;
    Site site_;
};

template <typename UbBytes, typename Stream, typename... Parameters>
KOPE_TWIN_API Launch<Parameters...> launch(const char* name, void (*kernel)(Parameters...), uint32_t blocks, UbBytes, Stream,
    Site site = Site::here())
{
    return Launch<Parameters...>(name, kernel, blocks, site);
}

} // namespace kope_twin

#endif
