// Transfers: device memory to UB (MTE2), UB to device memory (MTE3), inside UB (vector unit).
#include <algorithm>
#include <cstring>

#include "access.h"
#include "atomics.h"
#include "cache.h"
#include "gm_access.h"
#include "machine.h"

namespace kope_twin {
namespace runtime {

namespace {

constexpr uint32_t kMostBlocks = 4095;
constexpr uint32_t kMostPadBytes = 2097151;

// A transfer with everything worked out: sizes in bytes, on both sides.
struct Plan {
    uint64_t blocks = 0;
    uint64_t bytes = 0;        // of one block in device memory
    uint64_t left = 0;         // padding before it in UB
    uint64_t ub_bytes = 0;     // of one block in UB, paddings included, up to a multiple of 32
    uint64_t gm_step = 0;      // from block to block
    uint64_t ub_step = 0;

    uint64_t gm_span() const { return (blocks - 1) * gm_step + bytes; }
    uint64_t ub_span() const { return (blocks - 1) * ub_step + ub_bytes; }
};

bool out_of_range(const Transfer& transfer, const char* what, uint64_t value, uint64_t most)
{
    if (value <= most) {
        return false;
    }
    if (control::Finding* found = note("argument-range", transfer.site)) {
        describe(found, "split the transfer", "%s with %s = %llu, the largest is %llu", transfer.name, what, static_cast<unsigned long long>(value),
            static_cast<unsigned long long>(most));
    }
    return true;
}

// False when nothing is to be moved.
bool make_plan(const Transfer& transfer, bool in, Plan& plan)
{
    if (out_of_range(transfer, "blockCount", transfer.block_count, kMostBlocks)) {
        return false;
    }
    plan.blocks = transfer.block_count;
    plan.bytes = transfer.block_bytes;
    if (!transfer.padded) {
        if (plan.bytes % kCell != 0) {
            if (control::Finding* found = note("copy-size", transfer.site)) {
                describe(found, "use DataCopyPad for byte counts that are not a multiple of 32, or round the count up and allocate for it",
                    "%s of %llu bytes moves only %llu: counts are rounded down to 32 bytes (block %u)", transfer.name,
                    static_cast<unsigned long long>(plan.bytes), static_cast<unsigned long long>(plan.bytes / kCell * kCell), current->index);
            }
            plan.bytes = plan.bytes / kCell * kCell;
        }
        plan.ub_bytes = plan.bytes;
    } else {
        const uint64_t left = transfer.left_elements * uint64_t(transfer.element_bytes);
        const uint64_t right = transfer.right_elements * uint64_t(transfer.element_bytes);
        if (out_of_range(transfer, "blockLen", plan.bytes, kMostPadBytes) || out_of_range(transfer, "leftPadding in bytes", left, kCell)
            || out_of_range(transfer, "rightPadding in bytes", right, kCell)) {
            return false;
        }
        plan.left = left;
        plan.ub_bytes = (left + plan.bytes + right + kCell - 1) / kCell * kCell;
        if (!in) {
            plan.ub_bytes = (plan.bytes + kCell - 1) / kCell * kCell;
        }
    }
    plan.gm_step = plan.bytes + transfer.gm_gap_bytes;
    plan.ub_step = plan.ub_bytes + uint64_t(transfer.ub_gap_blocks) * kCell;
    return plan.blocks != 0 && plan.bytes != 0;
}

void report_outside(const Transfer& transfer, const GmPlace& place, uint64_t span, bool in)
{
    control::Finding* found = note("gm-oob", transfer.site);
    if (found == nullptr) {
        return;
    }
    const char* verb = in ? "reads" : "writes";
    if (place.buffer == nullptr) {
        describe(found, "give GlobalTensor::SetGlobalBuffer an address that the kernel got as an argument",
            "%s %s %llu bytes at an address that belongs to no tensor (block %u)", transfer.name, verb, static_cast<unsigned long long>(span), current->index);
        return;
    }
    describe(found, "check the block's offset and the length of its last tile",
        "%s %s bytes %lld to %lld of %s, which has %llu (block %u)", transfer.name, verb, static_cast<long long>(place.offset),
        static_cast<long long>(place.offset + static_cast<int64_t>(span)), place.buffer->name.c_str(),
        static_cast<unsigned long long>(place.buffer->bytes), current->index);
}

bool inside(const Transfer& transfer, const GmPlace& place, uint64_t span, bool in)
{
    if (place.buffer != nullptr && place.offset >= 0 && static_cast<uint64_t>(place.offset) + span <= place.buffer->bytes) {
        if (!transfer.padded && static_cast<uint64_t>(place.offset) % transfer.element_bytes != 0) {
            if (control::Finding* found = note("align", transfer.site)) {
                describe(found, "start at a whole element", "%s starts at byte %lld of %s, inside an element of %u bytes (block %u)", transfer.name,
                    static_cast<long long>(place.offset), place.buffer->name.c_str(), transfer.element_bytes, current->index);
            }
        }
        return true;
    }
    report_outside(transfer, place, span, in);
    return false;
}

void account(Block& block, const Plan& plan, int pipe, const GmPlace& place)
{
    const uint64_t granule = static_cast<uint64_t>(parameters.gm_granule_bytes);
    const uint64_t traffic = plan.blocks * ((plan.bytes + granule - 1) / granule * granule);
    const double rate = (pipe == kMte2 ? parameters.gm_to_ub_gbps : parameters.ub_to_gm_gbps) * 1e3 / parameters.clock_mhz;
    const uint32_t head = static_cast<uint32_t>(parameters.move_head_cycles + parameters.burst_cycles * static_cast<double>(plan.blocks - 1));
    uint16_t path = static_cast<uint64_t>(place.offset) % 512 != 0 ? kUnaligned : 0;
    const uint32_t missed = cache_misses(block, place, {plan.blocks, plan.bytes, plan.gm_step});
    path |= static_cast<uint16_t>(missed << kMissedShift);
    if (pipe == kMte2 && parameters.l2_gbps > 0.0) {
        block.cached_read_bytes += traffic - std::min<uint64_t>(traffic, uint64_t(missed) * kSectorBytes);
    }
    block.trace.move(pipe, head, traffic, static_cast<uint64_t>(static_cast<double>(traffic) / rate), path);
    (pipe == kMte2 ? block.gm_read_bytes : block.gm_written_bytes) += plan.blocks * plan.bytes;
}

void fill_pattern(uint8_t* to, uint64_t bytes, uint64_t bits, uint32_t element)
{
    for (uint64_t k = 0; k < bytes; ++k) {
        to[k] = static_cast<uint8_t>(bits >> (8 * (k % element)));
    }
}

// Paddings: the given value, or what SetPadValue left, or else the block's first element to its right and noise elsewhere.
void pad(Block& block, const Transfer& transfer, const Plan& plan, uint8_t* to)
{
    const uint64_t before = plan.left;
    const uint64_t after = plan.ub_bytes - plan.left - plan.bytes;
    if (before + after == 0) {
        return;
    }
    uint64_t bits = transfer.pad_bits;
    bool known = transfer.fill;
    if (!known && block.pad_set) {
        bits = block.pad_bits;
        known = true;
    }
    if (!known && transfer.left_elements == 0 && transfer.right_elements == 0) {
        bits = 0;
        std::memcpy(&bits, to + plan.left, transfer.element_bytes);
        known = true;
    }
    if (!known) {
        bits = 0xa5c3a5c3a5c3a5c3ULL;
    }
    fill_pattern(to, before, bits, transfer.element_bytes);
    fill_pattern(to + plan.left + plan.bytes, after, bits, transfer.element_bytes);
}

Range ub_range(const char* operand, const UbView& view, const Plan& plan, uint64_t block)
{
    return {operand, static_cast<uint32_t>(view.address + block * plan.ub_step), static_cast<uint32_t>(plan.ub_bytes)};
}

// Blocks that lie end to end in UB are one range.
template <typename Visit> void each_range(const char* operand, const UbView& view, const Plan& plan, Visit visit)
{
    if (plan.ub_step == plan.ub_bytes) {
        visit(Range{operand, view.address, static_cast<uint32_t>(plan.ub_span())});
        return;
    }
    for (uint64_t k = 0; k < plan.blocks; ++k) {
        visit(ub_range(operand, view, plan, k));
    }
}

// The parts of device memory a transfer touches, without gaps.
template <typename Visit> void each_gm_piece(const Plan& plan, Visit visit)
{
    if (plan.gm_step == plan.bytes) {
        visit(0, plan.gm_span());
        return;
    }
    for (uint64_t k = 0; k < plan.blocks; ++k) {
        visit(k * plan.gm_step, plan.bytes);
    }
}

} // namespace
} // namespace runtime

namespace api {

using namespace runtime;

void copy_in(const UbView& dst, const void* src, const Transfer& transfer)
{
    Enter enter(transfer.name, transfer.site);
    Block& block = *current;
    const Instruction instruction = {transfer.name, kMte2, transfer.site};
    Plan plan;
    if (!make_plan(transfer, true, plan)) {
        block.trace.scalar(static_cast<uint64_t>(parameters.issue_cycles));
        return;
    }
    const GmPlace place = locate(reinterpret_cast<uint64_t>(src));
    account(block, plan, kMte2, place);
    begin(block, instruction);
    const bool source_ok = inside(transfer, place, plan.gm_span(), true);
    const bool target_ok = usable(block, instruction, "dst", dst, plan.ub_span(), kCell);
    if (!source_ok || !target_ok || !machine.verify) {
        return;
    }
    each_range("dst", dst, plan, [&](const Range& range) {
        write(block, instruction, range);
        fill(block, range, true);
    });
    each_gm_piece(plan, [&](uint64_t offset, uint64_t bytes) {
        gm_read(block, instruction, *place.buffer, static_cast<uint64_t>(place.offset) + offset, bytes);
    });
    const uint8_t* from = place.buffer->host + place.offset;
    uint8_t* to = ub(block, dst.address);
    if (plan.blocks == 1 || (plan.gm_step == plan.bytes && plan.ub_step == plan.bytes)) {
        std::memcpy(to + plan.left, from, plan.blocks * plan.bytes);
        pad(block, transfer, plan, to);
        return;
    }
    for (uint64_t k = 0; k < plan.blocks; ++k) {
        std::memcpy(to + k * plan.ub_step + plan.left, from + k * plan.gm_step, plan.bytes);
        pad(block, transfer, plan, to + k * plan.ub_step);
    }
}

void copy_out(void* dst, const UbView& src, const Transfer& transfer)
{
    Enter enter(transfer.name, transfer.site);
    Block& block = *current;
    const Instruction instruction = {transfer.name, kMte3, transfer.site};
    Plan plan;
    if (!make_plan(transfer, false, plan)) {
        block.trace.scalar(static_cast<uint64_t>(parameters.issue_cycles));
        return;
    }
    const GmPlace place = locate(reinterpret_cast<uint64_t>(dst));
    account(block, plan, kMte3, place);
    begin(block, instruction);
    const bool target_ok = inside(transfer, place, plan.gm_span(), false);
    const bool source_ok = usable(block, instruction, "src", src, plan.ub_span(), kCell);
    if (!source_ok || !target_ok) {
        return;
    }
    if (place.buffer->access == control::Access::Input) {
        if (control::Finding* found = note("input-written", transfer.site)) {
            describe(found, "write to an output or to the workspace", "%s writes to %s, which is an input (block %u)", transfer.name,
                place.buffer->name.c_str(), block.index);
        }
        return;
    }
    if (!machine.verify) {
        return;
    }
    each_range("src", src, plan, [&](const Range& range) {
        read(block, instruction, range);
        require_data(block, instruction, range);
    });
    uint8_t* to = place.buffer->host + place.offset;
    const uint8_t* from = ub(block, src.address);
    const bool one = plan.blocks == 1 || (plan.gm_step == plan.bytes && plan.ub_step == plan.bytes);
    const uint64_t pieces = one ? 1 : plan.blocks;
    const uint64_t piece_bytes = one ? plan.blocks * plan.bytes : plan.bytes;
    for (uint64_t k = 0; k < pieces; ++k) {
        gm_write(block, instruction, *place.buffer, static_cast<uint64_t>(place.offset) + k * plan.gm_step, from + k * plan.ub_step, piece_bytes,
            block.atomic != 0);
        if (block.atomic != 0) {
            combine(block.atomic, block.atomic_type, to + k * plan.gm_step, from + k * plan.ub_step, piece_bytes);
        } else {
            std::memcpy(to + k * plan.gm_step, from + k * plan.ub_step, piece_bytes);
        }
    }
}

void copy_local(const UbView& dst, const UbView& src, const Transfer& transfer)
{
    Enter enter(transfer.name, transfer.site);
    Block& block = *current;
    const Instruction instruction = {transfer.name, kVector, transfer.site};
    Plan to;
    if (!make_plan(transfer, true, to)) {
        block.trace.scalar(static_cast<uint64_t>(parameters.issue_cycles));
        return;
    }
    Plan from = to;
    from.ub_step = from.ub_bytes + transfer.gm_gap_bytes;
    block.trace.work(kVector, static_cast<uint32_t>(parameters.vector_head_cycles) + static_cast<uint32_t>(to.blocks * ((to.bytes + 255) / 256)));
    begin(block, instruction);
    const bool source_ok = usable(block, instruction, "src", src, from.ub_span(), kCell);
    const bool target_ok = usable(block, instruction, "dst", dst, to.ub_span(), kCell);
    if (!source_ok || !target_ok || !machine.verify) {
        return;
    }
    for (uint64_t k = 0; k < to.blocks; ++k) {
        const Range source = ub_range("src", src, from, k);
        const Range target = ub_range("dst", dst, to, k);
        read(block, instruction, source);
        write(block, instruction, target);
        const Range* const sources[] = {&source};
        flow(block, target, sources, 1);
        std::memmove(ub(block, target.address), ub(block, source.address), to.bytes);
    }
}

void set_atomic(uint8_t operation, Dtype dtype, Site site)
{
    Enter enter("SetAtomic", site);
    current->trace.scalar(static_cast<uint64_t>(parameters.flag_cycles));
    current->atomic = operation;
    current->atomic_type = dtype;
}

void set_pad_value(uint64_t bits)
{
    Enter enter("SetPadValue", machine.last_site);
    current->trace.scalar(static_cast<uint64_t>(parameters.flag_cycles));
    current->pad_set = true;
    current->pad_bits = bits;
}

} // namespace api
} // namespace kope_twin
