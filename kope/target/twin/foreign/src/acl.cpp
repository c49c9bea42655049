// The host runtime of programs with their own main, on top of the twin's case. See acl/acl.h.
#include "acl/acl.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kope_twin/control.h"

namespace control = kope_twin::control;
using kope_twin::Site;

namespace {

struct Allocation {
    char* device = nullptr;
    std::unique_ptr<char[]> host;
    size_t bytes = 0;
    bool freed = false;
};

std::vector<Allocation> allocations;
int handle; // what contexts and streams point to

// The allocation an address lies in, nullptr for host memory.
Allocation* owner(const void* pointer)
{
    const char* at = static_cast<const char*>(pointer);
    for (Allocation& one : allocations) {
        if (at >= one.device && at < one.device + one.bytes) {
            return &one;
        }
    }
    return nullptr;
}

void report(const char* kind, const std::string& message, const char* remedy, Site site, control::Severity severity = control::Severity::Error)
{
    control::Finding found;
    found.kind = kind;
    found.message = message;
    found.remedy = remedy;
    found.severity = severity;
    found.file = site.file;
    found.line = site.line;
    control::add_finding(found);
}

// Host pointer behind `bytes` at an address on either side; nullptr, with a finding, when they are not all there.
char* resolve(const void* pointer, size_t bytes, bool device, const char* what, Site site)
{
    Allocation* one = owner(pointer);
    if (one == nullptr) {
        if (device || pointer == nullptr) {
            report("gm-oob", std::string(what) + " takes a pointer that is no device memory", "pass what aclrtMalloc gave", site);
            return nullptr;
        }
        return static_cast<char*>(const_cast<void*>(pointer));
    }
    const size_t offset = static_cast<size_t>(static_cast<const char*>(pointer) - one->device);
    if (one->freed || !device || offset + bytes > one->bytes) {
        const char* why = one->freed ? "freed device memory" : device ? "more bytes than were allocated" : "device memory as host memory";
        report("gm-oob", std::string(what) + " takes " + why, "check size and direction of the copy", site);
        return nullptr;
    }
    return one->host.get() + offset;
}

aclError copy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, Site site)
{
    if (bytes > room) {
        report("gm-oob", "aclrtMemcpy of " + std::to_string(bytes) + " bytes into room for " + std::to_string(room), "check the sizes", site);
        return ACL_ERROR_INVALID_PARAM;
    }
    const bool to_device = kind == ACL_MEMCPY_DEFAULT ? owner(to) != nullptr : kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    const bool from_device = kind == ACL_MEMCPY_DEFAULT ? owner(from) != nullptr : kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    char* target = resolve(to, bytes, to_device, "aclrtMemcpy", site);
    const char* source = resolve(from, bytes, from_device, "aclrtMemcpy", site);
    if (target == nullptr || source == nullptr) {
        return ACL_ERROR_INVALID_PARAM;
    }
    if (from_device) {
        size_t first = 0;
        const size_t missing = control::unwritten_bytes_in(from, bytes, &first);
        if (missing != 0) {
            report("unwritten-output",
                "aclrtMemcpy takes " + std::to_string(missing) + " of " + std::to_string(bytes) + " bytes that nothing has written, the first at byte "
                    + std::to_string(first),
                "look at the tail of each core's share and at counts rounded down to 32 bytes; DataCopyPad copies any length", site);
        }
    }
    std::memcpy(target, source, bytes);
    if (to_device) {
        control::mark_written(to, bytes);
    }
    return ACL_SUCCESS;
}

} // namespace

aclError aclInit(const char*) { return ACL_SUCCESS; }
aclError aclFinalize() { return ACL_SUCCESS; }
const char* aclGetRecentErrMsg() { return control::case_stopped() ? "the twin stopped a kernel; see its findings" : ""; }

aclError aclrtSetDevice(int32_t) { return ACL_SUCCESS; }
aclError aclrtResetDevice(int32_t) { return ACL_SUCCESS; }
aclError aclrtGetDevice(int32_t* device)
{
    *device = 0;
    return ACL_SUCCESS;
}
aclError aclrtGetDeviceCount(uint32_t* count)
{
    *count = 1;
    return ACL_SUCCESS;
}
const char* aclrtGetSocName() { return control::chip_name(); }
aclError aclrtCreateContext(aclrtContext* context, int32_t)
{
    *context = &handle;
    return ACL_SUCCESS;
}
aclError aclrtDestroyContext(aclrtContext) { return ACL_SUCCESS; }
aclError aclrtSetCurrentContext(aclrtContext) { return ACL_SUCCESS; }

