// TPipe, TQue, TQueBind, TBuf: who owns which part of the unified buffer, and the synchronisation queues bring along.
#ifndef KOPE_TWIN_PIPE_H
#define KOPE_TWIN_PIPE_H

#include "kope_twin/tensor.h"

namespace kope_twin {

constexpr bool in_unified_buffer(AscendC::TPosition position)
{
    return position == AscendC::TPosition::VECIN || position == AscendC::TPosition::VECOUT || position == AscendC::TPosition::VECCALC;
}

// A queue at one position lies between the unit that fills it and the one that empties it.
constexpr AscendC::TPosition queue_source(AscendC::TPosition position)
{
    return position == AscendC::TPosition::VECIN ? AscendC::TPosition::GM : position;
}
constexpr AscendC::TPosition queue_target(AscendC::TPosition position)
{
    return position == AscendC::TPosition::VECOUT ? AscendC::TPosition::GM : position;
}

} // namespace kope_twin

namespace AscendC {

using TBufHandle = uint8_t*; // a buffer of a queue, without its type

struct TQueConfig {
    bool nd2nz = false;
    bool nz2nd = false;
    bool scmBlockGroup = false;
    uint32_t bufferLen = 0;
    uint32_t bufferNumber = 0;
    uint32_t consumerSize = 0;
    TPosition consumer[8] = {};
    bool enableStaticEvtId = false;
    bool enableLoopQueue = false;
};

class TPipe;
template <TPosition position, uint32_t bufIDSize> class TBufPool;

template <TPosition source, TPosition target, int32_t depth, auto mask = 0> class TQueBind {
    static_assert(kope_twin::in_unified_buffer(source) || kope_twin::in_unified_buffer(target),
        "the twin has queues in the unified buffer only (VECIN, VECOUT, VECCALC); cube positions are not supported");
    static_assert(depth >= 0, "queue depth");

public:
    TQueBind() = default;

    template <typename T> KOPE_TWIN_API LocalTensor<T> AllocTensor(Site site = Site::here())
    {
        return LocalTensor<T>(kope_twin::api::queue_alloc(queue_, site));
    }
    template <typename T> KOPE_TWIN_API void AllocTensor(LocalTensor<T>& tensor, Site site = Site::here())
    {
        tensor = LocalTensor<T>(kope_twin::api::queue_alloc(queue_, site));
    }
    template <typename T> KOPE_TWIN_API void FreeTensor(LocalTensor<T>& tensor, Site site = Site::here())
    {
        kope_twin::api::queue_free(queue_, tensor.view(), site);
    }
    template <typename T> KOPE_TWIN_API bool EnQue(const LocalTensor<T>& tensor, Site site = Site::here())
    {
        return kope_twin::api::queue_enque(queue_, tensor.view(), uint8_t(source), uint8_t(target), site);
    }
    template <TPosition user_source, TPosition user_target, typename T>
    KOPE_TWIN_API bool EnQue(const LocalTensor<T>& tensor, Site site = Site::here())
    {
        return kope_twin::api::queue_enque(queue_, tensor.view(), uint8_t(user_source), uint8_t(user_target), site);
    }
    template <typename T> KOPE_TWIN_API LocalTensor<T> DeQue(Site site = Site::here())
    {
        return LocalTensor<T>(kope_twin::api::queue_deque(queue_, uint8_t(source), uint8_t(target), site));
    }
    // For a tensor that is at hand already.
    KOPE_TWIN_API TBufHandle DeQue(Site site = Site::here())
    {
        return static_cast<TBufHandle>(kope_twin::api::ub_pointer(kope_twin::api::queue_deque(queue_, uint8_t(source), uint8_t(target), site)));
    }
    template <typename T> KOPE_TWIN_API void DeQue(LocalTensor<T>& tensor, Site site = Site::here())
    {
        tensor = LocalTensor<T>(kope_twin::api::queue_deque(queue_, uint8_t(source), uint8_t(target), site));
    }
    template <TPosition user_source, TPosition user_target, typename T> KOPE_TWIN_API LocalTensor<T> DeQue(Site site = Site::here())
    {
        return LocalTensor<T>(kope_twin::api::queue_deque(queue_, uint8_t(user_source), uint8_t(user_target), site));
    }

    KOPE_TWIN_API bool VacantInQue() { return kope_twin::api::queue_waiting(queue_) < depth; }
    KOPE_TWIN_API bool HasTensorInQue() { return kope_twin::api::queue_waiting(queue_) > 0; }
    KOPE_TWIN_API int32_t GetTensorCountInQue() { return kope_twin::api::queue_waiting(queue_); }
    KOPE_TWIN_API bool HasIdleBuffer() { return kope_twin::api::queue_idle(queue_) > 0; }
    KOPE_TWIN_INLINE void FreeAllEvent() {}

    static constexpr TPosition srcPosition = source;
    static constexpr TPosition dstPosition = target;
    static constexpr int32_t queDepth = depth;
    static constexpr bool isTQue = true;

protected:
    friend class TPipe;
    int32_t queue_ = -1; // given by TPipe::InitBuffer
};

template <TPosition position, int32_t depth, auto mask = 0>
class TQue : public TQueBind<kope_twin::queue_source(position), kope_twin::queue_target(position), depth, mask> {
    static_assert(kope_twin::in_unified_buffer(position),
        "the twin has queues in the unified buffer only (VECIN, VECOUT, VECCALC); cube positions are not supported");
};

template <TPosition position = TPosition::LCM> class TBuf {
    static_assert(kope_twin::in_unified_buffer(position),
        "the twin has buffers in the unified buffer only (VECIN, VECOUT, VECCALC); cube positions are not supported");

public:
    TBuf() = default;

    template <typename T> KOPE_TWIN_API LocalTensor<T> Get() { return LocalTensor<T>(view_); }
    // `size` counts elements.
    template <typename T> KOPE_TWIN_API LocalTensor<T> Get(uint32_t size)
    {
        kope_twin::UbView part = view_;
        part.bytes = size * static_cast<uint32_t>(sizeof(T));
        return LocalTensor<T>(part);
    }
    // `size` counts elements, `offset` bytes.
    template <typename T> KOPE_TWIN_API LocalTensor<T> GetWithOffset(uint32_t size, uint32_t offset)
    {
        kope_twin::UbView part = view_;
        part.address += offset;
        part.bytes = size * static_cast<uint32_t>(sizeof(T));
        return LocalTensor<T>(part);
    }
    template <typename T> KOPE_TWIN_API LocalTensor<T> AllocTensor() { return LocalTensor<T>(view_); }
    template <typename T> KOPE_TWIN_INLINE void FreeTensor(LocalTensor<T>&) {}
    template <typename T> KOPE_TWIN_INLINE void EnQue(const LocalTensor<T>&) {}
    template <typename T> KOPE_TWIN_API LocalTensor<T> DeQue() { return LocalTensor<T>(view_); }

    static constexpr bool isTQue = false;

private:
    friend class TPipe;
    kope_twin::UbView view_;
};

class TPipe {
public:
    KOPE_TWIN_API TPipe(Site site = Site::here())
    {
        kope_twin::api::pipe_open(this, site);
    }
    KOPE_TWIN_API ~TPipe() { Destroy(); }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;

