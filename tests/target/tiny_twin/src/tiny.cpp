// The control interface over plain host memory: device addresses are host addresses, every launch takes 100 us.
#include <cstdlib>
#include <cstring>
#include <map>

#include "kernel_operator.h"
#include "kope_twin/control.h"

extern "C" void __sanitizer_cov_trace_pc() {}

namespace kope_twin {
namespace {
struct Buffer {
    char* host;
    size_t bytes;
    std::vector<bool> written;
};
control::Mode mode;
std::map<char*, Buffer> buffers;
control::CaseResult result;
double parameters[] = {48, 1024};
const char* const names[] = {"vector_core_count", "ub_bytes"};
control::FaultHandler handler;
} // namespace

namespace api {
void tiny_launch(const char* name, uint32_t blocks, const char* file, int line)
{
    control::LaunchTimes launch;
    launch.kernel = name;
    launch.file = file;
    launch.line = line;
    launch.block_count = blocks;
    launch.duration_us = 100.0;
    for (uint32_t block = 0; block < blocks; ++block) {
        control::BlockTimes times;
        times.block = times.core = block;
        times.end_us = 90.0;
        times.busy_us[control::PipeMte2] = 60.0 + block;
        times.instructions[control::PipeMte2] = 3;
        times.gm_read_bytes = 1024;
        launch.blocks.push_back(times);
    }
    result.launches.push_back(launch);
    result.duration_us += launch.duration_us;
    result.control_flow = result.control_flow * 31 + line;
}

void tiny_copy(void* to, const void* from, uint64_t bytes)
{
    if (mode == control::Mode::Time) {
        return;
    }
    std::memcpy(to, from, bytes);
    auto place = --buffers.upper_bound(static_cast<char*>(to));
    const size_t first = static_cast<size_t>(static_cast<char*>(to) - place->first);
    std::fill_n(place->second.written.begin() + static_cast<long>(first), bytes, true);
}
} // namespace api

namespace control {
bool set_parameter(const char* name, double value)
{
    for (int k = 0; k < 2; ++k) {
        if (std::strcmp(names[k], name) == 0) {
            parameters[k] = value;
        }
    }
    return std::strcmp(name, "unknown") != 0;
}
bool get_parameter(const char* name, double* value)
{
    for (int k = 0; k < 2; ++k) {
        if (std::strcmp(names[k], name) == 0) {
            *value = parameters[k];
            return true;
        }
    }
    return false;
}
const char* parameter_name(size_t index) { return index < 2 ? names[index] : nullptr; }
const char* severity_name(Severity severity) { return severity == Severity::Error ? "error" : "note"; }
bool CaseResult::has_errors() const { return !findings.empty(); }
void begin_case(const Options& options)
{
    mode = options.mode;
    buffers.clear();
    result = CaseResult{};
}
void* device_buffer(const char*, void* host, size_t bytes, Access)
{
    char* address = static_cast<char*>(host);
    if (address == nullptr && bytes != 0) {
        static char nothing[1 << 16];
        static size_t used;
        address = nothing + (used += 64);
    }
    buffers[address] = Buffer{address, bytes, std::vector<bool>(host == nullptr ? 0 : bytes)};
    return address;
}
size_t unwritten_bytes(const void* device, size_t* first)
{
    const Buffer& buffer = buffers[static_cast<char*>(const_cast<void*>(device))];
    size_t missing = 0;
    for (size_t k = buffer.bytes; k-- > 0;) {
        if (!buffer.written[k]) {
            ++missing;
            *first = k;
        }
    }
    return missing;
}
CaseResult end_case() { return result; }
void set_chip_name(const char*) {}
void install_fault_handler(FaultHandler fault_handler) { handler = fault_handler; }
} // namespace control
} // namespace kope_twin

extern "C" {
void* __real_memcpy(void*, const void*, size_t);
void* __real_memset(void*, int, size_t);
void* __real_memmove(void*, const void*, size_t);
int __real_memcmp(const void*, const void*, size_t);
void* __real_malloc(size_t);
void* __real_calloc(size_t, size_t);
void* __real_realloc(void*, size_t);
float __real_expf(float);
void* __wrap_memcpy(void* to, const void* from, size_t bytes) { return __real_memcpy(to, from, bytes); }
void* __wrap_memset(void* to, int value, size_t bytes) { return __real_memset(to, value, bytes); }
void* __wrap_memmove(void* to, const void* from, size_t bytes) { return __real_memmove(to, from, bytes); }
int __wrap_memcmp(const void* a, const void* b, size_t bytes) { return __real_memcmp(a, b, bytes); }
void* __wrap_malloc(size_t bytes) { return __real_malloc(bytes); }
void* __wrap_calloc(size_t count, size_t bytes) { return __real_calloc(count, bytes); }
void* __wrap_realloc(void* block, size_t bytes) { return __real_realloc(block, bytes); }
float __wrap_expf(float x) { return __real_expf(x); }
void* __wrap__Znwm(size_t bytes) { return __real_malloc(bytes); }
void* __wrap__Znam(size_t bytes) { return __real_malloc(bytes); }
}