aclError aclrtCreateStream(aclrtStream* stream)
{
    *stream = &handle;
    return ACL_SUCCESS;
}
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) { return aclrtCreateStream(stream); }
aclError aclrtDestroyStream(aclrtStream) { return ACL_SUCCESS; }
aclError aclrtSynchronizeStream(aclrtStream) { return control::case_stopped() ? ACL_ERROR_RT_VECTOR_CORE_EXCEPTION : ACL_SUCCESS; }
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t) { return aclrtSynchronizeStream(stream); }
aclError aclrtSynchronizeDevice() { return aclrtSynchronizeStream(&handle); }

aclError aclrtMalloc(void** pointer, size_t bytes, aclrtMemMallocPolicy, Site site)
{
    Allocation one;
    one.bytes = bytes;
    one.host.reset(new char[bytes == 0 ? 1 : bytes]);
    std::memset(one.host.get(), 0xa5, bytes); // device memory holds what was there
    const std::string name = "the memory of line " + std::to_string(site.line);
    one.device = static_cast<char*>(control::device_buffer(name.c_str(), one.host.get(), bytes, control::Access::Memory));
    *pointer = one.device;
    if (one.device == nullptr) {
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    allocations.push_back(std::move(one));
    return ACL_SUCCESS;
}

aclError aclrtFree(void* pointer)
{
    Allocation* one = owner(pointer);
    if (one == nullptr || one->freed) {
        return ACL_ERROR_INVALID_PARAM;
    }
    one->freed = true;
    control::close_buffer(one->device);
    return ACL_SUCCESS;
}

aclError aclrtMallocHost(void** pointer, size_t bytes)
{
    *pointer = std::malloc(bytes);
    return *pointer != nullptr ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION;
}
aclError aclrtFreeHost(void* pointer)
{
    std::free(pointer);
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, Site site)
{
    return copy(to, room, from, bytes, kind, site);
}
aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, aclrtStream, Site site)
{
    return copy(to, room, from, bytes, kind, site);
}
aclError aclrtMemset(void* pointer, size_t room, int32_t value, size_t bytes, Site site)
{
    char* target = bytes <= room ? resolve(pointer, bytes, owner(pointer) != nullptr, "aclrtMemset", site) : nullptr;
    if (target == nullptr) {
        return ACL_ERROR_INVALID_PARAM;
    }
    std::memset(target, value, bytes);
    if (owner(pointer) != nullptr) {
        control::mark_written(pointer, bytes);
    }
    return ACL_SUCCESS;
}
aclError aclrtMemsetAsync(void* pointer, size_t room, int32_t value, size_t bytes, aclrtStream, Site site)
{
    return aclrtMemset(pointer, room, value, bytes, site);
}

aclError aclrtCreateEvent(aclrtEvent* event)
{
    *event = new double(0.0);
    return ACL_SUCCESS;
}
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }
aclError aclrtDestroyEvent(aclrtEvent event)
{
    delete static_cast<double*>(event);
    return ACL_SUCCESS;
}
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream)
{
    *static_cast<double*>(event) = control::elapsed_us();
    return ACL_SUCCESS;
}
aclError aclrtSynchronizeEvent(aclrtEvent) { return ACL_SUCCESS; }
aclError aclrtStreamWaitEvent(aclrtStream, aclrtEvent) { return ACL_SUCCESS; }
aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end)
{
    *ms = static_cast<float>((*static_cast<double*>(end) - *static_cast<double*>(start)) * 1e-3);
    return ACL_SUCCESS;
}

float aclFloat16ToFloat(aclFloat16 value)
{
    half real;
    std::memcpy(&real, &value, sizeof(real));
    return static_cast<float>(real);
}
aclFloat16 aclFloatToFloat16(float value)
{
    const half real = static_cast<half>(value);
    aclFloat16 bits;
    std::memcpy(&bits, &real, sizeof(bits));
    return bits;
}
