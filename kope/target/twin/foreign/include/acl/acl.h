// The host runtime as programs with their own main use it: memory, copies, streams, events. Device memory belongs to the
// twin's case, so that kernels are checked against it. What the twin does not need of the runtime is not declared.
#ifndef KOPE_FOREIGN_ACL_H
#define KOPE_FOREIGN_ACL_H

#include <cstddef>
#include <cstdint>

#include "kope_twin/types.h"

using aclError = int;
using aclrtStream = void*;
using aclrtContext = void*;
using aclrtEvent = void*;
using aclFloat16 = uint16_t;
using kope_foreign_site = kope_twin::Site;

enum : int {
    ACL_SUCCESS = 0,
    ACL_ERROR_NONE = 0,
    ACL_ERROR_INVALID_PARAM = 100000,
    ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
    ACL_ERROR_RT_VECTOR_CORE_EXCEPTION = 507035
};

enum aclrtMemMallocPolicy {
    ACL_MEM_MALLOC_HUGE_FIRST,
    ACL_MEM_MALLOC_HUGE_ONLY,
    ACL_MEM_MALLOC_NORMAL_ONLY,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P,
    ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x0100,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000
};

enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST,
    ACL_MEMCPY_HOST_TO_DEVICE,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_DEVICE_TO_DEVICE,
    ACL_MEMCPY_DEFAULT
};

enum aclDataType {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_BF16 = 27
};

extern "C" {

aclError aclInit(const char* config);
aclError aclFinalize();
const char* aclGetRecentErrMsg();

aclError aclrtSetDevice(int32_t device);
aclError aclrtResetDevice(int32_t device);
aclError aclrtGetDevice(int32_t* device);
aclError aclrtGetDeviceCount(uint32_t* count);
const char* aclrtGetSocName();
aclError aclrtCreateContext(aclrtContext* context, int32_t device);
aclError aclrtDestroyContext(aclrtContext context);
aclError aclrtSetCurrentContext(aclrtContext context);

aclError aclrtCreateStream(aclrtStream* stream);
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag);
aclError aclrtDestroyStream(aclrtStream stream);
// ACL_ERROR_RT_VECTOR_CORE_EXCEPTION when the twin stopped a kernel.
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout_ms);
aclError aclrtSynchronizeDevice();

aclError aclrtMalloc(void** pointer, size_t bytes, aclrtMemMallocPolicy policy, kope_foreign_site site = kope_foreign_site::here());
aclError aclrtFree(void* pointer);
aclError aclrtMallocHost(void** pointer, size_t bytes);
aclError aclrtFreeHost(void* pointer);
aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind,
    kope_foreign_site site = kope_foreign_site::here());
aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, aclrtStream stream,
    kope_foreign_site site = kope_foreign_site::here());
aclError aclrtMemset(void* pointer, size_t room, int32_t value, size_t bytes, kope_foreign_site site = kope_foreign_site::here());
aclError aclrtMemsetAsync(void* pointer, size_t room, int32_t value, size_t bytes, aclrtStream stream,
    kope_foreign_site site = kope_foreign_site::here());

// Events carry modelled time.
aclError aclrtCreateEvent(aclrtEvent* event);
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag);
aclError aclrtDestroyEvent(aclrtEvent event);
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtSynchronizeEvent(aclrtEvent event);
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end);

float aclFloat16ToFloat(aclFloat16 value);
aclFloat16 aclFloatToFloat16(float value);

} // extern "C"

#endif
