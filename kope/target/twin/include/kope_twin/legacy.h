// Older spellings that public kernels still use: intrinsics for flags, barriers and masks, and AscendCUtils.
#ifndef KOPE_TWIN_LEGACY_H
#define KOPE_TWIN_LEGACY_H

#include "kope_twin/copy.h"
#include "kope_twin/sync.h"
#include "kope_twin/vector_fill.h"

namespace kope_twin {

constexpr AscendC::HardEvent event_between(pipe_t source, pipe_t target)
{
    using E = AscendC::HardEvent;
    constexpr struct {
        pipe_t source;
        pipe_t target;
        E event;
    } table[] = {{PIPE_MTE2, PIPE_V, E::MTE2_V}, {PIPE_V, PIPE_MTE2, E::V_MTE2}, {PIPE_MTE3, PIPE_V, E::MTE3_V}, {PIPE_V, PIPE_MTE3, E::V_MTE3},
        {PIPE_MTE3, PIPE_MTE2, E::MTE3_MTE2}, {PIPE_MTE2, PIPE_MTE3, E::MTE2_MTE3}, {PIPE_S, PIPE_V, E::S_V}, {PIPE_V, PIPE_S, E::V_S},
        {PIPE_S, PIPE_MTE2, E::S_MTE2}, {PIPE_MTE2, PIPE_S, E::MTE2_S}, {PIPE_S, PIPE_MTE3, E::S_MTE3}, {PIPE_MTE3, PIPE_S, E::MTE3_S}};
    for (const auto& entry : table) {
        if (entry.source == source && entry.target == target) {
            return entry.event;
        }
    }
    return E::MAX;
}

} // namespace kope_twin

KOPE_TWIN_API inline void set_flag(pipe_t source, pipe_t target, int32_t id, kope_twin::Site site = kope_twin::Site::here())
{
    kope_twin::api::set_flag(uint8_t(kope_twin::event_between(source, target)), id, site);
}
KOPE_TWIN_API inline void wait_flag(pipe_t source, pipe_t target, int32_t id, kope_twin::Site site = kope_twin::Site::here())
{
    kope_twin::api::wait_flag(uint8_t(kope_twin::event_between(source, target)), id, site);
}
KOPE_TWIN_API inline void pipe_barrier(pipe_t pipe, kope_twin::Site site = kope_twin::Site::here()) { kope_twin::api::barrier(pipe, site); }
KOPE_TWIN_API inline uint64_t get_acc_val() { return kope_twin::api::last_reduction(0); }
KOPE_TWIN_API inline void set_mask_norm() { kope_twin::api::set_mask_mode(false); }
KOPE_TWIN_API inline void set_mask_count() { kope_twin::api::set_mask_mode(true); }
KOPE_TWIN_API inline void set_vector_mask(uint64_t high, uint64_t low) { kope_twin::api::set_mask(high, low); }
KOPE_TWIN_INLINE int64_t get_block_idx() { return kope_twin::api::block_index(); }
KOPE_TWIN_INLINE int64_t get_block_num() { return kope_twin::api::block_count(); }
KOPE_TWIN_INLINE int64_t get_subblockid() { return 0; }
KOPE_TWIN_INLINE int64_t get_subblockdim() { return 1; }

