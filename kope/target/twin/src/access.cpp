// See access.h.
#include "access.h"

#include <algorithm>
#include <cstring>

namespace kope_twin {
namespace runtime {

namespace {

const char* const pipe_words[] = {"S", "V", "MTE2", "MTE3"};

const History::Entry* earlier(const Block& block, int pipe, uint32_t count) { return block.memory->history.find(pipe, count); }

uint32_t count_at(const Block& block, const Conflict& conflict)
{
    const Shadow& shadow = block.memory->shadow;
    return conflict.earlier_wrote ? shadow.last_write(conflict.pipe, conflict.cell) : shadow.last_read(conflict.pipe, conflict.cell);
}

void report(Block& block, const Instruction& instruction, const Range& range, const Conflict& conflict, bool writes)
{
    control::Finding* found = note("missing-sync", instruction.site);
    if (found == nullptr) {
        return;
    }
    const History::Entry* before = earlier(block, conflict.pipe, count_at(block, conflict));
    const char* hazard = conflict.earlier_wrote ? (writes ? "WAW" : "RAW") : "WAR";
    char remedy[256];
    if (conflict.pipe == instruction.pipe) {
        std::snprintf(remedy, sizeof(remedy), "put PipeBarrier<%s>() between the two", pipe_names[conflict.pipe]);
    } else {
        std::snprintf(remedy, sizeof(remedy),
            "hand the tensor over through a queue (EnQue/DeQue, FreeTensor/AllocTensor), or SetFlag<HardEvent::%s_%s> after the first and WaitFlag before the second",
            pipe_words[conflict.pipe], pipe_words[instruction.pipe]);
    }
    describe(found, remedy, "%s %s %s at UB byte %u while %s (%s) may still be %s it: nothing orders %s before %s (%s, block %u)",
        instruction.name, writes ? "writes" : "reads", range.operand, std::max(conflict.cell * kCell, range.address),
        before != nullptr ? before->name : "an earlier instruction", before != nullptr ? line_of(before->site).c_str() : "line 0",
        conflict.earlier_wrote ? "writing" : "reading", pipe_words[conflict.pipe], pipe_words[instruction.pipe], hazard, block.index);
}

// Pairs the compiler synchronises by itself, when the source is compiled as documented: worth a word only in strict mode.
void report_automatic(Block& block, const Instruction& instruction, const Range& range, const Conflict& conflict)
{
    if (control::Finding* found = note("auto-sync", instruction.site, control::Severity::Note)) {
        describe(found, "nothing to do when compiled with --cce-auto-sync=on, the default; else synchronise by hand",
            "%s on %s relies on the compiler's automatic synchronisation of %s with %s (block %u)", instruction.name, range.operand,
            pipe_words[conflict.pipe], pipe_words[instruction.pipe], block.index);
    }
}

// Earlier pipes whose accesses the program itself must order with one on `pipe`.
uint32_t watched(int pipe, bool writes)
{
    constexpr uint32_t moves = pipe_bit(kMte2) | pipe_bit(kMte3);
    switch (pipe) {
        case kVector:
            return moves;
        case kMte2:
            return pipe_bit(kVector) | pipe_bit(kMte3) | (writes ? pipe_bit(kMte2) : 0U);
        case kMte3:
            return pipe_bit(kVector) | pipe_bit(kMte2);
        default:
            return 0;
    }
}

uint32_t automatic(int pipe)
{
    switch (pipe) {
        case kVector:
            return pipe_bit(kScalar) | pipe_bit(kVector);
        case kScalar:
            return pipe_bit(kVector) | pipe_bit(kMte2) | pipe_bit(kMte3);
        default:
            return pipe_bit(kScalar);
    }
}

bool report_bounds(const Instruction& instruction, const char* operand, const UbView& view, uint64_t span)
{
    if (control::Finding* found = note("ub-oob", instruction.site)) {
        describe(found, "allocate the tensor for what the instruction touches, or lower its count, repeat or stride",
            "%s touches %llu bytes of %s, which has only %llu left in its allocation (block %u)", instruction.name,
            static_cast<unsigned long long>(span), operand,
            static_cast<unsigned long long>(view.limit > view.address ? view.limit - view.address : 0), current->index);
    }
    return false;
}

} // namespace

void begin(Block& block, const Instruction& instruction)
{
    for (const auto& [address, bytes] : block.spoiled) {
        spoil(block, {"", address, bytes});
    }
    block.spoiled.clear();
    const uint32_t count = ++block.issued[instruction.pipe];
    if (block.memory) {
        block.memory->history.add(instruction.pipe, count, instruction.name, instruction.site);
    }
}

bool usable(Block& block, const Instruction& instruction, const char* operand, const UbView& view, uint64_t span, uint32_t alignment)
{
    if (view.limit == 0) {
        if (control::Finding* found = note("no-tensor", instruction.site)) {
            describe(found, "get the tensor from a queue, a TBuf or an allocator before using it", "%s of %s is an empty LocalTensor (block %u)",
                operand, instruction.name, block.index);
        }
        return false;
    }
    if (view.buffer != UbView::kNoBuffer) {
        const QueueBuffer* buffer = view.buffer < block.buffers.size() ? &block.buffers[view.buffer] : nullptr;
        if (buffer == nullptr || buffer->state == QueueBuffer::Free || buffer->generation != view.generation) {
            if (control::Finding* found = note("use-after-free", instruction.site)) {
                describe(found, "free a tensor after the last instruction that uses it",
                    buffer != nullptr ? "%s of %s was given back with FreeTensor at line %d (block %u)" : "%s of %s belongs to a pipe that is gone (line %d, block %u)",
                    operand, instruction.name, buffer != nullptr ? buffer->site.line : instruction.site.line, block.index);
            }
        }
    }
    if (view.address + span > view.limit || view.limit > parameters.ub_bytes) {
        return report_bounds(instruction, operand, view, span);
    }
    if (view.address % alignment != 0) {
        if (control::Finding* found = note("align", instruction.site)) {
            describe(found, "start operands at multiples of the required alignment: 32 bytes is 8 floats or 16 halfs",
                "%s of %s starts at UB byte %u, which is not a multiple of %u (block %u)", operand, instruction.name, view.address, alignment,
                block.index);
        }
        return false;
    }
    return true;
}

void read(Block& block, const Instruction& instruction, const Range& range)
{
    if (!machine.options.checks) {
        return;
    }
    Shadow& shadow = block.memory->shadow;
    const uint32_t first = range.first_cell();
    const uint32_t last = range.last_cell();
    const Clock& known = block.known[instruction.pipe];
    const Conflict conflict = shadow.check_read(first, last, known, watched(instruction.pipe, false));
    if (conflict.found) {
        report(block, instruction, range, conflict, false);
        if (machine.options.adversarial) {
            spoil(block, range);
        }
    }
    if (machine.options.strict) {
        const Conflict covered = shadow.check_read(first, last, known, automatic(instruction.pipe));
        if (covered.found) {
            report_automatic(block, instruction, range, covered);
        }
    }
    shadow.set_read(instruction.pipe, first, last, block.issued[instruction.pipe]);
}

void write(Block& block, const Instruction& instruction, const Range& range)
{
    if (!machine.options.checks) {
        return;
    }
    Shadow& shadow = block.memory->shadow;
    const uint32_t first = range.first_cell();
    const uint32_t last = range.last_cell();
    const Clock& known = block.known[instruction.pipe];
    const uint32_t pipes = watched(instruction.pipe, true);
    const uint32_t own = pipes & pipe_bit(instruction.pipe);
    Conflict conflict = shadow.check_write(first, last, known, pipes & ~own);
    if (!conflict.found && own != 0) { // only now: a missing edge from another pipe leaves the pipe's own order open as well
        conflict = shadow.check_read(first, last, known, own);
    }
    if (conflict.found) {
        report(block, instruction, range, conflict, true);
        if (machine.options.adversarial) {
            block.spoiled.emplace_back(range.address, range.bytes); // after the instruction has written
        }
    }
    if (machine.options.strict) {
        const Conflict covered = shadow.check_write(first, last, known, automatic(instruction.pipe));
        if (covered.found) {
            report_automatic(block, instruction, range, covered);
        }
    }
    shadow.set_write(instruction.pipe, first, last, block.issued[instruction.pipe]);
}

void spoil(Block& block, const Range& range) { std::memset(ub(block, range.address), 0xff, range.bytes); }

void fill(Block& block, const Range& range, bool data) { block.memory->shadow.fill(range.first_cell(), range.last_cell(), data); }

void flow(Block& block, const Range& dst, const Range* const* sources, int source_count)
{
    if (!machine.options.checks) {
        return;
    }
    Shadow& shadow = block.memory->shadow;
    bool all = true;
    for (int k = 0; k < source_count; ++k) {
        all = all && shadow.holds_data(sources[k]->first_cell(), sources[k]->last_cell());
    }
    const uint32_t first = dst.first_cell();
    const uint32_t last = dst.last_cell();
    if (all) {
        shadow.fill(first, last, true);
        return;
    }
    const uint32_t cells = last - first;
    for (uint32_t cell = 0; cell < cells; ++cell) {
        bool data = true;
        for (int k = 0; k < source_count; ++k) {
            const uint64_t from = sources[k]->first_cell();
            const uint64_t count = sources[k]->last_cell() - from;
            const uint32_t begin = static_cast<uint32_t>(from + count * cell / cells);
            const uint32_t end = static_cast<uint32_t>(from + (count * (cell + 1) + cells - 1) / cells);
            data = data && shadow.holds_data(begin, std::max(end, begin + 1));
        }
        shadow.fill(first + cell, first + cell + 1, data);
    }
}

void require_data(Block& block, const Instruction& instruction, const Range& range)
{
    if (!machine.options.checks) {
        return;
    }
    Shadow& shadow = block.memory->shadow;
    const uint32_t last = range.last_cell();
    const uint32_t empty = shadow.first_empty(range.first_cell(), last);
    if (empty == last) {
        return;
    }
    if (control::Finding* found = note("uninit", instruction.site)) {
        const History::Entry* maker = nullptr;
        for (int pipe = 0; pipe < kPipes && maker == nullptr; ++pipe) {
            const uint32_t count = shadow.last_write(pipe, empty);
            maker = count != 0 ? earlier(block, pipe, count) : nullptr;
        }
        if (maker != nullptr) {
            describe(found, "fill the operands of that instruction first (DataCopy, Duplicate), or work on fewer elements",
                "%s takes %s at UB byte %u, which %s (%s) computed from UB that nothing has filled (block %u)", instruction.name, range.operand,
                empty * kCell, maker->name, line_of(maker->site).c_str(), block.index);
        } else {
            describe(found, "fill the tensor first (DataCopy, Duplicate), or work on fewer elements",
                "%s takes %s at UB byte %u, which nothing has filled (block %u)", instruction.name, range.operand, empty * kCell, block.index);
        }
    }
    shadow.fill(range.first_cell(), last, true);
}

} // namespace runtime
} // namespace kope_twin
