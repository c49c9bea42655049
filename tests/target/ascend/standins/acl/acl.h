// A stand-in for the runtime's header: the calls that KOPE's host program makes, on the twin. Not the vendor's.
#ifndef KOPE_STANDIN_ACL_H
#define KOPE_STANDIN_ACL_H

#include <cstddef>
#include <cstdint>

using aclError = int;
using aclrtStream = void*;
constexpr aclError ACL_SUCCESS = 0;
enum aclrtMemMallocPolicy { ACL_MEM_MALLOC_HUGE_FIRST };
enum aclrtMemcpyKind { ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST };

extern "C" {
aclError aclInit(const char* config);
aclError aclFinalize();
aclError aclrtSetDevice(int32_t device);
aclError aclrtResetDevice(int32_t device);
aclError aclrtCreateStream(aclrtStream* stream);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtMalloc(void** memory, size_t bytes, aclrtMemMallocPolicy policy);
aclError aclrtFree(void* memory);
aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind);
const char* aclGetRecentErrMsg();
}

#endif