    KOPE_TWIN_API void Init(Site site = Site::here()) { kope_twin::api::pipe_open(this, site); }
    KOPE_TWIN_API void Reset(Site site = Site::here()) { kope_twin::api::pipe_reset(site); }
    KOPE_TWIN_API void Destroy(Site site = Site::here())
    {
        if (open_) {
            open_ = false;
            kope_twin::api::pipe_close(site);
        }
    }

    // Gives the queue `buffers` pieces of `bytes`, rounded up to 32.
    template <TPosition source, TPosition target, int32_t depth, auto mask>
    KOPE_TWIN_API bool InitBuffer(TQueBind<source, target, depth, mask>& queue, uint8_t buffers, uint32_t bytes, Site site = Site::here())
    {
        queue.queue_ = kope_twin::api::queue_init(uint8_t(source), uint8_t(target), depth, buffers, bytes, site);
        return queue.queue_ >= 0;
    }
    template <TPosition position> KOPE_TWIN_API bool InitBuffer(TBuf<position>& buffer, uint32_t bytes, Site site = Site::here())
    {
        buffer.view_ = kope_twin::api::buffer_init(uint8_t(position), bytes, site);
        return buffer.view_.limit != 0;
    }

    KOPE_TWIN_API TEventID FetchEventID(HardEvent event, Site site = Site::here())
    {
        return static_cast<TEventID>(kope_twin::api::fetch_event(uint8_t(event), false, site));
    }
    template <HardEvent event> KOPE_TWIN_API TEventID FetchEventID(Site site = Site::here())
    {
        return static_cast<TEventID>(kope_twin::api::fetch_event(uint8_t(event), false, site));
    }
    template <HardEvent event> KOPE_TWIN_API TEventID AllocEventID(Site site = Site::here())
    {
        return static_cast<TEventID>(kope_twin::api::fetch_event(uint8_t(event), true, site));
    }
    template <HardEvent event> KOPE_TWIN_API void ReleaseEventID(TEventID id, Site site = Site::here())
    {
        kope_twin::api::release_event(uint8_t(event), id, site);
    }

