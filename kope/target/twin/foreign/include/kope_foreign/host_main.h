// Ends the host half of an operator project: calls its tiling function with what a call carries. Included once, last.
#ifndef KOPE_FOREIGN_HOST_MAIN_H
#define KOPE_FOREIGN_HOST_MAIN_H

#include "kope_foreign/gert.h"

namespace kope_foreign {

inline gert::Tensor described(const KopeTensor& tensor)
{
    static const ge::DataType types[] = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16, ge::DT_INT8, ge::DT_UINT8, ge::DT_INT32, ge::DT_INT64, ge::DT_BOOL, ge::DT_INT16};
    gert::Tensor result;
    result.type = types[tensor.dtype];
    result.shape = gert::Shape(std::vector<int64_t>(tensor.shape, tensor.shape + tensor.rank));
    return result;
}

inline void set_attr(gert::RuntimeAttrs::Value& value, const KopeAttr& given)
{
    switch (given.kind) {
        case KOPE_ATTR_FLOAT:
            value.real = given.f;
            value.integer = static_cast<int64_t>(given.f);
            break;
        case KOPE_ATTR_STRING:
            value.text = given.s;
            break;
        case KOPE_ATTR_LIST:
            value.list.values.assign(given.ints, given.ints + given.count);
            break;
        default:
            value.integer = given.i;
            value.real = static_cast<double>(given.i);
    }
    value.narrow = static_cast<float>(value.real);
    value.truth = value.integer != 0;
}

int host_tiling(const KopeCall* call, const int* lengths, int count, Tiling& tiling)
{
    if (tiling_function == nullptr) {
        std::fprintf(stderr, "tiling: the project registers no tiling function\n");
        return 1;
    }
    gert::TilingContext context;
    context.raw.tiling = &tiling;
    context.lengths.assign(lengths, lengths + count);
    for (int32_t k = 0; k < call->input_count; ++k) {
        context.inputs.push_back(described(call->inputs[k]));
        context.absent.push_back(call->inputs[k].data == nullptr && call->inputs[k].numel == 0 && call->inputs[k].rank == 0);
    }
    for (int32_t k = 0; k < call->output_count; ++k) {
        context.outputs.push_back(described(call->outputs[k]));
    }
    for (const AttrDefault& known : attr_defaults) {
        context.attrs.values.push_back(known.value);
    }
    for (int32_t k = 0; k < call->attr_count; ++k) {
        size_t at = attr_defaults.empty() ? static_cast<size_t>(k) : 0;
        while (at < attr_defaults.size() && attr_defaults[at].name != call->attrs[k].name) {
            ++at;
        }
        if (attr_defaults.empty()) {
            context.attrs.values.emplace_back();
        }
        if (at < context.attrs.values.size()) {
            set_attr(context.attrs.values[at], call->attrs[k]);
        }
    }
    if (tiling_function(&context) != ge::GRAPH_SUCCESS) {
        std::fprintf(stderr, "tiling: the project's tiling function failed\n");
        return 2;
    }
    for (const size_t bytes : context.workspaces) {
        tiling.workspace_bytes += bytes;
    }
    return 0;
}

} // namespace kope_foreign

#endif
