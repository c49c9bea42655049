// See timeline.h.
#include "timeline.h"

#include <algorithm>

#include "core_timeline.h"
#include "machine.h"

namespace kope_twin {
namespace runtime {

TraceLimits trace_limits;

void Trace::add(Event event)
{
    constexpr uint64_t most = 0xffffffffULL;
    const uint64_t scalar = std::min(pending_, most);
    event.scalar = static_cast<uint32_t>(scalar);
    pending_ -= scalar;
    events_.push_back(event);
    if (trace_limits.marks) {
        marks_.push_back({machine.last_name, machine.last_site.line});
    }
    if (events_.size() >= trace_limits.events) {
        condense();
    }
}

// Too much to keep: the events so far become the state of a core that had its share of the memory for itself.
void Trace::condense()
{
    if (!condensed_) {
        condensed_ = std::make_shared<CoreTimeline>();
        condensed_->begin(0.0);
    }
    const Rates rates;
    double write_back = 0.0;
    SharedPath memory(rates, trace_limits.share, 256.0, condensed_->scalar, write_back);
    size_t next = 0;
    while (next < events_.size()) {
        if (condensed_->advance(events_, next, memory, rates) == CoreTimeline::AtSync) {
            condensed_->barrier_all();
        }
    }
    events_.clear();
    marks_.clear();
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

void Trace::move(int pipe, uint32_t cycles, uint64_t bytes, uint64_t port_cycles, uint16_t path)
{
    scalar(static_cast<uint64_t>(parameters.issue_cycles));
    add({Event::Move, static_cast<uint8_t>(pipe), path, 0, cycles, static_cast<uint32_t>(bytes)});
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

} // namespace runtime
} // namespace kope_twin
