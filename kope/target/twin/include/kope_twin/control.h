// What the harness does with the twin: hand in memory and parameters, open a case, read what the case showed.
// Candidates never include this header, and nothing in namespace kope_twin::control may be linked from a candidate.
//
//   set_parameter("gm_bandwidth_gbps", 1750.0);            // chip description, once
//   begin_case(options);                                   // forgets the buffers and findings of the case before
//   void* x = device_buffer("x", mapped, bytes, Access::Input);
//   kope_entry(&call);                                     // launches run inside, through kope_twin::launch
//   CaseResult result = end_case();
//
// One thread only. Launches run synchronously; a launch after a fatal finding returns at once and does nothing.
#ifndef KOPE_TWIN_CONTROL_H
#define KOPE_TWIN_CONTROL_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kope_twin {
namespace control {

enum class Mode {
    Verify, // data is computed, defects are looked for, pipe timelines are kept
    Time    // no data: control flow and pipe timelines only; scalar reads give 1 and set CaseResult::scalar_read
};

enum class Access {
    Input,    // a kernel's write is the finding "input-written" and does not take place
    Output,
    Workspace,
    Memory // a program's own: read and written by kernels and by the host
};

struct Options {
    Mode mode = Mode::Verify;
    // Order in which blocks run on the host: 0 forward, 1 reverse, anything else a permutation drawn from it.
    uint64_t block_order_seed = 0;
    // Also report what the compiler's automatic synchronisation covers on the device (notes of kind "auto-sync").
    bool strict = false;
    // What nothing orders has no value: an operand read, or bytes written, without synchronisation become NaN, so that
    // missing synchronisation gives wrong results as it may on the device. Verify mode.
    bool adversarial = false;
    // Look for defects of order and content. Off: bounds and arguments only. Verify mode.
    bool checks = true;
    // Keep CaseResult::launches[].blocks (per-block pipe times). Costs nothing to speak of.
    bool per_block = true;
    // Keep what every pipe did when (CaseResult::launches[].spans): at most this many entries a launch.
    size_t spans = 0;
};

enum class Severity { Error, Warning, Note };

// One defect. Equal kind, file and line are one finding with a count; message and block are those of the first.
struct Finding {
    std::string kind;    // stable slug, see docs/twin.md
    std::string message; // names operand, block, offset
    std::string remedy;
    Severity severity = Severity::Error;
    std::string file; // as the compiler saw it, "" when unknown
    int line = 0;     // 0 when unknown
    uint32_t block = 0;
    uint64_t count = 1;
    uint64_t address = 0; // faults: the instruction, as its address in the executable file; 0 when unknown
};

enum Pipe : int { PipeScalar = 0, PipeVector, PipeMte2, PipeMte3, PipeCount };

// What the vector unit worked on, by the wider of source and destination. Misc: no arithmetic (copies, fills, selections).
enum VectorType : int { VectorFp32 = 0, VectorFp16, VectorInt32, VectorInt16, VectorMisc, VectorTypeCount };

// What one block did. Times in modelled microseconds from the start of its launch.
struct BlockTimes {
    uint32_t block = 0;
    uint32_t core = 0;
    double start_us = 0.0;
    double end_us = 0.0;
    double busy_us[PipeCount] = {};
    double vector_us[VectorTypeCount] = {}; // parts of busy_us[PipeVector]
    // Time the scalar unit spent waiting for another pipe: for flags, full queues and automatic synchronisation.
    double scalar_wait_us = 0.0;
    uint64_t instructions[PipeCount] = {};
    uint64_t gm_read_bytes = 0;
    uint64_t gm_written_bytes = 0;
    uint64_t cached_read_bytes = 0; // part of gm_read_bytes that came from the L2 cache
};

// A stretch of time in which a pipe of a block's core was at work, or the scalar unit waited. Times as in BlockTimes.
struct Span {
    const char* name = ""; // the function called, or "wait"
    double start_us = 0.0;
    double end_us = 0.0;
    uint32_t block = 0;
    uint32_t bytes = 0; // transfers
    int line = 0;       // of the call, 0 when unknown
    int pipe = 0;
};

struct LaunchTimes {
    std::string kernel;
    std::string file;
    int line = 0;
    uint32_t block_count = 0;
    uint32_t core_count = 0; // cores that ran blocks
    double duration_us = 0.0; // launch cost included
    uint64_t gm_read_bytes = 0;
    uint64_t gm_written_bytes = 0;
    uint64_t ub_peak_bytes = 0; // largest extent of UB any block allocated
    std::vector<BlockTimes> blocks;
    std::vector<Span> spans;
    uint64_t spans_left_out = 0; // there were more than asked for, or too many to keep
};

struct CaseResult {
    double duration_us = 0.0; // sum over launches
    uint64_t gm_read_bytes = 0;
    uint64_t gm_written_bytes = 0;
    // Hash of the basic blocks of the candidate run on host and device, in order. Independent of load addresses.
    uint64_t control_flow = 0;
    bool scalar_read = false;  // a scalar read data that time mode does not have: its control flow may differ
    bool untimed_work = false; // work was seen that the model cannot cost: the time is not to be trusted
    bool stopped = false;      // a finding ended the case early: outputs are incomplete
    std::vector<Finding> findings;
    std::vector<LaunchTimes> launches;

    bool has_errors() const;
};

// Name of a pipe as profilers spell it: "scalar", "vec", "mte2", "mte3".
const char* pipe_name(int pipe);
const char* severity_name(Severity severity);

// --- parameters of the chip, see parameters.cpp for meaning and defaults ---------------------------------------------

// Returns false when there is no parameter of that name.
bool set_parameter(const char* name, double value);
bool get_parameter(const char* name, double* value);
// Names in a fixed order; nullptr past the end.
const char* parameter_name(size_t index);

// --- one case ----------------------------------------------------------------------------------------------------------

void begin_case(const Options& options);

// Makes `bytes` at `host` reachable for kernels and returns the device address that stands for them. The address is
// 512-byte aligned, unreadable for host code, and surrounded by guard zones that belong to no buffer. host may be
// nullptr in Mode::Time. The memory must stay valid until the next begin_case. Returns nullptr when bytes is 0.
void* device_buffer(const char* name, void* host, size_t bytes, Access access);

// Bytes of an output no kernel has written (to the granularity of one byte), and where the first one is. Verify only.
size_t unwritten_bytes(const void* device, size_t* first_offset);

CaseResult end_case();

// --- programs with their own main, inside an open case -----------------------------------------------------------------

void add_finding(const Finding& finding);
bool case_stopped();
double elapsed_us(); // modelled time of the launches so far
// Memory at a device address that host code has filled; bytes of it that nothing has; and memory that is no longer valid.
void mark_written(const void* device, size_t bytes);
size_t unwritten_bytes_in(const void* device, size_t bytes, size_t* first_offset);
void close_buffer(const void* device);

// Name of the chip, for host code that asks ("Ascend910B2").
void set_chip_name(const char* name);
const char* chip_name();

// --- faults ------------------------------------------------------------------------------------------------------------

// Called on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, on an alternate stack, with everything known about the open
// case, the fault among its findings ("untimed-work" for raw access to device memory, "stack-overflow", "crash").
// The process ends with status 70 when the handler returns. Without a handler the finding goes to stderr.
using FaultHandler = void (*)(const CaseResult& result);
void install_fault_handler(FaultHandler handler);

// Called when device time passes the parameter device_time_limit_us ("device-timeout") in code that never calls the API,
// from which there is no way back to the host. As with faults the process ends with status 70 afterwards.

} // namespace control
} // namespace kope_twin

#endif
