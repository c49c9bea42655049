// Transposing 16 blocks of 32 bytes: element r of source block c becomes element c of result row r.
#include <cstring>

#include "access.h"

namespace kope_twin {
namespace runtime {

namespace {

constexpr uint32_t kBlocks = 16;

// One repeat in the memory of 16 source blocks, into 16 result blocks.
void transpose_once(uint8_t result[kBlocks][kCell], const uint8_t source[kBlocks][kCell], uint32_t element, bool dst_high, bool src_high)
{
    const uint32_t rows = element == 1 ? 16 : kCell / element;
    for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t column = 0; column < kBlocks; ++column) {
            const uint32_t from = element == 1 ? row + (src_high ? 16 : 0) : row;
            const uint32_t per_block = kCell / element;
            const uint32_t block = element == 4 ? row * 2 + column / per_block : row;
            const uint32_t lane = element == 4 ? column % per_block : element == 1 ? column + (dst_high ? 16 : 0) : column;
            std::memcpy(result[block] + lane * element, source[column] + from * element, element);
        }
    }
}

} // namespace
} // namespace runtime

namespace api {

using namespace runtime;

void transpose_blocks(const UbView* const* dst, const UbView* const* src, Dtype dtype, bool dst_high, bool src_high, int32_t repeats,
    uint32_t dst_stride, uint32_t src_stride, const char* name, Site site)
{
    Enter enter(name, site);
    Block& block = *current;
    const Instruction instruction = {name, kVector, site};
    const uint32_t element = static_cast<uint32_t>(size_of(dtype));
    const uint32_t rounds = repeats > 0 ? static_cast<uint32_t>(repeats) : 0;
    block.trace.work(kVector, static_cast<uint32_t>(parameters.vector_head_cycles + rounds * 2.0)); // 512 bytes, 256 a cycle
    begin(block, instruction);
    // A single repeat starts one stride in.
    const auto offset = [rounds](uint32_t round, uint32_t stride) { return (rounds == 1 ? 1 : round) * stride * kCell; };
    bool fine = rounds != 0;
    for (uint32_t k = 0; k < kBlocks && rounds != 0; ++k) {
        const uint32_t last = rounds - 1;
        fine = usable(block, instruction, "dstList", *dst[k], offset(last, dst_stride) + kCell, kCell) && fine;
        fine = usable(block, instruction, "srcList", *src[k], offset(last, src_stride) + kCell, kCell) && fine;
    }
    if (!fine || !machine.verify) {
        return;
    }
    for (uint32_t round = 0; round < rounds; ++round) {
        uint8_t source[kBlocks][kCell];
        uint8_t result[kBlocks][kCell];
        bool data = true;
        for (uint32_t k = 0; k < kBlocks; ++k) {
            const Range range = {"srcList", src[k]->address + offset(round, src_stride), kCell};
            read(block, instruction, range);
            data = data && block.memory->shadow.holds_data(range.first_cell(), range.last_cell());
            std::memcpy(source[k], ub(block, range.address), kCell);
            std::memcpy(result[k], ub(block, dst[k]->address + offset(round, dst_stride)), kCell);
        }
        transpose_once(result, source, element, dst_high, src_high);
        for (uint32_t k = 0; k < kBlocks; ++k) {
            const Range range = {"dstList", dst[k]->address + offset(round, dst_stride), kCell};
            write(block, instruction, range);
            fill(block, range, data);
            std::memcpy(ub(block, range.address), result[k], kCell);
        }
    }
}

UbView raw_view(uint64_t pointer, Site site)
{
    Enter enter("GetPhyAddr", site);
    UbView view;
    if ((pointer & kTagMask) != kUbTag) {
        return view; // unusable: reported where it is used
    }
    view.address = static_cast<uint32_t>(pointer & ~kTagMask);
    view.limit = static_cast<uint32_t>(parameters.ub_bytes);
    view.bytes = view.limit > view.address ? view.limit - view.address : 0;
    return view;
}

} // namespace api
} // namespace kope_twin
