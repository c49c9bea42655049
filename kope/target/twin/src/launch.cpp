// Runs the blocks of a launch one after another, each on a stack of its own, and gives the launch its time.
//
// A block runs until it ends or comes to a SyncAll; then the next one runs. Basic blocks of the candidate are counted here
// as scalar work and as control flow.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <sys/mman.h>

#include "cache.h"
#include "gm_access.h"

namespace kope_twin {
namespace runtime {

uint64_t scalar_limit = ~0ULL;

namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kGuardBytes = 64 * 1024;
constexpr size_t kKeptEvents = 12U << 20; // of all blocks of a launch, 16 bytes each

ucontext_t scheduler;
void (*launch_body)(void*) = nullptr;
void* launch_arguments = nullptr;
std::vector<Stack> free_stacks;
std::vector<std::unique_ptr<LocalMemory>> free_memories;
std::vector<std::unique_ptr<Block>> free_blocks;

Stack take_stack()
{
    if (!free_stacks.empty()) {
        const Stack stack = free_stacks.back();
        free_stacks.pop_back();
        return stack;
    }
    void* base = mmap(nullptr, kStackBytes + kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED || mprotect(static_cast<char*>(base) + kGuardBytes, kStackBytes, PROT_READ | PROT_WRITE) != 0) {
        std::abort();
    }
    return {static_cast<char*>(base) + kGuardBytes, kStackBytes};
}

void block_main()
{
    launch_body(launch_arguments);
    current->state = Block::Done;
    swapcontext(&current->context, &scheduler);
}

void give_back(Block& block)
{
    if (block.stack.base != nullptr) {
        free_stacks.push_back(block.stack);
        block.stack = {};
    }
    if (block.memory) {
        block.memory->used_bytes = std::max(block.memory->used_bytes, block.ub_peak);
        free_memories.push_back(std::move(block.memory));
    }
}

void prepare(Block& block)
{
    if (machine.verify) {
        if (free_memories.empty() || free_memories.back()->ub.size() != static_cast<size_t>(parameters.ub_bytes)) {
            block.memory = std::make_unique<LocalMemory>(static_cast<uint32_t>(parameters.ub_bytes));
        } else {
            block.memory = std::move(free_memories.back());
            free_memories.pop_back();
            std::fill_n(block.memory->ub.begin(), block.memory->used_bytes, uint8_t(0xcd)); // never zero by luck
            block.memory->shadow.clear(block.memory->used_bytes);
            block.memory->used_bytes = 0;
        }
    }
    block.stack = take_stack();
    getcontext(&block.context);
    block.context.uc_stack.ss_sp = block.stack.base;
    block.context.uc_stack.ss_size = block.stack.bytes;
    block.context.uc_link = nullptr;
    makecontext(&block.context, block_main, 0);
}

void leftovers(Block& block)
{
    for (int event = 0; event < kEvents; ++event) {
        for (int id = 0; id < kEventIds; ++id) {
            const Flag& flag = block.flags[event][id];
            if (!flag.set) {
                continue;
            }
            if (control::Finding* found = note("flag-unpaired", flag.site, control::Severity::Warning)) {
                found->block = block.index;
                describe(found, "wait for every flag that is set: a flag left set is still set for the next kernel on this core",
                    "block %u sets flag %s with event id %d and never waits for it", block.index, event_name(static_cast<uint8_t>(event)), id);
            }
        }
    }
}

// What stays of a block when it has ended.
struct Record {
    bool done = false;
    Trace trace;
    uint64_t hash = 0;
    uint64_t gm_read_bytes = 0;
    uint64_t gm_written_bytes = 0;
    uint64_t cached_read_bytes = 0;
    uint32_t ub_peak = 0;
};

struct Running {
    explicit Running(uint32_t count) : records(count), blocks(count) {}
    std::vector<Record> records;
    std::vector<std::unique_ptr<Block>> blocks; // those begun and not ended
};

std::unique_ptr<Block> take_block(uint32_t index)
{
    std::unique_ptr<Block> block;
    if (free_blocks.empty()) {
        block = std::make_unique<Block>();
    } else {
        block = std::move(free_blocks.back());
        free_blocks.pop_back();
    }
    block->clear_for(index);
    prepare(*block);
    return block;
}

void harvest(Record& record, Block& block)
{
    leftovers(block);
    record.done = true;
    cache_closes(block);
    record.trace = std::move(block.trace);
    record.hash = block.hash;
    record.gm_read_bytes = block.gm_read_bytes;
    record.gm_written_bytes = block.gm_written_bytes;
    record.cached_read_bytes = block.cached_read_bytes;
    record.ub_peak = block.ub_peak;
}

void release(std::unique_ptr<Block>& block)
{
    give_back(*block);
    free_blocks.push_back(std::move(block));
}

void resume(Running& running, uint32_t index)
{
    std::unique_ptr<Block>& block = running.blocks[index];
    if (!block) {
        block = take_block(index);
    }
    block->state = Block::Running;
    current = block.get();
    in_runtime = false;
    swapcontext(&scheduler, &block->context);
    in_runtime = true;
    current = nullptr;
    if (block->state == Block::Done && !machine.stopped) {
        harvest(running.records[index], *block);
        release(block);
    }
}

std::vector<uint32_t> block_order(uint32_t count, uint64_t seed)
{
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    if (seed == 1) {
        std::reverse(order.begin(), order.end());
    } else if (seed > 1) {
        uint64_t state = seed;
        for (uint32_t k = count; k > 1; --k) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            std::swap(order[k - 1], order[(state >> 33) % k]);
        }
    }
    return order;
}

// Blocks at a SyncAll go on when all have come to it. One that ended without it leaves the others waiting for ever.
bool open_barrier(Running& running, Site site)
{
    size_t waiting = 0;
    for (const auto& block : running.blocks) {
        waiting += block && block->state == Block::AtSync ? 1 : 0;
    }
    if (waiting == 0) {
        return false;
    }
    if (waiting < running.blocks.size()) {
        if (control::Finding* found = note("deadlock", site)) {
            describe(found, "let every block of the launch call SyncAll the same number of times",
                "%zu of %zu blocks wait in SyncAll for blocks that have ended", waiting, running.blocks.size());
        }
        machine.stopped = true;
        return false;
    }
    for (const auto& block : running.blocks) {
        block->state = Block::Ready;
    }
    gm_meet();
    return true;
}

void run_all(Running& running, Site site)
{
    const std::vector<uint32_t> order = block_order(static_cast<uint32_t>(running.records.size()), machine.options.block_order_seed);
    do {
        for (const uint32_t index : order) {
            if (!machine.stopped && !running.records[index].done) {
                resume(running, index);
            }
        }
    } while (!machine.stopped && open_barrier(running, site));
}

uint64_t mixed(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

void add_times(const char* kernel, const std::vector<Record>& blocks, Site site)
{
    control::LaunchTimes times;
    times.kernel = kernel;
    times.file = site.file;
    times.line = site.line;
    times.block_count = static_cast<uint32_t>(blocks.size());
    std::vector<const Trace*> traces;
    std::vector<control::BlockTimes> block_times(blocks.size());
    for (size_t k = 0; k < blocks.size(); ++k) {
        const Record& block = blocks[k];
        traces.push_back(&block.trace);
        block_times[k].block = static_cast<uint32_t>(k);
        block_times[k].gm_read_bytes = block.gm_read_bytes;
        block_times[k].gm_written_bytes = block.gm_written_bytes;
        block_times[k].cached_read_bytes = block.cached_read_bytes;
        times.gm_read_bytes += block.gm_read_bytes;
        times.gm_written_bytes += block.gm_written_bytes;
        times.ub_peak_bytes = std::max<uint64_t>(times.ub_peak_bytes, block.ub_peak);
        machine.result.control_flow += mixed(block.hash + 0x9e3779b97f4a7c15ULL * (k + 1));
    }
    times.duration_us = parameters.launch_us + replay(traces, times.gm_read_bytes + times.gm_written_bytes, machine.write_back_bytes, block_times, times, machine.options.spans);
    if (machine.options.per_block) {
        times.blocks = std::move(block_times);
    }
    machine.result.launches.push_back(std::move(times));
}

} // namespace

LocalMemory::LocalMemory(uint32_t bytes) : ub(bytes, 0xcd), shadow(bytes) {}

void Block::clear_for(uint32_t block)
{
    *this = Block();
    index = block;
}

void stop_launch()
{
    machine.stopped = true;
    current->state = Block::Done;
    Block& block = *current;
    swapcontext(&block.context, &scheduler);
    std::abort(); // nobody resumes it
}

void yield_at_sync()
{
    machine.sync_used = true;
    Block& block = *current;
    block.state = Block::AtSync;
    swapcontext(&block.context, &scheduler);
}

void check_watchdog()
{
    const double limit = parameters.device_time_limit_us * parameters.clock_mhz;
    if (static_cast<double>(current->trace.least_cycles()) < limit) {
        return;
    }
    in_runtime = true; // what follows allocates, and is not the kernel's work
    if (control::Finding* found = note("device-timeout", machine.last_site)) {
        describe(found, "look for a loop whose condition never becomes false, or a scalar loop over a whole tensor",
            "block %u runs for more than %.0f us of device time; the last API it called is %s", current->index, parameters.device_time_limit_us,
            machine.last_name);
    }
    stop_launch();
}

} // namespace runtime

