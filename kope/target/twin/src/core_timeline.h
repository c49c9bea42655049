// The pipes of one core as time passes over its events, and the memory that all cores share.
#ifndef KOPE_TWIN_SRC_CORE_TIMELINE_H
#define KOPE_TWIN_SRC_CORE_TIMELINE_H

#include <algorithm>
#include <vector>

#include "parameters.h"
#include "timeline.h"

namespace kope_twin {
namespace runtime {

// Parameters in cycles and bytes per cycle.
struct Rates {
    double memory = parameters.gm_bandwidth_gbps * 1e3 / parameters.clock_mhz;
    double cache = parameters.l2_gbps * 1e3 / parameters.clock_mhz; // 0: there is none
    double read = parameters.gm_to_ub_gbps * 1e3 / parameters.clock_mhz; // one core
    double write = parameters.ub_to_gm_gbps * 1e3 / parameters.clock_mhz;
    double read_latency = parameters.gm_read_latency_ns * parameters.clock_mhz * 1e-3;
    double write_latency = parameters.gm_write_latency_ns * parameters.clock_mhz * 1e-3;
};

// Device memory as time slices with a capacity in bytes each. Transfers take what is left from their start on.
class SharedMemory {
public:
    SharedMemory(double bytes_per_cycle, double slice_cycles, double from = 0.0)
        : origin_(from), slice_(slice_cycles), capacity_(bytes_per_cycle * slice_cycles)
    {
    }

    // Returns when a transfer that starts at `start` and can move `rate` bytes per cycle is through.
    double take(double start, double bytes, double rate);

private:
    size_t next_free(size_t index);
    void grow(size_t index);

    double origin_; // nothing is asked for before it
    double slice_;
    double capacity_;
    std::vector<float> used_;
    std::vector<uint32_t> skip_;
};

// What transfers of all cores go through: the cache, and device memory behind it.
class SharedPath {
public:
    // write_back: bytes that may still be written without device memory seeing them; counted down.
    SharedPath(const Rates& rates, double share, double slice_cycles, double from, double& write_back)
        : memory_(rates.memory * share, slice_cycles, from), cache_(std::max(rates.cache, 1.0) * share, slice_cycles, from),
          cached_(rates.cache > 0.0), write_back_(write_back)
    {
    }

    // Returns when a transfer that starts at `start` and can move `rate` bytes per cycle is through.
    double take(const Event& event, double start, double rate);

private:
    double from_memory(const Event& event);

    SharedMemory memory_;
    SharedMemory cache_;
    bool cached_;
    double& write_back_;
};

// Writes down what the pipes of a block do.
class SpanLog {
public:
    SpanLog(control::LaunchTimes& launch, size_t most) : launch_(launch), most_(most) {}
    void open(const Trace& trace, uint32_t block);
    void at(size_t event) { event_ = event; }
    void add(int pipe, double begin, double end, uint32_t bytes = 0);
    void scalar(const char* name, double begin, double end) { put(kScalar, name, 0, begin, end, 0); }

private:
    void put(int pipe, const char* name, int line, double begin, double end, uint32_t bytes);

    control::LaunchTimes& launch_;
    size_t most_;
    const Trace* trace_ = nullptr;
    uint32_t block_ = 0;
    size_t event_ = 0;
};

struct CoreTimeline {
    enum Stop { AfterMove, AtSync, AtEnd };

    double start = 0.0;
    double scalar = 0.0;         // time of the scalar unit
    double free[kPipes] = {};    // when the pipe can start its next instruction
    double visible[kPipes] = {}; // when everything the pipe has done so far is visible
    double busy[kPipes] = {};
    double waited = 0.0;
    std::vector<double> queue[kPipes]; // starts of the last instructions, a ring
    size_t issued[kPipes] = {};
    std::vector<double> slots; // flags: when what they stand for is visible
    SpanLog* log = nullptr;    // where what happens is written down, if anywhere

    void begin(double now);
    // Takes up what another timeline that began at 0 came to.
    void go_on_from(const CoreTimeline& other, double now);
    // Runs from event `next` up to and including the next transfer, or to a SyncAll, or to the end.
    Stop advance(const std::vector<Event>& events, size_t& next, SharedPath& memory, const Rates& rates);
    void wait_until(double time)
    {
        if (time > scalar) {
            if (log != nullptr) {
                log->scalar("wait", scalar, time);
            }
            waited += time - scalar;
            scalar = time;
        }
    }
    double everything() const;
    void barrier_all();

private:
    double issue(int pipe);
    void work(const Event& event);
    void move(const Event& event, SharedPath& memory, const Rates& rates);
    void set(const Event& event);
    void wait(const Event& event);
    void join(uint32_t pipes);
};

} // namespace runtime
} // namespace kope_twin

#endif
