// Single elements read and written by the scalar unit: slow on the device, and the only data that control flow can see.
#include <cstring>

#include "access.h"
#include "gm_access.h"
#include "machine.h"

namespace kope_twin {
namespace runtime {

namespace {

// Time mode has no data: reads give one.
uint64_t stand_in(Dtype dtype)
{
    machine.result.scalar_read = true;
    switch (dtype) {
        case Dtype::F32:
            return 0x3f800000U;
        case Dtype::F16:
            return 0x3c00U;
        case Dtype::BF16:
            return 0x3f80U;
        case Dtype::F64:
            return 0x3ff0000000000000ULL;
        default:
            return 1;
    }
}

bool element(Block& block, const Instruction& instruction, const UbView& view, uint64_t offset, uint32_t bytes)
{
    UbView at = view;
    at.address = static_cast<uint32_t>(view.address + offset);
    return usable(block, instruction, "the tensor", at, bytes, 1);
}

bool gm_element(const Instruction& instruction, const GmPlace& place, uint32_t bytes)
{
    if (place.buffer != nullptr && place.offset >= 0 && static_cast<uint64_t>(place.offset) + bytes <= place.buffer->bytes) {
        return true;
    }
    if (control::Finding* found = note("gm-oob", instruction.site)) {
        describe(found, "check the index", "%s at byte %lld of %s, which has %llu (block %u)", instruction.name, static_cast<long long>(place.offset),
            place.buffer != nullptr ? place.buffer->name.c_str() : "no tensor at all",
            static_cast<unsigned long long>(place.buffer != nullptr ? place.buffer->bytes : 0), current->index);
    }
    return false;
}

} // namespace
} // namespace runtime

namespace api {

using namespace runtime;

uint64_t ub_get(const UbView& view, uint64_t offset, Dtype dtype, Site site)
{
    const uint32_t bytes = static_cast<uint32_t>(size_of(dtype));
    Enter enter("GetValue", site);
    Block& block = *current;
    const Instruction instruction = {"GetValue", kScalar, site};
    block.trace.join(pipe_bit(kVector) | pipe_bit(kMte2));
    block.trace.scalar(static_cast<uint64_t>(parameters.ub_scalar_read_cycles));
    if (!element(block, instruction, view, offset, bytes)) {
        return 0;
    }
    if (!machine.verify) {
        return stand_in(dtype);
    }
    begin(block, instruction);
    const Range range = {"the tensor", static_cast<uint32_t>(view.address + offset), bytes};
    read(block, instruction, range);
    require_data(block, instruction, range);
    uint64_t bits = 0;
    std::memcpy(&bits, ub(block, range.address), bytes);
    return bits;
}

void ub_set(const UbView& view, uint64_t offset, uint32_t bytes, uint64_t bits, Site site)
{
    Enter enter("SetValue", site);
    Block& block = *current;
    const Instruction instruction = {"SetValue", kScalar, site};
    block.trace.join(pipe_bit(kVector) | pipe_bit(kMte2) | pipe_bit(kMte3));
    block.trace.scalar(static_cast<uint64_t>(parameters.ub_scalar_write_cycles));
    if (!element(block, instruction, view, offset, bytes) || !machine.verify) {
        return;
    }
    begin(block, instruction);
    const Range range = {"the tensor", static_cast<uint32_t>(view.address + offset), bytes};
    write(block, instruction, range);
    fill(block, range, true);
    std::memcpy(ub(block, range.address), &bits, bytes);
}

uint64_t gm_get(const void* base, uint64_t offset, Dtype dtype, Site site)
{
    const uint32_t bytes = static_cast<uint32_t>(size_of(dtype));
    Enter enter("GetValue", site);
    Block& block = *current;
    const Instruction instruction = {"GlobalTensor::GetValue", kScalar, site};
    block.trace.join(pipe_bit(kMte3));
    block.trace.scalar(static_cast<uint64_t>(parameters.gm_scalar_read_cycles));
    block.gm_read_bytes += bytes;
    const GmPlace place = locate(reinterpret_cast<uint64_t>(base) + offset);
    if (!gm_element(instruction, place, bytes)) {
        return 0;
    }
    if (!machine.verify) {
        return stand_in(dtype);
    }
    gm_read(block, instruction, *place.buffer, static_cast<uint64_t>(place.offset), bytes);
    uint64_t bits = 0;
    std::memcpy(&bits, place.buffer->host + place.offset, bytes);
    return bits;
}

void gm_set(void* base, uint64_t offset, uint32_t bytes, uint64_t bits, Site site)
{
    Enter enter("SetValue", site);
    Block& block = *current;
    const Instruction instruction = {"GlobalTensor::SetValue", kScalar, site};
    block.trace.join(pipe_bit(kMte2) | pipe_bit(kMte3));
    block.trace.scalar(static_cast<uint64_t>(parameters.gm_scalar_write_cycles));
    block.gm_written_bytes += bytes;
    const GmPlace place = locate(reinterpret_cast<uint64_t>(base) + offset);
    if (!gm_element(instruction, place, bytes)) {
        return;
    }
    if (place.buffer->access == control::Access::Input) {
        if (control::Finding* found = note("input-written", site)) {
            describe(found, "write to an output or to the workspace", "SetValue writes to %s, which is an input (block %u)", place.buffer->name.c_str(),
                block.index);
        }
        return;
    }
    if (machine.verify) {
        gm_write(block, instruction, *place.buffer, static_cast<uint64_t>(place.offset), reinterpret_cast<const uint8_t*>(&bits), bytes, false);
        std::memcpy(place.buffer->host + place.offset, &bits, bytes);
    }
}

} // namespace api
} // namespace kope_twin