namespace api {

using namespace runtime;

void launch(const char* kernel, uint32_t blocks, void (*body)(void*), void* arguments, Site site)
{
    if (current != nullptr || !machine.open) {
        in_runtime = true; // what reporting allocates is not the kernel's
        machine.last_site = site;
        if (control::Finding* found = note("launch-outside-host", site)) {
            describe(found, "launch kernels from kope_entry", "%s is launched %s", kernel, current != nullptr ? "from device code" : "outside a case");
        }
        end_process();
    }
    if (machine.stopped) {
        return;
    }
    if (blocks == 0 || blocks > 65535) {
        if (control::Finding* found = note("block-count", site)) {
            describe(found, "launch 1 to 65535 blocks, as a rule one per vector core", "%s is launched with %u blocks", kernel, blocks);
        }
        machine.stopped = true;
        return;
    }
    scalar_limit = static_cast<uint64_t>(parameters.device_time_limit_us * parameters.clock_mhz);
    trace_limits.events = std::max<size_t>(256, kKeptEvents / blocks);
    trace_limits.share = 1.0 / std::min<double>(blocks, parameters.vector_core_count);
    trace_limits.marks = machine.options.spans != 0;
    machine.kernel = kernel;
    machine.block_count = blocks;
    machine.sync_used = false;
    cache_opens();
    launch_body = body;
    launch_arguments = arguments;
    Running running(blocks);
    in_runtime = true;
    run_all(running, site);
    gm_meet();
    if (!machine.stopped) {
        add_times(kernel, running.records, site);
    }
    for (auto& block : running.blocks) {
        if (block) {
            release(block);
        }
    }
    in_runtime = false;
}

} // namespace api
} // namespace kope_twin

// Called at the start of every basic block of the candidate (-fsanitize-coverage=trace-pc).
extern "C" void __sanitizer_cov_trace_pc()
{
    using namespace kope_twin::runtime;
    const uint64_t place = reinterpret_cast<uint64_t>(__builtin_return_address(0)) - reinterpret_cast<uint64_t>(&__sanitizer_cov_trace_pc);
    Block* block = current;
    uint64_t& hash = block != nullptr ? block->hash : machine.host_hash;
    hash = (hash ^ place) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32;
    if (block != nullptr) {
        block->trace.scalar(static_cast<uint64_t>(parameters.scalar_block_cycles));
        static uint32_t tick = 0;
        tick += 1;
        if (__builtin_expect(block->trace.scalar_cycles() > scalar_limit || (tick & 0xffffU) == 0, 0)) {
            check_watchdog(); // now and then for the other pipes, which may be the busy ones
        }
    }
}
