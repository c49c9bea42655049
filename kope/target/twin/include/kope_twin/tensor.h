// GlobalTensor and LocalTensor: typed views of device memory and of the unified buffer.
#ifndef KOPE_TWIN_TENSOR_H
#define KOPE_TWIN_TENSOR_H

#include "kope_twin/params.h"
#include "kope_twin/runtime_api.h"

namespace kope_twin {

template <typename T> KOPE_TWIN_INLINE uint64_t bits_of(T value)
{
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <typename T> KOPE_TWIN_INLINE T from_bits(uint64_t bits)
{
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

} // namespace kope_twin

namespace AscendC {

using kope_twin::Site;

template <typename T> class LocalTensor;

// One element of UB or device memory that scalar code reads or assigns: what tensor(i) stands for.
template <typename T> class LocalElement {
public:
    KOPE_TWIN_INLINE LocalElement(const kope_twin::UbView& view, uint32_t index, Site site) : view_(view), index_(index), site_(site) {}
    KOPE_TWIN_API operator T() const
    {
        return kope_twin::from_bits<T>(kope_twin::api::ub_get(view_, uint64_t(index_) * sizeof(T), kope_twin::dtype_of<T>, site_));
    }
    KOPE_TWIN_API const LocalElement& operator=(T value) const
    {
        kope_twin::api::ub_set(view_, uint64_t(index_) * sizeof(T), sizeof(T), kope_twin::bits_of(value), site_);
        return *this;
    }
    KOPE_TWIN_API const LocalElement& operator=(const LocalElement& other) const { return *this = static_cast<T>(other); }

private:
    const kope_twin::UbView& view_;
    uint32_t index_;
    Site site_;
};

template <typename T> class LocalTensor {
    static_assert(kope_twin::dtype_of<T> != kope_twin::Dtype::None, "LocalTensor: element type unknown to the twin");

public:
    using PrimType = T;

    LocalTensor() = default;
    KOPE_TWIN_INLINE explicit LocalTensor(const kope_twin::UbView& view) : view_(view) {}
    // A tensor at a fixed UB address; `size` counts elements.
    KOPE_TWIN_API LocalTensor(TPosition position, uint32_t address, uint32_t size, Site site = Site::here())
        : view_(kope_twin::api::static_alloc(static_cast<uint8_t>(position), address, size * sizeof(T), site))
    {
    }

    // What operators between whole tensors give (expressions.h).
    template <typename Expression, typename = typename Expression::Element> KOPE_TWIN_API LocalTensor& operator=(const Expression& expression)
    {
        expression.into(*this, Site{"", 0, __builtin_return_address(0)});
        return *this;
    }

    KOPE_TWIN_INLINE LocalTensor operator[](uint32_t offset) const
    {
        LocalTensor part = *this;
        const uint32_t skipped = offset * static_cast<uint32_t>(sizeof(T));
        part.view_.address += skipped;
        part.view_.bytes = skipped < view_.bytes ? view_.bytes - skipped : 0;
        return part;
    }

    KOPE_TWIN_API T GetValue(uint32_t index, Site site = Site::here()) const
    {
        return kope_twin::from_bits<T>(kope_twin::api::ub_get(view_, uint64_t(index) * sizeof(T), kope_twin::dtype_of<T>, site));
    }

    template <typename S> KOPE_TWIN_API void SetValue(uint32_t index, S value, Site site = Site::here()) const
    {
        kope_twin::api::ub_set(view_, uint64_t(index) * sizeof(T), sizeof(T), kope_twin::bits_of(static_cast<T>(value)), site);
    }

    KOPE_TWIN_INLINE LocalElement<T> operator()(uint32_t index, Site site = Site::here()) const { return {view_, index, site}; }

    template <typename U> KOPE_TWIN_INLINE LocalTensor<U> ReinterpretCast() const { return LocalTensor<U>(view_); }

    // A raw address: neither the host nor device code of the twin can follow it; only API functions can.
    KOPE_TWIN_API T* GetPhyAddr() const { return static_cast<T*>(kope_twin::api::ub_pointer(view_)); }
    KOPE_TWIN_API T* GetPhyAddr(uint32_t offset) const { return static_cast<T*>(kope_twin::api::ub_pointer((*this)[offset].view_)); }

    KOPE_TWIN_INLINE int32_t GetPosition() const { return view_.position; }
    KOPE_TWIN_INLINE uint32_t GetSize() const { return view_.bytes / static_cast<uint32_t>(sizeof(T)); }
    KOPE_TWIN_INLINE uint32_t GetLength() const { return view_.bytes; }
    KOPE_TWIN_INLINE void SetSize(uint32_t size) { view_.bytes = size * static_cast<uint32_t>(sizeof(T)); }
    KOPE_TWIN_INLINE void SetBufferLen(uint32_t bytes) { view_.bytes = bytes; }

    template <typename S> KOPE_TWIN_INLINE void SetAddrWithOffset(LocalTensor<S>& source, uint32_t offset)
    {
        view_ = source.view();
        view_.address += offset * static_cast<uint32_t>(sizeof(S));
    }

    KOPE_TWIN_INLINE const kope_twin::UbView& view() const { return view_; }

private:
    kope_twin::UbView view_;
};

template <typename T> class GlobalElement {
public:
    KOPE_TWIN_INLINE GlobalElement(T* base, uint64_t index, Site site) : base_(base), index_(index), site_(site) {}
    KOPE_TWIN_API operator T() const
    {
        return kope_twin::from_bits<T>(kope_twin::api::gm_get(base_, index_ * sizeof(T), kope_twin::dtype_of<T>, site_));
    }
    KOPE_TWIN_API const GlobalElement& operator=(T value) const
    {
        kope_twin::api::gm_set(base_, index_ * sizeof(T), sizeof(T), kope_twin::bits_of(value), site_);
        return *this;
    }

private:
    T* base_;
    uint64_t index_;
    Site site_;
};

template <typename T> class GlobalTensor {
    static_assert(kope_twin::dtype_of<T> != kope_twin::Dtype::None, "GlobalTensor: element type unknown to the twin");

public:
    using PrimType = T;

    GlobalTensor() = default;

    // `size` counts elements. It is informative, as on the device: bounds are those of the memory behind the address.
    KOPE_TWIN_INLINE void SetGlobalBuffer(T* buffer, uint64_t size)
    {
        address_ = buffer;
        size_ = size;
    }
    KOPE_TWIN_INLINE void SetGlobalBuffer(T* buffer) { SetGlobalBuffer(buffer, 0); }

    KOPE_TWIN_INLINE GlobalTensor operator[](uint64_t offset) const
    {
        GlobalTensor part;
        part.address_ = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(address_) + offset * sizeof(T));
        part.size_ = size_;
        return part;
    }

    KOPE_TWIN_API T GetValue(uint64_t offset, Site site = Site::here()) const
    {
        return kope_twin::from_bits<T>(kope_twin::api::gm_get(address_, offset * sizeof(T), kope_twin::dtype_of<T>, site));
    }
    KOPE_TWIN_API void SetValue(uint64_t offset, T value, Site site = Site::here())
    {
        kope_twin::api::gm_set(address_, offset * sizeof(T), sizeof(T), kope_twin::bits_of(value), site);
    }
    KOPE_TWIN_INLINE GlobalElement<T> operator()(uint64_t offset, Site site = Site::here()) const { return {address_, offset, site}; }

    KOPE_TWIN_INLINE const T* GetPhyAddr() const { return address_; }
    KOPE_TWIN_INLINE T* GetPhyAddr(uint64_t offset) const { return (*this)[offset].address_; }
    KOPE_TWIN_INLINE uint64_t GetSize() const { return size_; }
    template <CacheRwMode mode = CacheRwMode::RW> KOPE_TWIN_INLINE void SetL2CacheHint(CacheMode) {}

private:
    T* address_ = nullptr;
    uint64_t size_ = 0;
};

} // namespace AscendC

#endif
