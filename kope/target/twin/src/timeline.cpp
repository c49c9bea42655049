// See timeline.h.
#include "timeline.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "parameters.h"

namespace kope_twin {
namespace runtime {

void Trace::add(Event event)
{
    constexpr uint64_t most = 0xffffffffULL;
    const uint64_t scalar = std::min(pending_, most);
    event.scalar = static_cast<uint32_t>(scalar);
    pending_ -= scalar;
    events_.push_back(event);
}

void Trace::work(int pipe, uint32_t cycles, int type)
{
    scalar(static_cast<uint64_t>(parameters.issue_cycles));
    vector_[type] += cycles;
    add({Event::Work, static_cast<uint8_t>(pipe), 0, 0, cycles, 0});
    busy_[pipe] += cycles;
    instructions_[pipe] += 1;
    dirty_ |= 1U << pipe;
}

void Trace::move(int pipe, uint32_t cycles, uint64_t bytes, uint64_t port_cycles, bool unaligned)
{
    scalar(static_cast<uint64_t>(parameters.issue_cycles));
    add({Event::Move, static_cast<uint8_t>(pipe), static_cast<uint16_t>(unaligned ? 1 : 0), 0, cycles, static_cast<uint32_t>(bytes)});
    busy_[pipe] += cycles + port_cycles;
    instructions_[pipe] += 1;
    dirty_ |= 1U << pipe;
}

void Trace::flag(Event::Kind kind, int pipe, uint16_t slot)
{
    scalar(static_cast<uint64_t>(parameters.flag_cycles));
    add({kind, static_cast<uint8_t>(pipe), slot, 0, 0, 0});
}

void Trace::barrier(int pipe)
{
    scalar(static_cast<uint64_t>(parameters.flag_cycles));
    add({Event::Barrier, static_cast<uint8_t>(pipe), 0, 0, 0, 0});
}

void Trace::barrier_all()
{
    scalar(static_cast<uint64_t>(parameters.barrier_cycles));
    add({Event::BarrierAll, 0, 0, 0, 0, 0});
    dirty_ = 0;
}

void Trace::sync_all()
{
    barrier_all();
    add({Event::SyncAll, 0, 0, 0, 0, 0});
}

void Trace::join(uint32_t pipes)
{
    const uint32_t needed = pipes & dirty_;
    if (needed != 0) {
        dirty_ &= ~needed;
        add({Event::Join, 0, static_cast<uint16_t>(needed), 0, 0, 0});
    }
}

uint64_t Trace::least_cycles() const { return *std::max_element(busy_, busy_ + kPipes); }

namespace {

// Device memory as time slices with a capacity in bytes each. Transfers take what is left from their start on.
class SharedMemory {
public:
    SharedMemory(double bytes_per_cycle, double slice_cycles) : slice_(slice_cycles), capacity_(bytes_per_cycle * slice_cycles) {}

    // Returns when a transfer that starts at `start` and can move `rate` bytes per cycle is through.
    double take(double start, double bytes, double rate)
    {
        double now = start;
        size_t index = next_free(static_cast<size_t>(start / slice_));
        while (true) {
            const double slice_start = static_cast<double>(index) * slice_;
            now = std::max(now, slice_start);
            const double in_time = (slice_start + slice_ - now) * rate;
            const double amount = std::max(0.0, std::min({bytes, in_time, capacity_ - used_[index]}));
            used_[index] += static_cast<float>(amount);
            bytes -= amount;
            const bool full = used_[index] >= capacity_ * 0.9999;
            if (bytes <= 1e-6) {
                return std::max(now + amount / rate, slice_start + slice_ * used_[index] / capacity_);
            }
            if (full) {
                skip_[index] = static_cast<uint32_t>(index + 1);
            }
            index = next_free(index + 1);
        }
    }

private:
    size_t next_free(size_t index)
    {
        if (index >= used_.size()) {
            grow(index);
        }
        size_t found = index;
        while (skip_[found] != found) {
            found = skip_[found];
            if (found >= used_.size()) {
                grow(found);
            }
        }
        while (index != found) { // shorten the path for the next who comes here
            const size_t after = skip_[index];
            skip_[index] = static_cast<uint32_t>(found);
            index = after;
        }
        return found;
    }

    void grow(size_t index)
    {
        const size_t size = std::max<size_t>(index + 1, used_.size() * 2 + 64);
        const size_t before = skip_.size();
        used_.resize(size, 0.0F);
        skip_.resize(size);
        for (size_t k = before; k < size; ++k) {
            skip_[k] = static_cast<uint32_t>(k);
        }
    }