    template <TPosition position, uint32_t ids> bool InitBufPool(TBufPool<position, ids>& pool, uint32_t bytes, Site site = Site::here());
    // A pool that lies where another lies.
    template <TPosition position, uint32_t ids, TPosition other, uint32_t other_ids>
    bool InitBufPool(TBufPool<position, ids>& pool, uint32_t bytes, const TBufPool<other, other_ids>& shared, Site site = Site::here());

private:
    bool open_ = true;
};

KOPE_TWIN_INLINE TPipe* GetTPipePtr() { return static_cast<TPipe*>(kope_twin::api::pipe_current()); }

// UB addresses handed out front to back, without a pipe.
template <Hardware hardware = Hardware::UB> class LocalMemAllocator {
    static_assert(hardware == Hardware::UB, "the twin allocates in the unified buffer only");

public:
    LocalMemAllocator() = default;
    KOPE_TWIN_INLINE uint32_t GetCurAddr() const { return head_; }

    template <TPosition position, typename T, uint32_t size> KOPE_TWIN_API LocalTensor<T> Alloc(Site site = Site::here())
    {
        return take<T>(position, size, site);
    }
    template <TPosition position, typename T> KOPE_TWIN_API LocalTensor<T> Alloc(uint32_t size, Site site = Site::here())
    {
        return take<T>(position, size, site);
    }
    template <typename T, uint32_t size> KOPE_TWIN_API LocalTensor<T> Alloc(Site site = Site::here())
    {
        return take<T>(TPosition::VECCALC, size, site);
    }
    template <typename T> KOPE_TWIN_API LocalTensor<T> Alloc(uint32_t size, Site site = Site::here())
    {
        return take<T>(TPosition::VECCALC, size, site);
    }

private:
    template <typename T> KOPE_TWIN_API LocalTensor<T> take(TPosition position, uint32_t size, Site site)
    {
        const uint32_t bytes = (size * static_cast<uint32_t>(sizeof(T)) + 31U) / 32U * 32U;
        LocalTensor<T> tensor(kope_twin::api::static_alloc(uint8_t(position), head_, bytes, site));
        head_ += bytes;
        return tensor;
    }

    uint32_t head_ = 0;
};

} // namespace AscendC

using AscendC::GetTPipePtr;

#endif
