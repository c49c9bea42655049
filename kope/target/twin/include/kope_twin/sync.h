// Order between pipes of a core, and between cores.
#ifndef KOPE_TWIN_SYNC_H
#define KOPE_TWIN_SYNC_H

#include "kope_twin/tensor.h"

namespace kope_twin {

// Pairs of pipes a vector core has flags for.
constexpr bool on_vector_core(AscendC::HardEvent event)
{
    using E = AscendC::HardEvent;
    return event == E::MTE2_V || event == E::V_MTE2 || event == E::MTE3_V || event == E::V_MTE3 || event == E::V_V || event == E::MTE3_MTE2
        || event == E::MTE2_MTE3 || event == E::S_V || event == E::V_S || event == E::S_MTE2 || event == E::MTE2_S || event == E::S_MTE3
        || event == E::MTE3_S;
}

} // namespace kope_twin

namespace AscendC {

template <HardEvent event> KOPE_TWIN_API void SetFlag(int32_t id, Site site = Site::here())
{
    static_assert(kope_twin::on_vector_core(event), "SetFlag: a vector core has no such pair of pipes");
    kope_twin::api::set_flag(uint8_t(event), id, site);
}
template <HardEvent event> KOPE_TWIN_API void WaitFlag(int32_t id, Site site = Site::here())
{
    static_assert(kope_twin::on_vector_core(event), "WaitFlag: a vector core has no such pair of pipes");
    kope_twin::api::wait_flag(uint8_t(event), id, site);
}

template <pipe_t pipe> KOPE_TWIN_API void PipeBarrier(Site site = Site::here())
{
    static_assert(pipe == PIPE_V || pipe == PIPE_MTE2 || pipe == PIPE_MTE3 || pipe == PIPE_ALL,
        "PipeBarrier on a vector core takes PIPE_V, PIPE_MTE2, PIPE_MTE3 or PIPE_ALL");
    kope_twin::api::barrier(pipe, site);
}

// Waits until every block of the launch has come here. isAIVOnly: all vector cores, no cube cores.
template <bool vector_cores_only = true> KOPE_TWIN_API void SyncAll(Site site = Site::here())
{
    static_assert(vector_cores_only, "SyncAll<false> waits for cube cores, which a vector kernel does not have: use SyncAll<true>()");
    kope_twin::api::sync_all(site);
}
template <bool vector_cores_only = true>
KOPE_TWIN_API void SyncAll(const GlobalTensor<int32_t>&, const LocalTensor<int32_t>&, const int32_t = 0, Site site = Site::here())
{
    kope_twin::api::sync_all(site);
}

template <pipe_t source, pipe_t target> class TQueSync {
    static constexpr HardEvent event()
    {
        constexpr int pair = source * 16 + target;
        constexpr struct {
            int pair;
            HardEvent event;
        } table[] = {{PIPE_MTE2 * 16 + PIPE_V, HardEvent::MTE2_V}, {PIPE_V * 16 + PIPE_MTE2, HardEvent::V_MTE2},
            {PIPE_MTE3 * 16 + PIPE_V, HardEvent::MTE3_V}, {PIPE_V * 16 + PIPE_MTE3, HardEvent::V_MTE3},
            {PIPE_MTE3 * 16 + PIPE_MTE2, HardEvent::MTE3_MTE2}, {PIPE_MTE2 * 16 + PIPE_MTE3, HardEvent::MTE2_MTE3},
            {PIPE_S * 16 + PIPE_V, HardEvent::S_V}, {PIPE_V * 16 + PIPE_S, HardEvent::V_S}, {PIPE_S * 16 + PIPE_MTE2, HardEvent::S_MTE2},
            {PIPE_MTE2 * 16 + PIPE_S, HardEvent::MTE2_S}, {PIPE_S * 16 + PIPE_MTE3, HardEvent::S_MTE3},
            {PIPE_MTE3 * 16 + PIPE_S, HardEvent::MTE3_S}};
        for (const auto& entry : table) {
            if (entry.pair == pair) {
                return entry.event;
            }
        }
        return HardEvent::MAX;
    }
    static_assert(event() != HardEvent::MAX, "TQueSync: a vector core has no such pair of pipes");

public:
    KOPE_TWIN_API void SetFlag(TEventID id, Site site = Site::here()) { kope_twin::api::set_flag(uint8_t(event()), id, site); }
    KOPE_TWIN_API void WaitFlag(TEventID id, Site site = Site::here()) { kope_twin::api::wait_flag(uint8_t(event()), id, site); }
};

KOPE_TWIN_INLINE int64_t GetBlockIdx() { return kope_twin::api::block_index(); }
KOPE_TWIN_INLINE int64_t GetBlockNum() { return kope_twin::api::block_count(); }
KOPE_TWIN_INLINE int64_t GetSubBlockIdx() { return 0; }
KOPE_TWIN_INLINE int64_t GetSubBlockNum() { return 1; }
KOPE_TWIN_INLINE int64_t GetTaskRation() { return 1; }
KOPE_TWIN_INLINE int64_t GetTaskRatio() { return 1; }
KOPE_TWIN_INLINE int64_t GetSystemCycle() { return kope_twin::api::system_cycle(); }
KOPE_TWIN_INLINE constexpr uint32_t GetDataBlockSizeInBytes() { return ONE_BLK_SIZE; }
KOPE_TWIN_INLINE void InitSocState() {}

// Scalar conversions of bfloat16_t, and the workspace a launch was given.
KOPE_TWIN_INLINE float ToFloat(bfloat16_t value) { return static_cast<float>(value); }
KOPE_TWIN_INLINE bfloat16_t ToBfloat16(float value) { return bfloat16_t(value); }
KOPE_TWIN_INLINE GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }

// The cache of the scalar unit is not modelled: scalar reads see what was written.
template <typename T, CacheLine line, DcciDst dst = DcciDst::CACHELINE_ALL> KOPE_TWIN_API void DataCacheCleanAndInvalid(const GlobalTensor<T>&)
{
    kope_twin::api::charge_scalar(1);
}

} // namespace AscendC

namespace kope_twin {

// The built-in variables of the device language. Objects, not macros, so that a kernel may use the names for its own.
struct BlockIndex {
    KOPE_TWIN_INLINE operator int64_t() const { return api::block_index(); }
};
struct BlockNumber {
    KOPE_TWIN_INLINE operator int64_t() const { return api::block_count(); }
};

} // namespace kope_twin

inline constexpr kope_twin::BlockIndex block_idx;
inline constexpr kope_twin::BlockNumber block_num;

#endif
