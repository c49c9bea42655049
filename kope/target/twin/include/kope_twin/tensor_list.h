// ListTensorDesc: the list of tensors that a dynamic input of an operator is.
#ifndef KOPE_TWIN_TENSOR_LIST_H
#define KOPE_TWIN_TENSOR_LIST_H

#include "kope_candidate.h"
#include "kope_twin/tensor.h"

namespace AscendC {

template <typename T> class TensorDesc {
public:
    void SetShapeAddr(uint64_t* shape) { shape_ = shape; }
    uint64_t GetDim() const { return static_cast<uint64_t>(tensor_ != nullptr ? tensor_->rank : 0); }
    uint64_t GetShape(uint32_t axis) const { return static_cast<uint64_t>(tensor_->shape[axis]); }
    T* GetDataPtr() const { return static_cast<T*>(tensor_ != nullptr ? tensor_->data : nullptr); }
    GlobalTensor<T> GetDataObj() const
    {
        GlobalTensor<T> result;
        result.SetGlobalBuffer(GetDataPtr());
        return result;
    }
    void set(const KopeTensor* tensor)
    {
        tensor_ = tensor;
        for (int32_t axis = 0; shape_ != nullptr && axis < tensor->rank; ++axis) {
            shape_[axis] = static_cast<uint64_t>(tensor->shape[axis]);
        }
    }

private:
    const KopeTensor* tensor_ = nullptr;
    uint64_t* shape_ = nullptr;
};

// What the launch made: byte offset of the addresses, their number, the addresses, 256 words on what they belong to.
class ListTensorDesc {
public:
    ListTensorDesc() = default;
    KOPE_TWIN_INLINE ListTensorDesc(void* data, uint32_t length = 0xffffffff, uint32_t shapeSize = 0xffffffff) { Init(data, length, shapeSize); }
    KOPE_TWIN_INLINE void Init(void* data, uint32_t = 0xffffffff, uint32_t = 0xffffffff) { words_ = static_cast<const uint64_t*>(data); }
    KOPE_TWIN_INLINE uint32_t GetSize() const { return static_cast<uint32_t>(words_[1]); }
    template <typename T> KOPE_TWIN_INLINE T* GetDataPtr(const uint32_t index) const { return reinterpret_cast<T*>(words_[2 + index]); }
    template <typename T> KOPE_TWIN_INLINE void GetDesc(TensorDesc<T>& desc, uint32_t index) const
    {
        desc.set(reinterpret_cast<const KopeTensor*>(words_[2 + 256 + index]));
    }

private:
    const uint64_t* words_ = nullptr;
};

} // namespace AscendC

#endif
