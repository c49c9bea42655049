// See atomics.h.
#include "atomics.h"

#include <cstring>

namespace kope_twin {
namespace runtime {

namespace {

template <typename T, typename Wide> void combine_as(uint8_t operation, uint8_t* memory, const uint8_t* values, uint64_t bytes)
{
    for (uint64_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
        T old_value;
        T value;
        std::memcpy(&old_value, memory + at, sizeof(T));
        std::memcpy(&value, values + at, sizeof(T));
        const Wide a = static_cast<Wide>(old_value);
        const Wide b = static_cast<Wide>(value);
        const T result = static_cast<T>(operation == 1 ? a + b : operation == 2 ? (b > a ? b : a) : (b < a ? b : a));
        std::memcpy(memory + at, &result, sizeof(T));
    }
}

} // namespace

void combine(uint8_t operation, Dtype dtype, uint8_t* memory, const uint8_t* values, uint64_t bytes)
{
    switch (dtype) {
        case Dtype::F32:
            return combine_as<float, float>(operation, memory, values, bytes);
        case Dtype::F16:
            return combine_as<half, float>(operation, memory, values, bytes);
        case Dtype::BF16:
            return combine_as<bfloat16_t, float>(operation, memory, values, bytes);
        case Dtype::I32:
            return combine_as<int32_t, int64_t>(operation, memory, values, bytes);
        case Dtype::I16:
            return combine_as<int16_t, int32_t>(operation, memory, values, bytes);
        case Dtype::I8:
            return combine_as<int8_t, int32_t>(operation, memory, values, bytes);
        default:
            break;
    }
}

} // namespace runtime
} // namespace kope_twin
