// TBufPool: a part of the unified buffer that is cut into queues and buffers, and used again after Reset.
#ifndef KOPE_TWIN_POOL_H
#define KOPE_TWIN_POOL_H

#include "kope_twin/pipe.h"

namespace AscendC {

template <TPosition position, uint32_t bufIDSize = 4> class TBufPool {
    static_assert(kope_twin::in_unified_buffer(position),
        "the twin has pools in the unified buffer only (VECIN, VECOUT, VECCALC); cube positions are not supported");

public:
    TBufPool() = default;

    // Inside a pool: a queue, a buffer, or a pool of its own.
    template <TPosition source, TPosition target, int32_t depth, auto mask>
    KOPE_TWIN_API bool InitBuffer(TQueBind<source, target, depth, mask>& queue, uint8_t buffers, uint32_t bytes, Site site = Site::here())
    {
        const Inside inside(*this);
        return GetTPipePtr()->InitBuffer(queue, buffers, bytes, site);
    }
    template <TPosition at> KOPE_TWIN_API bool InitBuffer(TBuf<at>& buffer, uint32_t bytes, Site site = Site::here())
    {
        const Inside inside(*this);
        return GetTPipePtr()->InitBuffer(buffer, bytes, site);
    }
    template <TPosition at, uint32_t ids> KOPE_TWIN_API bool InitBufPool(TBufPool<at, ids>& pool, uint32_t bytes, Site site = Site::here())
    {
        const Inside inside(*this);
        return GetTPipePtr()->InitBufPool(pool, bytes, site);
    }
    // Lies where `shared` lies.
    template <TPosition at, uint32_t ids, TPosition other, uint32_t other_ids>
    KOPE_TWIN_API bool InitBufPool(TBufPool<at, ids>& pool, uint32_t bytes, const TBufPool<other, other_ids>& shared, Site site = Site::here())
    {
        return GetTPipePtr()->InitBufPool(pool, bytes, shared, site);
    }
    // Waits for everything, then hands the memory out anew.
    KOPE_TWIN_API void Reset(Site site = Site::here())
    {
        kope_twin::api::barrier(PIPE_ALL, site);
        head_ = start_;
    }

private:
    friend class TPipe;
    template <TPosition, uint32_t> friend class TBufPool;

    // Buffers made during its life are laid out in the pool.
    class Inside {
    public:
        KOPE_TWIN_INLINE explicit Inside(TBufPool& pool) : pool_(pool), outside_(kope_twin::api::use_cursor({pool.head_, pool.start_ + pool.bytes_})) {}
        KOPE_TWIN_INLINE ~Inside() { pool_.head_ = kope_twin::api::use_cursor(outside_).head; }

    private:
        TBufPool& pool_;
        kope_twin::api::UbCursor outside_;
    };

    uint32_t start_ = 0;
    uint32_t bytes_ = 0;
    uint32_t head_ = 0;
};

template <TPosition position, uint32_t ids> KOPE_TWIN_API bool TPipe::InitBufPool(TBufPool<position, ids>& pool, uint32_t bytes, Site site)
{
    const kope_twin::UbView view = kope_twin::api::buffer_init(uint8_t(position), bytes, site);
    pool.start_ = view.address;
    pool.bytes_ = view.bytes;
    pool.head_ = view.address;
    return view.limit != 0;
}
template <TPosition position, uint32_t ids, TPosition other, uint32_t other_ids>
KOPE_TWIN_API bool TPipe::InitBufPool(TBufPool<position, ids>& pool, uint32_t bytes, const TBufPool<other, other_ids>& shared, Site)
{
    pool.start_ = shared.start_;
    pool.bytes_ = bytes < shared.bytes_ ? bytes : shared.bytes_;
    pool.head_ = shared.start_;
    return bytes <= shared.bytes_;
}

} // namespace AscendC

#endif