    double slice_;
    double capacity_;
    std::vector<float> used_;
    std::vector<uint32_t> skip_;
};

struct Core {
    const Trace* trace = nullptr;
    control::BlockTimes* times = nullptr;
    size_t next = 0;
    double start = 0.0;
    double scalar = 0.0;            // time of the scalar unit
    double free[kPipes] = {};       // when the pipe can start its next instruction
    double visible[kPipes] = {};    // when everything the pipe has done so far is visible
    double busy[kPipes] = {};
    double waited = 0.0;
    std::vector<double> queue[kPipes]; // starts of the last instructions, a ring
    size_t issued[kPipes] = {};
    std::vector<double> slots;
    bool at_sync = false;

    void begin(const Trace* work, control::BlockTimes* result, double now);
    void wait_until(double time)
    {
        if (time > scalar) {
            waited += time - scalar;
            scalar = time;
        }
    }
    double issue(int pipe);
    double everything() const { return std::max({scalar, visible[kVector], visible[kMte2], visible[kMte3]}); }
    void barrier_all();
};

void Core::begin(const Trace* work, control::BlockTimes* result, double now)
{
    *this = Core();
    trace = work;
    times = result;
    start = now;
    scalar = now + parameters.block_start_cycles;
    const size_t depth = static_cast<size_t>(std::max(1.0, parameters.pipe_queue_depth));
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        free[pipe] = scalar;
        visible[pipe] = scalar;
        queue[pipe].assign(depth, 0.0);
    }
}

// The pipe's queue takes one more instruction once the one `depth` before it has started. Returns when this one starts.
double Core::issue(int pipe)
{
    double& oldest = queue[pipe][issued[pipe]++ % queue[pipe].size()];
    wait_until(oldest);
    const double at = std::max(scalar, free[pipe]);
    oldest = at;
    return at;
}

void Core::barrier_all()
{
    wait_until(everything());
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        free[pipe] = std::max(free[pipe], scalar);
    }
}

} // namespace

struct Replay::State {
    SharedMemory memory;
    double cycles_per_us = parameters.clock_mhz;
    double read_rate = parameters.gm_to_ub_gbps * 1e3 / parameters.clock_mhz; // bytes per cycle of one core
    double write_rate = parameters.ub_to_gm_gbps * 1e3 / parameters.clock_mhz;
    double read_latency = parameters.gm_read_latency_ns * parameters.clock_mhz * 1e-3;
    double write_latency = parameters.gm_write_latency_ns * parameters.clock_mhz * 1e-3;
    std::vector<Core> cores;
    const std::vector<const Trace*>* traces = nullptr;
    std::vector<control::BlockTimes>* times = nullptr;
    size_t next_block = 0;
    size_t waiting = 0;
    size_t running = 0;

    State(double bytes_per_cycle, double slice) : memory(bytes_per_cycle, slice) {}

    bool start_next(Core& core, double now);
    bool advance(Core& core);
    void move(Core& core, const Event& event);
    void finish(Core& core);
};

Replay::Replay(uint32_t, uint64_t gm_bytes, uint64_t least_cycles)
{
    const double bytes_per_cycle = parameters.gm_bandwidth_gbps * 1e3 / parameters.clock_mhz;
    const double expected = std::max(static_cast<double>(gm_bytes) / bytes_per_cycle, static_cast<double>(least_cycles));
    state_ = new State(bytes_per_cycle, std::max(64.0, expected / 20000.0));
}

Replay::~Replay() { delete state_; }

bool Replay::State::start_next(Core& core, double now)
{
    if (next_block >= traces->size()) {
        return false;
    }
    const size_t block = next_block++;
    const uint32_t number = static_cast<uint32_t>(&core - cores.data());
    control::BlockTimes& result = (*times)[block];
    result.core = number;
    core.begin((*traces)[block], &result, now);
    return true;
}

void Replay::State::finish(Core& core)
{
    core.scalar += static_cast<double>(core.trace->tail());
    const double end = core.everything();
    control::BlockTimes& result = *core.times;
    result.start_us = core.start / cycles_per_us;
    result.end_us = end / cycles_per_us;
    result.scalar_wait_us = core.waited / cycles_per_us;
    core.busy[kScalar] = core.scalar - core.start - core.waited;
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        result.busy_us[pipe] = core.busy[pipe] / cycles_per_us;
        result.instructions[pipe] = core.trace->instructions(pipe);
    }
    for (int type = 0; type < control::VectorTypeCount; ++type) {
        result.vector_us[type] = static_cast<double>(core.trace->vector_cycles(type)) / cycles_per_us;
    }
    core.scalar = end;
}