namespace AscendC {

class AscendCUtils {
public:
    template <typename T> KOPE_TWIN_API static void SetMask(const uint64_t& high, const uint64_t& low) { SetVectorMask<T>(high, low); }
    template <typename T> KOPE_TWIN_API static void SetMask(int32_t len) { SetVectorMask<T>(len); }
    KOPE_TWIN_API static void ResetMask() { AscendC::ResetMask(); }
    KOPE_TWIN_INLINE static int32_t GetC0Size() { return 32; }
    KOPE_TWIN_INLINE static int32_t GetC0Count(int32_t bytes) { return 32 / bytes; }
    template <typename T> KOPE_TWIN_INLINE static int32_t GetC0Count() { return 32 / static_cast<int32_t>(sizeof(T)); }
    KOPE_TWIN_INLINE static int32_t GetBitSize(int32_t bytes) { return bytes * 8; }
};

KOPE_TWIN_INLINE int32_t CeilDivision(int32_t value, int32_t unit) { return unit == 0 ? 0 : (value + unit - 1) / unit; }
KOPE_TWIN_INLINE uint32_t AlignUp(uint32_t value, uint32_t unit) { return unit == 0 ? value : (value + unit - 1) / unit * unit; }
KOPE_TWIN_INLINE uint32_t DivCeil(uint32_t value, uint32_t unit) { return unit == 0 ? 0 : (value + unit - 1) / unit; }
template <typename T, typename U> struct IsSameType : std::is_same<T, U> {};
template <bool condition, typename T, typename U> struct Conditional : std::conditional<condition, T, U> {};
enum KernelType { MIX = 0, AIC, AIV };

// How many bits of a value are `bit`, and where the first one is.
template <int bit> KOPE_TWIN_INLINE int64_t ScalarGetCountOfValue(uint64_t value)
{
    return bit == 1 ? __builtin_popcountll(value) : 64 - __builtin_popcountll(value);
}
KOPE_TWIN_INLINE int64_t ScalarCountLeadingZero(uint64_t value) { return value == 0 ? 64 : __builtin_clzll(value); }
template <int bit> KOPE_TWIN_INLINE int64_t ScalarGetSFFValue(uint64_t value)
{
    const uint64_t wanted = bit == 1 ? value : ~value;
    return wanted == 0 ? -1 : __builtin_ctzll(wanted);
}

// What is left of the unified buffer, for temporary use.
template <typename T, TPosition position> KOPE_TWIN_API bool PopStackBuffer(LocalTensor<T>& rest)
{
    const kope_twin::api::UbCursor cursor = kope_twin::api::use_cursor({0, 0xffffffffU});
    kope_twin::api::use_cursor(cursor);
    kope_twin::UbView view;
    view.address = cursor.head;
    view.limit = kope_twin::api::ub_bytes();
    view.bytes = view.limit - view.address;
    view.position = uint8_t(position);
    rest = LocalTensor<T>(view);
    return view.bytes != 0;
}

// Fills device memory: every block its part, or the whole.
template <typename T> KOPE_TWIN_API void InitGlobalMemory(GlobalTensor<T>& memory, const uint64_t size, const T value, Site site = Site::here())
{
    constexpr uint32_t most = 8192 / sizeof(T);
    const kope_twin::UbView view = kope_twin::api::scratch(8192, site);
    const LocalTensor<T> filled(view);
    kope_twin::api::barrier(PIPE_ALL, site);
    Duplicate(filled, value, static_cast<int32_t>(most), site);
    kope_twin::api::barrier(PIPE_ALL, site);
    for (uint64_t done = 0; done < size; done += most) {
        const uint32_t count = static_cast<uint32_t>(size - done < most ? size - done : most);
        DataCopyPad(memory[done], filled, DataCopyExtParams(1, count * static_cast<uint32_t>(sizeof(T)), 0, 0, 0), site);
    }
    kope_twin::api::barrier(PIPE_ALL, site);
}
template <typename T> KOPE_TWIN_API void InitOutput(GlobalTensor<T> memory, uint32_t size, T value = 0, Site site = Site::here())
{
    InitGlobalMemory(memory, size, value, site);
}
template <typename T> KOPE_TWIN_API void Fill(GlobalTensor<T>& memory, const uint64_t size, const T value, Site site = Site::here())
{
    InitGlobalMemory(memory, size, value, site);
}

KOPE_TWIN_INLINE void SetSysWorkspace(GM_ADDR) {}
KOPE_TWIN_INLINE void SetSysWorkspaceForce(GM_ADDR) {}
KOPE_TWIN_INLINE GM_ADDR GetSysWorkSpacePtr() { return nullptr; }

} // namespace AscendC

inline constexpr AscendC::KernelType g_coreType = AscendC::AIV; // this core runs vector code

#endif
