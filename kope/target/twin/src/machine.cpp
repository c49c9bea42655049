// See machine.h: the case and its findings, device buffers, and the harness's side of both.
#include "machine.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <unistd.h>

namespace kope_twin {
namespace runtime {

Machine machine;
Block* current = nullptr;
bool in_runtime = false;

const char* const position_names[] = {"GM", "A1", "A2", "B1", "B2", "C1", "C2", "CO1", "CO2", "VECIN", "VECOUT", "VECCALC"};
const char* const pipe_names[] = {"PIPE_S", "PIPE_V", "PIPE_MTE2", "PIPE_MTE3"};

namespace {

struct Pair {
    const char* name;
    int8_t source;
    int8_t target;
};

// In the order of AscendC::HardEvent; -1: a pipe vector cores do not have.
const Pair events[kEvents] = {{"MTE2_MTE1", kMte2, -1}, {"MTE1_MTE2", -1, kMte2}, {"MTE1_M", -1, -1}, {"M_MTE1", -1, -1},
    {"MTE2_V", kMte2, kVector}, {"V_MTE2", kVector, kMte2}, {"MTE3_V", kMte3, kVector}, {"V_MTE3", kVector, kMte3}, {"M_V", -1, kVector},
    {"V_M", kVector, -1}, {"V_V", kVector, kVector}, {"MTE3_MTE1", kMte3, -1}, {"MTE1_MTE3", -1, kMte3}, {"MTE1_V", -1, kVector},
    {"MTE2_M", kMte2, -1}, {"M_MTE2", -1, kMte2}, {"V_MTE1", kVector, -1}, {"M_FIX", -1, -1}, {"FIX_M", -1, -1},
    {"MTE3_MTE2", kMte3, kMte2}, {"MTE2_MTE3", kMte2, kMte3}, {"S_V", kScalar, kVector}, {"V_S", kVector, kScalar},
    {"S_MTE2", kScalar, kMte2}, {"MTE2_S", kMte2, kScalar}, {"S_MTE3", kScalar, kMte3}, {"MTE3_S", kMte3, kScalar}};

struct DtypeFacts {
    const char* name;
    uint8_t bytes;
};
const DtypeFacts dtypes[] = {{"float", 4}, {"half", 2}, {"bfloat16_t", 2}, {"int8_t", 1}, {"uint8_t", 1}, {"int16_t", 2}, {"uint16_t", 2},
    {"int32_t", 4}, {"uint32_t", 4}, {"int64_t", 8}, {"uint64_t", 8}, {"double", 8}, {"?", 1}};

constexpr size_t kMostFindings = 200; // enough for a person; a loop of distinct lines must not fill memory

} // namespace

int event_source(uint8_t event) { return events[event].source; }
int event_target(uint8_t event) { return events[event].target; }
const char* event_name(uint8_t event) { return events[event].name == nullptr ? "?" : events[event].name; }
size_t size_of(Dtype dtype) { return dtypes[static_cast<size_t>(dtype)].bytes; }
const char* name_of(Dtype dtype) { return dtypes[static_cast<size_t>(dtype)].name; }

std::string line_of(Site site)
{
    char text[32];
    if (site.caller != nullptr) {
        std::snprintf(text, sizeof(text), "line @%llx", static_cast<unsigned long long>(executable_offset(reinterpret_cast<uint64_t>(site.caller)) - 1));
    } else {
        std::snprintf(text, sizeof(text), "line %d", site.line);
    }
    return text;
}

control::Finding* note(const char* kind, Site site, control::Severity severity)
{
    const uint64_t address = site.caller == nullptr ? 0 : executable_offset(reinterpret_cast<uint64_t>(site.caller)) - 1;
    for (control::Finding& known : machine.result.findings) {
        if (known.line == site.line && known.kind == kind && known.file == site.file && known.address == address) {
            known.count += 1;
            return nullptr;
        }
    }
    if (machine.result.findings.size() >= kMostFindings) {
        return nullptr;
    }
    control::Finding finding;
    finding.kind = kind;
    finding.severity = severity;
    finding.file = site.file;
    finding.line = site.line;
    finding.address = address;
    finding.block = current != nullptr ? current->index : 0;
    machine.result.findings.push_back(finding);
    return &machine.result.findings.back();
}

void describe(control::Finding* finding, const char* remedy, const char* format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    finding->message = text;
    finding->remedy = remedy;
}

GmPlace locate(uint64_t address)
{
    if ((address & kTagMask) != kGmTag) {
        return {};
    }
    const uint64_t window = (address & ~kTagMask) / kWindow;
    if (window >= machine.buffers.size()) {
        return {};
    }
    return {machine.buffers[window].get(), static_cast<int64_t>((address & (kWindow - 1)) - kWindowBase)};
}

// Bytes of a part of a buffer that nothing has written; `first` is counted from the part's start.
size_t unwritten(const DeviceBuffer& buffer, uint64_t offset, uint64_t bytes, size_t* first)
{
    size_t missing = 0;
    if (buffer.written.empty()) {
        return 0;
    }
    for (uint64_t at = offset; at < offset + bytes;) {
        const uint64_t bit = at % 64;
        const uint64_t count = std::min(64 - bit, offset + bytes - at);
        const uint64_t wanted = (count == 64 ? ~0ULL : (1ULL << count) - 1) << bit;
        const uint64_t lacking = wanted & ~buffer.written[at / 64];
        if (lacking != 0 && missing == 0 && first != nullptr) {
            *first = at - bit + static_cast<size_t>(__builtin_ctzll(lacking)) - offset;
        }
        missing += static_cast<size_t>(__builtin_popcountll(lacking));
        at += count;
    }
    return missing;
}

// One bit per byte.
void mark_written(DeviceBuffer& buffer, uint64_t offset, uint64_t bytes)
{
    if (buffer.written.empty()) {
        return;
    }
    uint64_t at = offset;
    const uint64_t end = offset + bytes;
    while (at < end) {
        const uint64_t begin_bit = at % 64;
        if (begin_bit == 0 && end - at >= 64) {
            const uint64_t words = (end - at) / 64;
            std::fill_n(buffer.written.begin() + static_cast<int64_t>(at / 64), words, ~0ULL);
            at += words * 64;
            continue;
        }
        const uint64_t count = std::min(end - at, 64 - begin_bit);
        buffer.written[at / 64] |= ((1ULL << count) - 1) << begin_bit; // count < 64 here
        at += count;
    }
}

} // namespace runtime

namespace control {

using namespace runtime;

bool CaseResult::has_errors() const
{
    for (const Finding& finding : findings) {
        if (finding.severity == Severity::Error) {
            return true;
        }
    }
    return false;
}

const char* pipe_name(int pipe)
{
    static const char* const names[] = {"scalar", "vec", "mte2", "mte3"};
    return pipe >= 0 && pipe < PipeCount ? names[pipe] : "?";
}

const char* severity_name(Severity severity)
{
    static const char* const names[] = {"error", "warning", "note"};
    return names[static_cast<int>(severity)];
}

void begin_case(const Options& options)
{
    machine.open = true;
    machine.options = options;
    machine.verify = options.mode == Mode::Verify;
    machine.stopped = false;
    machine.buffers.clear();
    machine.result = CaseResult();
    machine.host_hash = 0;
    machine.write_back_bytes = parameters.l2_write_back_bytes;
    machine.core_lines.clear();
    machine.last_site = {"", 0};
    machine.last_name = "";
}

void* device_buffer(const char* name, void* host, size_t bytes, Access access)
{
    if (bytes == 0 || machine.buffers.size() >= 255) {
        return nullptr;
    }
    auto buffer = std::make_unique<DeviceBuffer>();
    buffer->name = name;
    buffer->host = machine.verify ? static_cast<uint8_t*>(host) : nullptr;
    buffer->bytes = bytes;
    buffer->access = access;
    if (machine.verify && access != Access::Input) {
        buffer->written.assign((bytes + 63) / 64, 0);
    }
    machine.buffers.push_back(std::move(buffer));
    return reinterpret_cast<void*>(kGmTag + (machine.buffers.size() - 1) * kWindow + kWindowBase);
}

size_t unwritten_bytes(const void* device, size_t* first_offset)
{
    const GmPlace place = locate(reinterpret_cast<uint64_t>(device));
    return place.buffer == nullptr ? 0 : unwritten(*place.buffer, 0, place.buffer->bytes, first_offset);
}

size_t unwritten_bytes_in(const void* device, size_t bytes, size_t* first_offset)
{
    const GmPlace place = locate(reinterpret_cast<uint64_t>(device));
    if (place.buffer == nullptr || place.offset < 0 || static_cast<uint64_t>(place.offset) + bytes > place.buffer->bytes) {
        return 0;
    }
    return unwritten(*place.buffer, static_cast<uint64_t>(place.offset), bytes, first_offset);
}

void mark_written(const void* device, size_t bytes)
{
    const GmPlace place = locate(reinterpret_cast<uint64_t>(device));
    if (place.buffer != nullptr && place.offset >= 0) {
        runtime::mark_written(*place.buffer, static_cast<uint64_t>(place.offset), bytes);
    }
}

void close_buffer(const void* device)
{
    const GmPlace place = locate(reinterpret_cast<uint64_t>(device));
    if (place.buffer != nullptr) {
        place.buffer->name += " (freed)";
        place.buffer->bytes = 0;
    }
}

void add_finding(const Finding& finding) { machine.result.findings.push_back(finding); }
bool case_stopped() { return machine.stopped; }

double elapsed_us()
{
    double total = 0.0;
    for (const LaunchTimes& launch : machine.result.launches) {
        total += launch.duration_us;
    }
    return total;
}

namespace {
std::string chip = "Ascend910B2";
}
void set_chip_name(const char* name) { chip = name; }
const char* chip_name() { return chip.c_str(); }

CaseResult end_case()
{
    CaseResult& result = machine.result;
    result.stopped = machine.stopped;
    result.control_flow ^= machine.host_hash;
    for (const LaunchTimes& launch : result.launches) {
        result.duration_us += launch.duration_us;
        result.gm_read_bytes += launch.gm_read_bytes;
        result.gm_written_bytes += launch.gm_written_bytes;
    }
    machine.open = false;
    CaseResult done = std::move(machine.result);
    machine.result = CaseResult();
    return done;
}

} // namespace control
} // namespace kope_twin
