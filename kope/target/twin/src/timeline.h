// What a block issued, in program order, and what time it takes: recording while it runs, replay of all blocks afterwards.
//
// Every pipe works in order. The scalar unit issues; an instruction starts when it is issued and its pipe is free. Flags
// and queues carry the time at which the work before them is visible. All transfers of a launch share the bandwidth of
// device memory, and each core's its own port; that is why blocks are replayed together, not one by one.
#ifndef KOPE_TWIN_SRC_TIMELINE_H
#define KOPE_TWIN_SRC_TIMELINE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kope_twin/control.h"

namespace kope_twin {
namespace runtime {

constexpr int kPipes = control::PipeCount;
constexpr int kScalar = control::PipeScalar;
constexpr int kVector = control::PipeVector;
constexpr int kMte2 = control::PipeMte2;
constexpr int kMte3 = control::PipeMte3;

constexpr uint16_t kUnaligned = 1;      // Move: does not start at 512 bytes
constexpr uint32_t kSectorBytes = 32;    // what is told apart in a cache line
constexpr int kMissedShift = 1;          // Move: above this bit, how many sectors are not in the L2 cache

struct Event {
    enum Kind : uint8_t { Work, Move, Set, Wait, Barrier, BarrierAll, Join, SyncAll };
    Kind kind;
    uint8_t pipe;
    uint16_t slot;   // Set, Wait: which flag; Join: set of pipes as bits; Move: kUnaligned, and sectors missed in the cache
    uint32_t scalar; // cycles of the scalar unit up to and including the issue
    uint32_t cycles; // occupation of the pipe; Move: without the transfer itself
    uint32_t bytes;  // Move
};

struct CoreTimeline;

// The call that an event comes from.
struct Mark {
    const char* name;
    int line;
};

// How many events of a block are kept, and which share of the memory's bandwidth it is given when there are more. marks:
// whether the call of every event is kept.
struct TraceLimits {
    size_t events = 1 << 20;
    double share = 1.0;
    bool marks = false;
};
extern TraceLimits trace_limits;

// The events of one block. Scalar work between instructions is folded into the next one.
class Trace {
public:
    void scalar(uint64_t cycles)
    {
        pending_ += cycles;
        busy_[kScalar] += cycles;
    }
    void work(int pipe, uint32_t cycles, int type = control::VectorMisc);
    void move(int pipe, uint32_t cycles, uint64_t bytes, uint64_t port_cycles, uint16_t path);
    void flag(Event::Kind kind, int pipe, uint16_t slot);
    void barrier(int pipe);
    void barrier_all();
    void sync_all();
    // The scalar unit waits for the pipes in the set. Recorded only when one of them got work since the last time.
    void join(uint32_t pipes);

    const std::vector<Event>& events() const { return events_; }
    const std::vector<Mark>& marks() const { return marks_; }
    uint64_t tail() const { return pending_; }
    uint64_t instructions(int pipe) const { return instructions_[pipe]; }
    uint64_t scalar_cycles() const { return busy_[kScalar]; }
    uint64_t vector_cycles(int type) const { return vector_[type]; }
    // No pipe can need less than this.
    uint64_t least_cycles() const;

    // The part that was too long to keep, nullptr when all events are there.
    const CoreTimeline* condensed() const { return condensed_.get(); }

private:
    void add(Event event);
    void condense();

    std::vector<Event> events_;
    std::vector<Mark> marks_;
    uint64_t pending_ = 0;
    uint64_t busy_[kPipes] = {};
    uint64_t instructions_[kPipes] = {};
    uint64_t vector_[control::VectorTypeCount] = {};
    uint32_t dirty_ = 0;
    std::shared_ptr<CoreTimeline> condensed_;
};

// Turns the traces of a launch, in block order, into times. Fills `times` (start, end, busy, wait) and returns the duration
// without the launch cost, in microseconds. gm_bytes: what all blocks move together. write_back: bytes the cache may keep to
// itself, counted down. launch: is given the cores that took part, and as many spans as wanted.
double replay(const std::vector<const Trace*>& traces, uint64_t gm_bytes, double& write_back, std::vector<control::BlockTimes>& times,
    control::LaunchTimes& launch, size_t spans_wanted);

} // namespace runtime
} // namespace kope_twin

#endif
