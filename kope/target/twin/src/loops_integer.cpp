// See loops.h: bitwise complement and shifts of integers.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "loops.h"

namespace kope_twin {
namespace runtime {

namespace {

template <typename T> void bit_not(void* dst, const void* a, const void*, size_t count, const Scalar&)
{
    T* to = static_cast<T*>(dst);
    const T* from = static_cast<const T*>(a);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        to[k] = static_cast<T>(~from[k]);
    }
}

template <typename T> void shift_left(void* dst, const void* a, const void*, size_t count, const Scalar& scalar)
{
    using Bits = std::make_unsigned_t<T>;
    T* to = static_cast<T*>(dst);
    const T* from = static_cast<const T*>(a);
    const int64_t by = scalar.integer;
    const bool gone = by >= int64_t(sizeof(T) * 8);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        to[k] = gone ? T(0) : static_cast<T>(static_cast<Bits>(static_cast<uint64_t>(static_cast<Bits>(from[k])) << by));
    }
}

template <typename T, bool rounds> void shift_right(void* dst, const void* a, const void*, size_t count, const Scalar& scalar)
{
    T* to = static_cast<T*>(dst);
    const T* from = static_cast<const T*>(a);
    const int64_t by = std::min<int64_t>(scalar.integer, 63);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        const int64_t value = from[k];
        const int64_t last_out = rounds && by > 0 ? (value >> (by - 1)) & 1 : 0;
        to[k] = static_cast<T>((value >> by) + last_out);
    }
}

template <template <typename> class Make> Loop shifts(Dtype type)
{
    switch (type) {
        case Dtype::I16:
            return Make<int16_t>::loop;
        case Dtype::U16:
            return Make<uint16_t>::loop;
        case Dtype::I32:
            return Make<int32_t>::loop;
        case Dtype::U32:
            return Make<uint32_t>::loop;
        default:
            return nullptr;
    }
}
template <typename T> struct Left {
    static constexpr Loop loop = shift_left<T>;
};
template <typename T> struct Right {
    static constexpr Loop loop = shift_right<T, false>;
};
template <typename T> struct RightRound {
    static constexpr Loop loop = shift_right<T, std::is_signed_v<T>>;
};

} // namespace

Loop integer_loop(Op op, Dtype type)
{
    switch (op) {
        case Op::Not:
            return bit_not<uint16_t>;
        case Op::ShiftLeft:
            return shifts<Left>(type);
        case Op::ShiftRight:
            return shifts<Right>(type);
        case Op::ShiftRightRound:
            return shifts<RightRound>(type);
        default:
            return nullptr;
    }
}

} // namespace runtime
} // namespace kope_twin
