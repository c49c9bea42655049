// See core_timeline.h.
#include "core_timeline.h"

#include <algorithm>

namespace kope_twin {
namespace runtime {

double SharedMemory::take(double start, double bytes, double rate)
{
    double now = start - origin_;
    size_t index = next_free(static_cast<size_t>(now / slice_));
    while (true) {
        const double slice_start = static_cast<double>(index) * slice_;
        now = std::max(now, slice_start);
        const double in_time = (slice_start + slice_ - now) * rate;
        const double amount = std::max(0.0, std::min({bytes, in_time, capacity_ - used_[index]}));
        used_[index] += static_cast<float>(amount);
        bytes -= amount;
        if (bytes <= 1e-6) {
            return origin_ + std::max(now + amount / rate, slice_start + slice_ * used_[index] / capacity_);
        }
        if (used_[index] >= capacity_ * 0.9999) {
            skip_[index] = static_cast<uint32_t>(index + 1);
        }
        index = next_free(index + 1);
    }
}

size_t SharedMemory::next_free(size_t index)
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

void SharedMemory::grow(size_t index)
{
    const size_t size = std::max<size_t>(index + 1, used_.size() * 2 + 64);
    const size_t before = skip_.size();
    used_.resize(size, 0.0F);
    skip_.resize(size);
    for (size_t k = before; k < size; ++k) {
        skip_[k] = static_cast<uint32_t>(k);
    }
}

double SharedPath::take(const Event& event, double start, double rate)
{
    if (!cached_) {
        return memory_.take(start, event.bytes, rate);
    }
    const double through = cache_.take(start, event.bytes, rate);
    const double bytes = from_memory(event);
    return bytes > 0.0 ? std::max(through, memory_.take(start, bytes, rate)) : through;
}

// Bytes of a transfer that device memory has to deal with.
double SharedPath::from_memory(const Event& event)
{
    if (event.pipe == kMte2) {
        return static_cast<double>(event.slot >> kMissedShift) * kSectorBytes;
    }
    const double stays = std::min<double>(write_back_, event.bytes);
    write_back_ -= stays;
    return event.bytes - stays;
}

void SpanLog::open(const Trace& trace, uint32_t block)
{
    trace_ = &trace;
    block_ = block;
    event_ = 0;
}

void SpanLog::add(int pipe, double begin, double end, uint32_t bytes)
{
    const Mark mark = event_ < trace_->marks().size() ? trace_->marks()[event_] : Mark{"", 0};
    put(pipe, mark.name, mark.line, begin, end, bytes);
}

void SpanLog::put(int pipe, const char* name, int line, double begin, double end, uint32_t bytes)
{
    if (end <= begin) {
        return;
    }
    if (launch_.spans.size() >= most_) {
        launch_.spans_left_out += 1;
        return;
    }
    const double cycles_per_us = parameters.clock_mhz;
    launch_.spans.push_back({name, begin / cycles_per_us, end / cycles_per_us, block_, bytes, line, pipe});
}

void CoreTimeline::begin(double now)
{
    *this = CoreTimeline();
    start = now;
    scalar = now + parameters.block_start_cycles;
    const size_t depth = static_cast<size_t>(std::max(1.0, parameters.pipe_queue_depth));
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        free[pipe] = scalar;
        visible[pipe] = scalar;
        queue[pipe].assign(depth, 0.0);
    }
}

void CoreTimeline::go_on_from(const CoreTimeline& other, double now)
{
    *this = other;
    start = now;
    scalar += now;
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        free[pipe] += now;
        visible[pipe] += now;
        for (double& time : queue[pipe]) {
            time += now;
        }
    }
    for (double& time : slots) {
        time += now;
    }
}

double CoreTimeline::everything() const { return std::max({scalar, visible[kVector], visible[kMte2], visible[kMte3]}); }

// The pipe's queue takes one more instruction once the one `depth` before it has started. Returns when this one starts.
double CoreTimeline::issue(int pipe)
{
    double& oldest = queue[pipe][issued[pipe]++ % queue[pipe].size()];
    wait_until(oldest);
    const double at = std::max(scalar, free[pipe]);
    oldest = at;
    return at;
}

void CoreTimeline::barrier_all()
{
    wait_until(everything());
    for (double& time : free) {
        time = std::max(time, scalar);
    }
}

void CoreTimeline::work(const Event& event)
{
    const double begin = issue(event.pipe);
    busy[event.pipe] += event.cycles;
    if (log != nullptr) {
        log->add(event.pipe, begin, begin + event.cycles);
    }
    free[event.pipe] = begin + event.cycles;
    visible[event.pipe] = free[event.pipe] + parameters.vector_latency_cycles;
}

void CoreTimeline::move(const Event& event, SharedPath& memory, const Rates& rates)
{
    const bool in = event.pipe == kMte2;
    const double begin = issue(event.pipe);
    const double port = (in ? rates.read : rates.write) / ((event.slot & kUnaligned) != 0 ? parameters.gm_unaligned_port_factor : 1.0);
    const double through = memory.take(event, begin + event.cycles, port);
    busy[event.pipe] += through - begin;
    if (log != nullptr) {
        log->add(event.pipe, begin, through, event.bytes);
    }
    free[event.pipe] = through;
    visible[event.pipe] = through + (in ? rates.read_latency : rates.write_latency);
}

void CoreTimeline::set(const Event& event)
{
    if (event.slot >= slots.size()) {
        slots.resize(event.slot + 64U, 0.0);
    }
    const double done = event.pipe == kScalar ? scalar : std::max(scalar, visible[event.pipe]);
    slots[event.slot] = done + parameters.flag_latency_cycles;
}

void CoreTimeline::wait(const Event& event)
{
    const double time = event.slot < slots.size() ? slots[event.slot] : 0.0;
    if (event.pipe == kScalar) {
        wait_until(time);
    } else {
        free[event.pipe] = std::max({free[event.pipe], time, scalar});
    }
}

void CoreTimeline::join(uint32_t pipes)
{
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        if ((pipes >> pipe & 1U) != 0) {
            wait_until(visible[pipe]);
        }
    }
}

CoreTimeline::Stop CoreTimeline::advance(const std::vector<Event>& events, size_t& next, SharedPath& memory, const Rates& rates)
{
    while (next < events.size()) {
        const Event& event = events[next];
        if (log != nullptr) {
            log->at(next);
            log->add(kScalar, scalar, scalar + event.scalar);
        }
        next += 1;
        scalar += event.scalar;
        switch (event.kind) {
            case Event::Work:
                work(event);
                break;
            case Event::Move:
                move(event, memory, rates);
                return AfterMove;
            case Event::Set:
                set(event);
                break;
            case Event::Wait:
                wait(event);
                break;
            case Event::Barrier:
                free[event.pipe] = std::max({free[event.pipe], visible[event.pipe], scalar});
                break;
            case Event::BarrierAll:
                barrier_all();
                break;
            case Event::Join:
                join(event.slot);
                break;
            case Event::SyncAll:
                return AtSync;
        }
    }
    return AtEnd;
}

} // namespace runtime
} // namespace kope_twin