void Replay::State::move(Core& core, const Event& event)
{
    const bool in = event.pipe == kMte2;
    const double begin = core.issue(event.pipe);
    const double port = (in ? read_rate : write_rate) / (event.slot != 0 ? parameters.gm_unaligned_port_factor : 1.0);
    const double through = memory.take(begin + event.cycles, event.bytes, port);
    core.busy[event.pipe] += through - begin;
    core.free[event.pipe] = through;
    core.visible[event.pipe] = through + (in ? read_latency : write_latency);
}

// Runs a core up to and including its next transfer. Returns false when it is waiting for other cores or out of work.
bool Replay::State::advance(Core& core)
{
    const std::vector<Event>& events = core.trace->events();
    while (core.next < events.size()) {
        const Event& event = events[core.next++];
        core.scalar += event.scalar;
        switch (event.kind) {
            case Event::Work: {
                const double begin = core.issue(event.pipe);
                core.busy[event.pipe] += event.cycles;
                core.free[event.pipe] = begin + event.cycles;
                core.visible[event.pipe] = core.free[event.pipe] + parameters.vector_latency_cycles;
                break;
            }
            case Event::Move:
                move(core, event);
                return true;
            case Event::Set:
                if (event.slot >= core.slots.size()) {
                    core.slots.resize(event.slot + 64U, 0.0);
                }
                core.slots[event.slot] = (event.pipe == kScalar ? core.scalar : std::max(core.scalar, core.visible[event.pipe]))
                    + parameters.flag_latency_cycles;
                break;
            case Event::Wait: {
                const double set = event.slot < core.slots.size() ? core.slots[event.slot] : 0.0;
                if (event.pipe == kScalar) {
                    core.wait_until(set);
                } else {
                    core.free[event.pipe] = std::max({core.free[event.pipe], set, core.scalar});
                }
                break;
            }
            case Event::Barrier:
                core.free[event.pipe] = std::max({core.free[event.pipe], core.visible[event.pipe], core.scalar});
                break;
            case Event::BarrierAll:
                core.barrier_all();
                break;
            case Event::Join:
                for (int pipe = 0; pipe < kPipes; ++pipe) {
                    if ((event.slot >> pipe & 1U) != 0) {
                        core.wait_until(core.visible[pipe]);
                    }
                }
                break;
            case Event::SyncAll:
                core.at_sync = true;
                return false;
        }
    }
    return false;
}

double Replay::run(const std::vector<const Trace*>& traces, std::vector<control::BlockTimes>& times, uint32_t& core_count)
{
    State& state = *state_;
    state.traces = &traces;
    state.times = &times;
    const size_t physical = static_cast<size_t>(std::max(1.0, parameters.vector_core_count));
    core_count = static_cast<uint32_t>(std::min(physical, traces.size()));
    state.cores.resize(core_count);

    using Turn = std::pair<double, uint32_t>; // time, core: the earliest goes first, equal times in order of the cores
    std::priority_queue<Turn, std::vector<Turn>, std::greater<Turn>> turns;
    for (uint32_t k = 0; k < core_count; ++k) {
        state.start_next(state.cores[k], 0.0);
        turns.push({state.cores[k].scalar, k});
    }
    double end = 0.0;
    std::vector<uint32_t> at_sync;
    while (true) {
        if (turns.empty()) {
            if (at_sync.empty()) {
                break;
            }
            double last = 0.0;
            for (const uint32_t k : at_sync) {
                last = std::max(last, state.cores[k].scalar);
            }
            for (const uint32_t k : at_sync) {
                Core& core = state.cores[k];
                core.at_sync = false;
                core.wait_until(last + parameters.sync_all_cycles);
                core.barrier_all();
                turns.push({core.scalar, k});
            }
            at_sync.clear();
        }
        const uint32_t k = turns.top().second;
        turns.pop();
        Core& core = state.cores[k];
        if (state.advance(core)) {
            turns.push({std::max(core.scalar, std::min(core.free[kMte2], core.free[kMte3])), k});
        } else if (core.at_sync) {
            at_sync.push_back(k);
        } else {
            state.finish(core);
            end = std::max(end, core.scalar);
            if (state.start_next(core, core.scalar)) {
                turns.push({core.scalar, k});
            }
        }
    }
    return end / parameters.clock_mhz;
}

} // namespace runtime
} // namespace kope_twin
