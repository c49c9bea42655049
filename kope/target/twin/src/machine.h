// The open case: device buffers, the launch that runs, its blocks, what was found. One per process.
#ifndef KOPE_TWIN_SRC_MACHINE_H
#define KOPE_TWIN_SRC_MACHINE_H

#include <cstdarg>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ucontext.h>

#include "kope_twin/control.h"
#include "kope_twin/runtime_api.h"
#include "gm_order.h"
#include "parameters.h"
#include "shadow.h"
#include "timeline.h"

namespace kope_twin {
namespace runtime {

// --- device memory -----------------------------------------------------------------------------------------------------

struct CacheLine {
    uint32_t moved = 0;   // when it was last moved, in lines of its core; 0: never
    uint16_t sectors = 0; // those that are there
};

struct DeviceBuffer {
    std::string name;
    uint8_t* host = nullptr; // nullptr in time mode
    uint64_t bytes = 0;
    control::Access access = control::Access::Input;
    std::vector<uint64_t> written; // one bit per byte, in verify mode, inputs excepted
    std::vector<CacheLine> lines;  // where a cache is modelled
    GmOrder order;                 // who touched what since all blocks last met
};

// A device address is no host address: it names a buffer and an offset into its window. No such address is ever mapped.
constexpr uint64_t kGmTag = 0x00d0ULL << 48;
constexpr uint64_t kUbTag = 0x00d1ULL << 48;
constexpr uint64_t kTagMask = 0xffffULL << 48;
constexpr uint64_t kWindow = 1ULL << 40;
constexpr uint64_t kWindowBase = 1ULL << 38; // where the buffer starts in its window: a guard zone on both sides

struct GmPlace {
    DeviceBuffer* buffer = nullptr; // nullptr: the address belongs to no buffer
    int64_t offset = 0;
};

// --- a block ------------------------------------------------------------------------------------------------------------

struct QueueBuffer {
    enum State : uint8_t { Free, Allocated, Queued, Taken };
    uint32_t address = 0;
    uint32_t bytes = 0;
    uint16_t generation = 0;
    State state = Free;
    int32_t queue = -1;
    Clock filled; // what is known complete to who dequeues it
    Clock freed;  // ... to who allocates it
    Site site = {"", 0};
};

struct Queue {
    uint8_t source = 0; // TPosition
    uint8_t target = 0;
    int32_t depth = 0;
    uint16_t first = 0; // its buffers: first .. first + count
    uint16_t count = 0;
    uint16_t next = 0; // where the search for a free one starts
    std::deque<uint16_t> waiting;
};

struct Flag {
    bool set = false;
    Clock clock;
    Site site = {"", 0};
};

constexpr int kEvents = 36;
constexpr int kEventIds = 8;
constexpr uint16_t kQueueSlots = kEvents * kEventIds; // flag slots of the trace below this, two per queue buffer from here on

// Memory a running block needs; kept and used again by later ones.
struct LocalMemory {
    explicit LocalMemory(uint32_t bytes);
    std::vector<uint8_t> ub;
    Shadow shadow;
    History history;
    uint32_t used_bytes = 0; // extent that is not as new
};

struct Stack {
    void* base = nullptr;
    size_t bytes = 0;
};

struct Block {
    uint32_t index = 0;
    Trace trace;
    uint64_t hash = 0;
    uint64_t gm_read_bytes = 0;
    uint64_t gm_written_bytes = 0;
    uint64_t cached_read_bytes = 0;
    uint32_t lines = 0; // cache lines its core has moved so far

    // execution
    ucontext_t context;
    Stack stack;
    enum { Ready, Running, AtSync, Done } state = Ready;

    // unified buffer
    std::unique_ptr<LocalMemory> memory; // verify mode
    uint32_t ub_head = 0;
    uint32_t ub_limit = 0xffffffffU; // end of the pool that buffers are laid out in
    uint32_t ub_peak = 0;
    void* pipe = nullptr;
    bool pipe_used = false;
    std::vector<Queue> queues;
    std::vector<QueueBuffer> buffers;
    uint32_t allocations = 0; // buffers given out since the pipe was opened

    // synchronisation
    uint32_t issued[kPipes] = {};
    Clock known[kPipes];
    Flag flags[kEvents][kEventIds];
    uint8_t reserved_events[kEvents] = {};
    std::vector<std::pair<uint32_t, uint32_t>> spoiled; // address and bytes written without order, adversarial mode

    // registers
    bool counter_mode = false;
    uint64_t mask[2] = {~0ULL, ~0ULL}; // low, high
    uint8_t atomic = 0;
    Dtype atomic_type = Dtype::None;
    bool pad_set = false;
    uint64_t pad_bits = 0;
    bool deq_set = false;
    double deq_scale = 1.0;
    uint64_t reduction[3] = {};

    void clear_for(uint32_t block);
};

// --- the case -----------------------------------------------------------------------------------------------------------

struct Machine {
    bool open = false;
    control::Options options;
    bool verify = true;
    bool stopped = false;
    std::vector<std::unique_ptr<DeviceBuffer>> buffers;
    control::CaseResult result;
    uint64_t host_hash = 0;
    double write_back_bytes = 0.0;     // what the cache may still keep to itself
    std::vector<uint32_t> core_lines; // cache lines each core has moved since the case began

    // launch
    const char* kernel = "";
    uint32_t block_count = 0;
    bool sync_used = false;

    // Where the candidate last called the API; what faults are reported at.
    Site last_site = {"", 0};
    const char* last_name = "";
};

extern Machine machine;
extern Block* current;       // the block whose code runs, nullptr on the host
extern bool in_runtime;      // an API function is at work: library calls are the runtime's own
extern uint64_t scalar_limit; // cycles of pure scalar work after which the watchdog looks

// Entered by every API function. Leaves the mark that library calls and basic blocks are not the candidate's.
class Enter {
public:
    Enter(const char* name, Site site);
    ~Enter() { in_runtime = false; }
    Enter(const Enter&) = delete;
    Enter& operator=(const Enter&) = delete;
};

GmPlace locate(uint64_t address);
void mark_written(DeviceBuffer& buffer, uint64_t offset, uint64_t bytes);
size_t unwritten(const DeviceBuffer& buffer, uint64_t offset, uint64_t bytes, size_t* first);

// Counts a finding, or returns it new for the caller to describe; nullptr when it is known already.
control::Finding* note(const char* kind, Site site, control::Severity severity = control::Severity::Error);
void describe(control::Finding* finding, const char* remedy, const char* format, ...) __attribute__((format(printf, 3, 4)));

// Ends the launch: its blocks run no further. Only in a block.
[[noreturn]] void stop_launch();
void yield_at_sync();
[[noreturn]] void end_process(); // after a fault: hands the case to the fault handler and exits
void check_watchdog();

// Address in the executable file, 0 when it lies elsewhere.
uint64_t executable_offset(uint64_t address);
// Where an earlier call stands, for messages: "line 12", or "line @<address>" for the reader of messages to look up.
std::string line_of(Site site);

// shared by the API's implementation files
extern const char* const position_names[];
extern const char* const pipe_names[];
int event_source(uint8_t event);
int event_target(uint8_t event);
const char* event_name(uint8_t event);
size_t size_of(Dtype dtype);
const char* name_of(Dtype dtype);

} // namespace runtime
} // namespace kope_twin

#endif
