// See device.h.
#include "device.h"

#include <algorithm>

#include "acl/acl.h"

namespace harness {

namespace {

constexpr size_t guard_bytes = 4096;
constexpr unsigned char guard_value = 0xA5;

std::string recent_text()
{
    const char* text = aclGetRecentErrMsg();
    return text == nullptr ? "" : text;
}

void require(const char* call, aclError code)
{
    if (code != ACL_SUCCESS) {
        throw DeviceError{call, static_cast<int>(code), recent_text()};
    }
}

} // namespace

Device::Device()
{
    require("aclInit", aclInit(nullptr));
    require("aclrtSetDevice", aclrtSetDevice(0));
    require("aclrtCreateStream", aclrtCreateStream(&stream_));
}

Device::~Device()
{
    if (stream_ != nullptr) {
        aclrtDestroyStream(stream_);
    }
    aclrtResetDevice(0);
    aclFinalize();
}

bool Device::synchronize(DeviceError& error) const
{
    const aclError code = aclrtSynchronizeStream(stream_);
    if (code != ACL_SUCCESS) {
        error = {"aclrtSynchronizeStream", static_cast<int>(code), recent_text()};
    }
    return code == ACL_SUCCESS;
}

Buffer::Buffer(size_t bytes) : bytes_(bytes)
{
    require("aclrtMalloc", aclrtMalloc(&device_, bytes + guard_bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    const std::vector<unsigned char> guard(guard_bytes, guard_value);
    unsigned char* end = static_cast<unsigned char*>(device_) + bytes_;
    require("aclrtMemcpy", aclrtMemcpy(end, guard_bytes, guard.data(), guard_bytes, ACL_MEMCPY_HOST_TO_DEVICE));
}

Buffer::~Buffer() { aclrtFree(device_); }

void Buffer::fill(unsigned char value) { write(std::vector<unsigned char>(bytes_, value)); }

void Buffer::write(const std::vector<unsigned char>& content)
{
    if (bytes_ != 0) {
        require("aclrtMemcpy", aclrtMemcpy(device_, bytes_, content.data(), bytes_, ACL_MEMCPY_HOST_TO_DEVICE));
    }
}

std::vector<unsigned char> Buffer::read() const
{
    std::vector<unsigned char> content(bytes_);
    if (bytes_ != 0) {
        require("aclrtMemcpy", aclrtMemcpy(content.data(), bytes_, device_, bytes_, ACL_MEMCPY_DEVICE_TO_HOST));
    }
    return content;
}

size_t Buffer::guard_damage(size_t& first_offset) const
{
    std::vector<unsigned char> guard(guard_bytes);
    const unsigned char* end = static_cast<const unsigned char*>(device_) + bytes_;
    require("aclrtMemcpy", aclrtMemcpy(guard.data(), guard_bytes, end, guard_bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    const auto damaged = [](unsigned char byte) { return byte != guard_value; };
    const auto first = std::find_if(guard.begin(), guard.end(), damaged);
    first_offset = static_cast<size_t>(first - guard.begin());
    return static_cast<size_t>(std::count_if(guard.begin(), guard.end(), damaged));
}

} // namespace harness
