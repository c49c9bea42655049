// TPipe, queues and buffers: who owns which part of UB, and the order queues bring between pipes.
#include <algorithm>

#include "access.h"
#include "machine.h"

namespace kope_twin {
namespace runtime {

namespace {

constexpr uint8_t kGm = 0; // TPosition::GM
constexpr uint8_t kVecIn = 9;
constexpr uint8_t kVecOut = 10;

// A queue's filler and its emptier. From device memory MTE2 fills, to device memory MTE3 empties, else the vector unit does.
// A queue bound from VECIN to VECOUT has no vector work in between: filled like the one, emptied like the other.
int filler(uint8_t source) { return source == kGm || source == kVecIn ? kMte2 : kVector; }
int emptier(uint8_t target) { return target == kGm || target == kVecOut ? kMte3 : kVector; }

constexpr uint32_t kMostBuffers = 64;

uint32_t rounded(uint64_t bytes) { return static_cast<uint32_t>((bytes + kCell - 1) / kCell * kCell); }

bool reserve(Block& block, const char* what, uint64_t bytes, Site site)
{
    const uint64_t end = block.ub_head + bytes;
    const uint64_t all = std::min(static_cast<uint64_t>(parameters.ub_bytes), static_cast<uint64_t>(block.ub_limit));
    if (end > all) {
        if (control::Finding* found = note("ub-overflow", site)) {
            describe(found, "use smaller tiles or fewer buffers, or let buffers share memory (TBuf, in-place operations)",
                "%s needs %llu bytes: with it the kernel's buffers take %llu bytes of a unified buffer of %llu (block %u)", what,
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(end), static_cast<unsigned long long>(all), block.index);
        }
        stop_launch();
    }
    block.ub_head = static_cast<uint32_t>(end);
    block.ub_peak = std::max(block.ub_peak, block.ub_head);
    return true;
}

void count_buffers(Block& block, uint32_t more, Site site)
{
    block.allocations += more;
    if (block.allocations > kMostBuffers) {
        if (control::Finding* found = note("buffer-count", site)) {
            describe(found, "use fewer buffers: one TBuf can be cut with GetWithOffset", "the kernel has %u buffers, the limit is %u", block.allocations,
                kMostBuffers);
        }
    }
}

Queue* known_queue(const char* name, int32_t queue, Site site)
{
    if (queue >= 0 && queue < static_cast<int32_t>(current->queues.size())) {
        return &current->queues[static_cast<size_t>(queue)];
    }
    if (control::Finding* found = note("queue-uninitialised", site)) {
        describe(found, "call TPipe::InitBuffer for the queue first", "%s on a queue without buffers (block %u)", name, current->index);
    }
    stop_launch();
}

QueueBuffer* owner(Queue& queue, const UbView& view, uint16_t* index)
{
    if (view.buffer == UbView::kNoBuffer || view.buffer < queue.first || view.buffer >= queue.first + queue.count) {
        return nullptr;
    }
    *index = view.buffer;
    return &current->buffers[view.buffer];
}

UbView view_of(uint16_t index, uint8_t position)
{
    const QueueBuffer& buffer = current->buffers[index];
    UbView view;
    view.address = buffer.address;
    view.bytes = buffer.bytes;
    view.limit = buffer.address + rounded(buffer.bytes);
    view.buffer = index;
    view.generation = buffer.generation;
    view.position = position;
    return view;
}

uint16_t filled_slot(uint16_t index) { return static_cast<uint16_t>(kQueueSlots + 2 * index); }
uint16_t freed_slot(uint16_t index) { return static_cast<uint16_t>(kQueueSlots + 2 * index + 1); }

void queue_cost(Block& block) { block.trace.scalar(static_cast<uint64_t>(parameters.queue_cycles)); }

uint8_t position_of(const Queue& queue) { return queue.source == kGm ? queue.target : queue.source; }

void wrong_tensor(const char* name, Site site)
{
    if (control::Finding* found = note("wrong-queue", site)) {
        describe(found, "give tensors back to the queue they came from", "%s with a tensor that does not belong to this queue (block %u)", name,
            current->index);
    }
}

// What a queue holds when its pipe goes: every tensor taken must have been freed, every one queued taken.
void report_unbalanced(Block& block)
{
    for (const QueueBuffer& buffer : block.buffers) {
        if (buffer.queue < 0 || buffer.state == QueueBuffer::Free) {
            continue;
        }
        const char* what = buffer.state == QueueBuffer::Queued ? "queued with EnQue and never taken with DeQue" : "never given back with FreeTensor";
        if (control::Finding* found = note("tensor-leak", buffer.site, control::Severity::Warning)) {
            describe(found, "pair AllocTensor with FreeTensor and EnQue with DeQue on every path", "a tensor is %s (block %u)", what, block.index);
        }
    }
}

} // namespace
} // namespace runtime

namespace api {

using namespace runtime;

void pipe_open(void* pipe, Site site)
{
    Enter enter("TPipe", site);
    Block& block = *current;
    block.trace.scalar(static_cast<uint64_t>(parameters.queue_cycles));
    block.pipe = pipe;
    block.pipe_used = true;
    block.ub_head = 0;
    block.ub_limit = 0xffffffffU;
    block.allocations = 0;
}

void pipe_close(Site site)
{
    Enter enter("TPipe::Destroy", site);
    Block& block = *current;
    report_unbalanced(block);
    block.buffers.clear();
    block.queues.clear();
    block.ub_head = 0;
    block.pipe = nullptr;
    block.trace.barrier_all();
    everything_done(block);
}

void pipe_reset(Site site)
{
    Enter enter("TPipe::Reset", site);
    Block& block = *current;
    report_unbalanced(block);
    for (QueueBuffer& buffer : block.buffers) {
        buffer.queue = -1; // views of it stay harmless, nobody allocates it again
    }
    block.ub_head = 0;
    block.allocations = 0;
    block.trace.barrier_all();
    everything_done(block);
}

void* pipe_current() { return current != nullptr ? current->pipe : nullptr; }

int32_t queue_init(uint8_t source, uint8_t target, int32_t depth, uint32_t buffers, uint32_t bytes, Site site)
{
    Enter enter("InitBuffer", site);
    Block& block = *current;
    queue_cost(block);
    if (buffers == 0 || bytes == 0) {
        if (control::Finding* found = note("ub-overflow", site)) {
            describe(found, "give every queue at least one buffer of at least 32 bytes", "InitBuffer with %u buffers of %u bytes (block %u)", buffers,
                bytes, block.index);
        }
        stop_launch();
    }
    Queue queue;
    queue.source = source;
    queue.target = target;
    queue.depth = depth;
    queue.first = static_cast<uint16_t>(block.buffers.size());
    queue.count = static_cast<uint16_t>(buffers);
    count_buffers(block, buffers, site);
    for (uint32_t k = 0; k < buffers; ++k) {
        QueueBuffer buffer;
        buffer.address = block.ub_head;
        buffer.bytes = rounded(bytes);
        buffer.queue = static_cast<int32_t>(block.queues.size());
        buffer.site = site;
        reserve(block, "InitBuffer", buffer.bytes, site);
        block.buffers.push_back(buffer);
    }
    block.queues.push_back(std::move(queue));
    return static_cast<int32_t>(block.queues.size()) - 1;
}

UbView buffer_init(uint8_t position, uint32_t bytes, Site site)
{
    Enter enter("InitBuffer", site);
    Block& block = *current;
    queue_cost(block);
    count_buffers(block, 1, site);
    UbView view;
    view.address = block.ub_head;
    view.bytes = rounded(bytes);
    reserve(block, "InitBuffer", view.bytes, site);
    view.limit = block.ub_head;
    view.position = position;
    return view;
}

UbCursor use_cursor(UbCursor cursor)
{
    Enter enter("InitBufPool", machine.last_site);
    Block& block = *current;
    const UbCursor before = {block.ub_head, block.ub_limit};
    block.ub_head = cursor.head;
    block.ub_limit = cursor.limit;
    return before;
}

UbView scratch(uint32_t bytes, Site site)
{
    const uint32_t all = static_cast<uint32_t>(parameters.ub_bytes);
    return static_alloc(11, all - bytes, bytes, site); // VECCALC
}

UbView static_alloc(uint8_t position, uint32_t address, uint32_t bytes, Site site)
{
    Enter enter("LocalTensor", site);
    Block& block = *current;
    const uint64_t end = static_cast<uint64_t>(address) + rounded(bytes);
    if (end > static_cast<uint64_t>(parameters.ub_bytes)) {
        if (control::Finding* found = note("ub-overflow", site)) {
            describe(found, "use smaller tiles or fewer tensors", "a tensor of %u bytes at UB byte %u ends beyond the unified buffer of %.0f bytes (block %u)",
                bytes, address, parameters.ub_bytes, block.index);
        }
        stop_launch();
    }
    block.ub_peak = std::max(block.ub_peak, static_cast<uint32_t>(end));
    UbView view;
    view.address = address;
    view.bytes = bytes;
    view.limit = static_cast<uint32_t>(end);
    view.position = position;
    return view;
}

void* ub_pointer(const UbView& view) { return reinterpret_cast<void*>(kUbTag + view.address); }

UbView queue_alloc(int32_t queue, Site site)
{
    Enter enter("AllocTensor", site);
    Block& block = *current;
    queue_cost(block);
    Queue& from = *known_queue("AllocTensor", queue, site);
    for (uint16_t k = 0; k < from.count; ++k) {
        const uint16_t index = static_cast<uint16_t>(from.first + (from.next + k) % from.count);
        QueueBuffer& buffer = block.buffers[index];
        if (buffer.state != QueueBuffer::Free) {
            continue;
        }
        from.next = static_cast<uint16_t>((index - from.first + 1) % from.count);
        buffer.state = QueueBuffer::Allocated;
        buffer.generation += 1;
        buffer.site = site;
        const int pipe = filler(from.source);
        block.known[pipe].join(buffer.freed);
        block.trace.flag(Event::Wait, pipe, freed_slot(index));
        return view_of(index, position_of(from));
    }
    if (control::Finding* found = note("alloc-none", site)) {
        describe(found, "free tensors with FreeTensor before allocating again, or give the queue more buffers in InitBuffer",
            "AllocTensor finds none of the queue's %u buffers free (block %u): the kernel hangs on the device", from.count, block.index);
    }
    return view_of(from.first, position_of(from));
}

void queue_free(int32_t queue, const UbView& view, Site site)
{
    Enter enter("FreeTensor", site);
    Block& block = *current;
    queue_cost(block);
    Queue& to = *known_queue("FreeTensor", queue, site);
    uint16_t index = 0;
    QueueBuffer* buffer = owner(to, view, &index);
    if (buffer == nullptr) {
        wrong_tensor("FreeTensor", site);
        return;
    }
    if (buffer->state == QueueBuffer::Free || buffer->generation != view.generation) {
        if (control::Finding* found = note("double-free", site)) {
            describe(found, "free every allocated tensor exactly once", "FreeTensor on a tensor that was freed at line %d already (block %u)",
                buffer->site.line, block.index);
        }
        return;
    }
    const int pipe = emptier(to.target);
    signal_from(block, pipe, buffer->freed);
    block.trace.flag(Event::Set, pipe, freed_slot(index));
    if (buffer->state == QueueBuffer::Queued) {
        to.waiting.erase(std::remove(to.waiting.begin(), to.waiting.end(), index), to.waiting.end());
    }
    buffer->state = QueueBuffer::Free;
    buffer->site = site;
}

bool queue_enque(int32_t queue, const UbView& view, uint8_t source, uint8_t target, Site site)
{
    Enter enter("EnQue", site);
    Block& block = *current;
    queue_cost(block);
    Queue& to = *known_queue("EnQue", queue, site);
    uint16_t index = 0;
    QueueBuffer* buffer = owner(to, view, &index);
    if (buffer == nullptr) {
        wrong_tensor("EnQue", site);
        return false;
    }
    if (buffer->state == QueueBuffer::Free || buffer->state == QueueBuffer::Queued) {
        if (control::Finding* found = note("queue-state", site)) {
            describe(found, "EnQue a tensor once, between AllocTensor and FreeTensor", "EnQue of a tensor that %s (block %u)",
                buffer->state == QueueBuffer::Free ? "was freed" : "is in the queue already", block.index);
        }
        return false;
    }
    const size_t depth = static_cast<size_t>(std::max(to.depth, 1));
    if (to.waiting.size() >= depth) {
        if (control::Finding* found = note("queue-full", site)) {
            describe(found, "DeQue before the next EnQue, or declare the queue with the depth it needs", "EnQue number %zu in a row on a queue of depth %d (block %u)",
                to.waiting.size() + 1, to.depth, block.index);
        }
    }
    const int pipe = filler(source);
    signal_from(block, pipe, buffer->filled);
    block.trace.flag(Event::Set, pipe, filled_slot(index));
    buffer->state = QueueBuffer::Queued;
    buffer->site = site;
    to.waiting.push_back(index);
    (void)target;
    return true;
}

UbView queue_deque(int32_t queue, uint8_t source, uint8_t target, Site site)
{
    Enter enter("DeQue", site);
    Block& block = *current;
    queue_cost(block);
    Queue& from = *known_queue("DeQue", queue, site);
    (void)source;
    if (from.waiting.empty()) {
        if (control::Finding* found = note("deque-empty", site)) {
            describe(found, "EnQue a tensor before every DeQue", "DeQue on an empty queue (block %u): the kernel hangs on the device", block.index);
        }
        return view_of(from.first, position_of(from));
    }
    const uint16_t index = from.waiting.front();
    from.waiting.pop_front();
    QueueBuffer& buffer = block.buffers[index];
    const int pipe = emptier(target);
    block.known[pipe].join(buffer.filled);
    block.trace.flag(Event::Wait, pipe, filled_slot(index));
    buffer.state = QueueBuffer::Taken;
    return view_of(index, position_of(from));
}

int32_t queue_waiting(int32_t queue)
{
    Enter enter("GetTensorCountInQue", machine.last_site);
    return static_cast<int32_t>(known_queue("GetTensorCountInQue", queue, machine.last_site)->waiting.size());
}

int32_t queue_idle(int32_t queue)
{
    Enter enter("HasIdleBuffer", machine.last_site);
    const Queue& asked = *known_queue("HasIdleBuffer", queue, machine.last_site);
    int32_t idle = 0;
    for (uint16_t k = 0; k < asked.count; ++k) {
        idle += current->buffers[asked.first + k].state == QueueBuffer::Free ? 1 : 0;
    }
    return idle;
}

} // namespace api
} // namespace kope_twin
