// Building the runtime's description of a vector instruction from the three call forms every API has.
#ifndef KOPE_TWIN_FORM_H
#define KOPE_TWIN_FORM_H

#include "kope_twin/tensor.h"

namespace kope_twin {

KOPE_TWIN_INLINE Form first_elements(int64_t count, bool set_mask = true)
{
    Form form;
    form.kind = set_mask ? Form::Contiguous : Form::External;
    form.count = count > 0 ? static_cast<uint32_t>(count) : 0U;
    form.repeat = set_mask ? 1 : static_cast<int32_t>(count);
    return form;
}

// The mask is a number (the first elements of every repeat) or an array of two words (bit by bit).
KOPE_TWIN_INLINE Form masked(uint64_t mask, bool set_mask, int32_t repeat)
{
    Form form;
    form.kind = set_mask ? Form::Prefix : Form::External;
    form.mask[0] = mask;
    form.repeat = repeat;
    return form;
}
template <typename Word> KOPE_TWIN_INLINE Form masked_bits(const Word* mask, bool set_mask, int32_t repeat, size_t largest_element)
{
    Form form;
    form.kind = set_mask ? Form::Bits : Form::External;
    if (set_mask) { // the second word matters for 16-bit elements only, and may not exist for wider ones
        form.mask[0] = mask[0];
        form.mask[1] = largest_element <= 2 ? mask[1] : 0;
    }
    form.repeat = repeat;
    return form;
}

KOPE_TWIN_INLINE Form& with(Form& form, const AscendC::UnaryRepeatParams& params)
{
    form.block_stride[0] = params.dstBlkStride;
    form.block_stride[1] = params.srcBlkStride;
    form.repeat_stride[0] = params.dstRepStride;
    form.repeat_stride[1] = params.srcRepStride;
    return form;
}

KOPE_TWIN_INLINE Form& with(Form& form, const AscendC::BinaryRepeatParams& params)
{
    form.block_stride[0] = params.dstBlkStride;
    form.block_stride[1] = params.src0BlkStride;
    form.block_stride[2] = params.src1BlkStride;
    form.repeat_stride[0] = params.dstRepStride;
    form.repeat_stride[1] = params.src0RepStride;
    form.repeat_stride[2] = params.src1RepStride;
    return form;
}

// Scalars of the type the element type is converted from and to without loss.
KOPE_TWIN_INLINE VectorCall call_of(const char* name, Op op, Dtype dst_type, Dtype src_type, Site site)
{
    VectorCall call{};
    call.name = name;
    call.op = op;
    call.dst_type = dst_type;
    call.src_type = src_type;
    call.site = site;
    return call;
}

} // namespace kope_twin

#endif
