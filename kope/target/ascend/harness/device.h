// The acl runtime as the host program uses it: memory with a guard behind it, one stream, error codes with their text.
#ifndef KOPE_ASCEND_DEVICE_H
#define KOPE_ASCEND_DEVICE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace harness {

// An acl call that failed: which one, its return code, and the runtime's own text.
struct DeviceError {
    std::string call;
    int code = 0;
    std::string text;
};

// Opens device 0 and a stream; closes them again when it goes. One at a time.
class Device {
public:
    Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device();

    void* stream() const { return stream_; }
    // Waits for everything launched. Returns false when the device reports an error.
    bool synchronize(DeviceError& error) const;

private:
    void* stream_ = nullptr;
};

// Device memory of `bytes`, and a guard of known content behind it. Throws DeviceError.
class Buffer {
public:
    explicit Buffer(size_t bytes);
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer();

    void* data() const { return bytes_ == 0 ? nullptr : device_; }
    size_t bytes() const { return bytes_; }
    void fill(unsigned char value);
    void write(const std::vector<unsigned char>& content);
    std::vector<unsigned char> read() const;
    // Bytes of the guard that something has overwritten, and where the first one is.
    size_t guard_damage(size_t& first_offset) const;

private:
    size_t bytes_;
    void* device_ = nullptr;
};

} // namespace harness

#endif
