// What kernels print: text, and the content of tensors. Only where there is data; it costs scalar time either way.
#include <cstdio>
#include <cstring>

#include "access.h"
#include "gm_access.h"

namespace kope_twin {
namespace runtime {

namespace {

double number_at(const uint8_t* from, Dtype dtype)
{
    uint64_t bits = 0;
    std::memcpy(&bits, from, size_of(dtype));
    switch (dtype) {
        case Dtype::F32: {
            float value;
            std::memcpy(&value, from, sizeof(value));
            return value;
        }
        case Dtype::F16: {
            half value;
            std::memcpy(&value, from, sizeof(value));
            return static_cast<float>(value);
        }
        case Dtype::BF16: {
            bfloat16_t value;
            std::memcpy(&value, from, sizeof(value));
            return static_cast<float>(value);
        }
        case Dtype::I8:
            return static_cast<int8_t>(bits);
        case Dtype::I16:
            return static_cast<int16_t>(bits);
        case Dtype::I32:
            return static_cast<int32_t>(bits);
        case Dtype::I64:
            return static_cast<double>(static_cast<int64_t>(bits));
        default:
            return static_cast<double>(bits);
    }
}

void show(const uint8_t* from, Dtype dtype, uint32_t desc, uint32_t count)
{
    std::printf("DumpTensor %u, block %u, %s[%u]:", desc, current->index, name_of(dtype), count);
    for (uint32_t k = 0; k < count; ++k) {
        std::printf("%s%g", k % 16 == 0 ? "\n  " : " ", number_at(from + k * size_of(dtype), dtype));
    }
    std::printf("\n");
}

constexpr uint32_t kPrintCycles = 400; // guess; a print is for looking, not for timing

} // namespace
} // namespace runtime

namespace api {

using namespace runtime;

void print(const char* text)
{
    if (current == nullptr) { // printf of host code, which a using directive has led here
        std::fputs(text, stdout);
        return;
    }
    Enter enter("printf", machine.last_site);
    current->trace.scalar(kPrintCycles);
    if (machine.verify) {
        std::fputs(text, stdout);
    }
}

void dump_ub(const UbView& view, Dtype dtype, uint32_t desc, uint32_t count, Site site)
{
    Enter enter("DumpTensor", site);
    Block& block = *current;
    const Instruction instruction = {"DumpTensor", kScalar, site};
    const uint32_t bytes = count * static_cast<uint32_t>(size_of(dtype));
    block.trace.join(pipe_bit(kVector) | pipe_bit(kMte2) | pipe_bit(kMte3));
    block.trace.scalar(kPrintCycles);
    if (usable(block, instruction, "the tensor", view, bytes, 1) && machine.verify) {
        show(ub(block, view.address), dtype, desc, count);
    }
}

void dump_gm(const void* base, Dtype dtype, uint32_t desc, uint32_t count, Site site)
{
    Enter enter("DumpTensor", site);
    current->trace.scalar(kPrintCycles);
    const GmPlace place = locate(reinterpret_cast<uint64_t>(base));
    const uint64_t bytes = uint64_t(count) * size_of(dtype);
    if (place.buffer != nullptr && place.offset >= 0 && static_cast<uint64_t>(place.offset) + bytes <= place.buffer->bytes && machine.verify) {
        show(place.buffer->host + place.offset, dtype, desc, count);
    }
}

} // namespace api
} // namespace kope_twin
