// All blocks of a launch together: cores take blocks in order, transfers share the memory, SyncAll waits for the last.
#include <algorithm>
#include <optional>
#include <queue>

#include "core_timeline.h"

namespace kope_twin {
namespace runtime {

namespace {

// A core with the block it is running.
struct Core {
    CoreTimeline line;
    std::optional<SpanLog> log;
    const Trace* trace = nullptr;
    control::BlockTimes* times = nullptr;
    size_t next = 0; // event
};

struct Machinery {
    const std::vector<const Trace*>& traces;
    std::vector<control::BlockTimes>& times;
    Rates rates;
    SharedPath memory;
    std::vector<Core> cores;
    control::LaunchTimes& launch;
    size_t spans_wanted;
    size_t next_block = 0;

    bool start_next(uint32_t number, double now);
    void finish(Core& core);
};

bool Machinery::start_next(uint32_t number, double now)
{
    if (next_block >= traces.size()) {
        return false;
    }
    Core& core = cores[number];
    core.trace = traces[next_block];
    core.times = &times[next_block];
    core.times->core = number;
    core.next = 0;
    next_block += 1;
    if (const CoreTimeline* before = core.trace->condensed()) {
        core.line.go_on_from(*before, now);
    } else {
        core.line.begin(now);
    }
    if (spans_wanted != 0) {
        core.log.emplace(launch, spans_wanted);
        core.log->open(*core.trace, core.times->block);
        core.log->scalar("block start", core.line.start, core.line.start + parameters.block_start_cycles);
        core.line.log = &*core.log;
        launch.spans_left_out += core.trace->condensed() != nullptr ? 1 : 0;
    }
    return true;
}

void Machinery::finish(Core& core)
{
    CoreTimeline& line = core.line;
    const double cycles_per_us = parameters.clock_mhz;
    if (core.log) {
        core.log->scalar("block end", line.scalar, line.scalar + static_cast<double>(core.trace->tail()));
    }
    line.scalar += static_cast<double>(core.trace->tail());
    const double end = line.everything();
    line.busy[kScalar] = line.scalar - line.start - line.waited;
    control::BlockTimes& result = *core.times;
    result.start_us = line.start / cycles_per_us;
    result.end_us = end / cycles_per_us;
    result.scalar_wait_us = line.waited / cycles_per_us;
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        result.busy_us[pipe] = line.busy[pipe] / cycles_per_us;
        result.instructions[pipe] = core.trace->instructions(pipe);
    }
    for (int type = 0; type < control::VectorTypeCount; ++type) {
        result.vector_us[type] = static_cast<double>(core.trace->vector_cycles(type)) / cycles_per_us;
    }
    line.scalar = end;
}

} // namespace

double replay(const std::vector<const Trace*>& traces, uint64_t gm_bytes, double& write_back, std::vector<control::BlockTimes>& times,
    control::LaunchTimes& launch, size_t spans_wanted)
{
    const Rates rates;
    uint64_t least = 0;
    for (const Trace* trace : traces) {
        least = std::max(least, trace->least_cycles());
    }
    const double expected = std::max(static_cast<double>(gm_bytes) / rates.memory, static_cast<double>(least));
    Machinery all = {traces, times, rates, SharedPath(rates, 1.0, std::max(64.0, expected / 20000.0), 0.0, write_back), {}, launch, spans_wanted};
    launch.core_count = static_cast<uint32_t>(std::min<size_t>(static_cast<size_t>(std::max(1.0, parameters.vector_core_count)), traces.size()));
    all.cores.resize(launch.core_count);

    using Turn = std::pair<double, uint32_t>; // time, core: the earliest goes first, equal times in order of the cores
    std::priority_queue<Turn, std::vector<Turn>, std::greater<Turn>> turns;
    for (uint32_t k = 0; k < launch.core_count; ++k) {
        all.start_next(k, 0.0);
        turns.push({all.cores[k].line.scalar, k});
    }
    double end = 0.0;
    std::vector<uint32_t> at_sync;
    while (!turns.empty() || !at_sync.empty()) {
        if (turns.empty()) { // everybody is at the barrier, or has ended
            double last = 0.0;
            for (const uint32_t k : at_sync) {
                last = std::max(last, all.cores[k].line.scalar);
            }
            for (const uint32_t k : at_sync) {
                all.cores[k].line.wait_until(last + parameters.sync_all_cycles);
                all.cores[k].line.barrier_all();
                turns.push({all.cores[k].line.scalar, k});
            }
            at_sync.clear();
        }
        const uint32_t k = turns.top().second;
        turns.pop();
        Core& core = all.cores[k];
        switch (core.line.advance(core.trace->events(), core.next, all.memory, rates)) {
            case CoreTimeline::AfterMove:
                turns.push({std::max(core.line.scalar, std::min(core.line.free[kMte2], core.line.free[kMte3])), k});
                break;
            case CoreTimeline::AtSync:
                at_sync.push_back(k);
                break;
            case CoreTimeline::AtEnd:
                all.finish(core);
                end = std::max(end, core.line.scalar);
                if (all.start_next(k, core.line.scalar)) {
                    turns.push({core.line.scalar, k});
                }
                break;
        }
    }
    return end / parameters.clock_mhz;
}

} // namespace runtime
} // namespace kope_twin
