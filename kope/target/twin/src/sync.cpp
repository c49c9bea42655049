// Flags, barriers, SyncAll: order between pipes for the sanitizer and the timeline.
#include "access.h"
#include "machine.h"

namespace kope_twin {
namespace runtime {

void signal_from(Block& block, int pipe, Clock& clock)
{
    clock = block.known[pipe];
    clock.count[pipe] = block.issued[pipe];
}

void everything_done(Block& block)
{
    Clock all;
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        all.count[pipe] = block.issued[pipe];
    }
    for (Clock& known : block.known) {
        known = all;
    }
}

} // namespace runtime

namespace api {

using namespace runtime;

namespace {

bool valid_id(const char* name, uint8_t event, int32_t id, Site site)
{
    if (id >= 0 && id < kEventIds) {
        return true;
    }
    if (control::Finding* found = note("event-id", site)) {
        describe(found, "use event ids 0 to 7", "%s<%s> with event id %d", name, event_name(event), id);
    }
    return false;
}

uint16_t slot_of(uint8_t event, int32_t id) { return static_cast<uint16_t>(event * kEventIds + id); }

} // namespace

void set_flag(uint8_t event, int32_t id, Site site)
{
    Enter enter("SetFlag", site);
    Block& block = *current;
    const int source = event_source(event);
    if (!valid_id("SetFlag", event, id, site) || source < 0) {
        return;
    }
    block.trace.flag(Event::Set, source, slot_of(event, id));
    Flag& flag = block.flags[event][id];
    if (flag.set) {
        if (control::Finding* found = note("flag-twice", site)) {
            describe(found, "wait for the flag before setting it again, or use another event id",
                "flag %s with event id %d is set again before anything waited for it (first set at line %d)", event_name(event), id, flag.site.line);
        }
    }
    flag.set = true;
    flag.site = site;
    signal_from(block, source, flag.clock);
}

void wait_flag(uint8_t event, int32_t id, Site site)
{
    Enter enter("WaitFlag", site);
    Block& block = *current;
    const int target = event_target(event);
    if (!valid_id("WaitFlag", event, id, site) || target < 0) {
        return;
    }
    block.trace.flag(Event::Wait, target, slot_of(event, id));
    Flag& flag = block.flags[event][id];
    if (!flag.set) {
        if (control::Finding* found = note("flag-hang", site)) {
            describe(found, "set the same flag with the same event id before, on every path that comes here",
                "block %u waits for flag %s with event id %d, which nothing has set: the kernel hangs on the device", block.index,
                event_name(event), id);
        }
        return;
    }
    flag.set = false;
    block.known[target].join(flag.clock);
}

int32_t fetch_event(uint8_t event, bool reserve, Site site)
{
    Enter enter("FetchEventID", site);
    Block& block = *current;
    block.trace.scalar(static_cast<uint64_t>(parameters.queue_cycles));
    uint8_t& reserved = block.reserved_events[event];
    for (int32_t id = 0; id < kEventIds; ++id) {
        if ((reserved >> id & 1U) == 0) {
            reserved = static_cast<uint8_t>(reserved | (reserve ? 1U << id : 0U));
            return id;
        }
    }
    if (control::Finding* found = note("event-exhausted", site)) {
        describe(found, "release event ids with ReleaseEventID when they are no longer used", "all 8 event ids of %s are reserved", event_name(event));
    }
    return 0;
}

void release_event(uint8_t event, int32_t id, Site site)
{
    Enter enter("ReleaseEventID", site);
    if (id >= 0 && id < kEventIds) {
        current->reserved_events[event] = static_cast<uint8_t>(current->reserved_events[event] & ~(1U << id));
    }
}

void barrier(int pipe, Site site)
{
    Enter enter("PipeBarrier", site);
    Block& block = *current;
    constexpr int all = 6; // PIPE_ALL
    constexpr int mine[] = {kScalar, kVector, -1, -1, kMte2, kMte3};
    if (pipe == all) {
        block.trace.barrier_all();
        everything_done(block);
        return;
    }
    const int own = mine[pipe];
    block.trace.barrier(own);
    block.known[own].count[own] = block.issued[own];
}

void sync_all(Site site)
{
    Enter enter("SyncAll", site);
    Block& block = *current;
    const double cores = parameters.vector_core_count;
    if (machine.block_count > cores) {
        if (control::Finding* found = note("deadlock", site)) {
            describe(found, "launch at most as many blocks as the chip has vector cores when the kernel uses SyncAll",
                "SyncAll in a launch of %u blocks on %.0f vector cores: the blocks of the second round are waited for and cannot start",
                machine.block_count, cores);
        }
        stop_launch();
    }
    if (machine.block_count < cores) {
        if (control::Finding* found = note("sync-blocks", site, control::Severity::Note)) {
            describe(found, "launch as many blocks as the chip has vector cores, and let the superfluous ones do nothing but SyncAll",
                "SyncAll in a launch of %u blocks on %.0f vector cores: nothing documents what the hardware does with fewer, and a hang has been reported",
                machine.block_count, cores);
        }
    }
    block.trace.sync_all();
    everything_done(block);
    yield_at_sync();
    in_runtime = true; // the destructor of `enter` is this block's, the flag was another's
}

uint32_t block_index()
{
    if (current == nullptr) {
        Enter enter("GetBlockIdx", machine.last_site);
    }
    return current->index;
}

uint32_t block_count()
{
    if (current == nullptr) {
        Enter enter("GetBlockNum", machine.last_site);
    }
    return machine.block_count;
}

int64_t system_cycle()
{
    Enter enter("GetSystemCycle", machine.last_site);
    machine.result.scalar_read = true; // what a kernel does with it depends on timing
    return static_cast<int64_t>(current->trace.least_cycles());
}

uint32_t ub_bytes() { return static_cast<uint32_t>(parameters.ub_bytes); }

void charge_scalar(uint32_t cycles)
{
    if (current != nullptr) {
        current->trace.scalar(cycles);
    }
}

} // namespace api
} // namespace kope_twin
