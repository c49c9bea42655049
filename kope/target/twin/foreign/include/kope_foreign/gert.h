// The part of the graph engine's host interface that tiling functions of vector operators use: shapes, types, attributes in,
// tiling data, key, blocks and workspace out; and operator definitions, for the order and defaults of attributes.
#ifndef KOPE_FOREIGN_GERT_H
#define KOPE_FOREIGN_GERT_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "kope_foreign/bridge.h"
#include "kope_foreign/platform.h"
#include "kope_foreign/tiling_data.h"

namespace ge {

enum DataType {
    DT_FLOAT = 0,
    DT_FLOAT16 = 1,
    DT_INT8 = 2,
    DT_INT32 = 3,
    DT_UINT8 = 4,
    DT_INT16 = 6,
    DT_UINT16 = 7,
    DT_UINT32 = 8,
    DT_INT64 = 9,
    DT_UINT64 = 10,
    DT_DOUBLE = 11,
    DT_BOOL = 12,
    DT_STRING = 13,
    DT_COMPLEX64 = 16,
    DT_COMPLEX128 = 17,
    DT_QINT8 = 18,
    DT_BF16 = 27,
    DT_UNDEFINED = 28,
    DT_INT4 = 29,
    DT_UINT1 = 30,
    DT_INT2 = 31,
    DT_COMPLEX32 = 33,
    DT_HIFLOAT8 = 34,
    DT_FLOAT8_E5M2 = 35,
    DT_FLOAT8_E4M3FN = 36,
    DT_FLOAT8_E8M0 = 37,
    DT_FLOAT4_E2M1 = 40,
    DT_FLOAT4_E1M2 = 41,
    DT_MAX
};

enum Format { FORMAT_NCHW = 0, FORMAT_NHWC, FORMAT_ND, FORMAT_NC1HWC0, FORMAT_FRACTAL_Z, FORMAT_FRACTAL_NZ = 29, FORMAT_NCDHW = 30, FORMAT_NDHWC = 27, FORMAT_NDC1HWC0 = 32 };

using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xffffffffU;
constexpr graphStatus GRAPH_PARAM_INVALID = 50331649;

inline int32_t GetSizeByDataType(DataType type)
{
    switch (type) {
        case DT_FLOAT:
        case DT_INT32:
        case DT_UINT32:
            return 4;
        case DT_FLOAT16:
        case DT_BF16:
        case DT_INT16:
        case DT_UINT16:
            return 2;
        case DT_INT64:
        case DT_UINT64:
        case DT_DOUBLE:
        case DT_COMPLEX64:
            return 8;
        case DT_COMPLEX128:
            return 16;
        default:
            return 1;
    }
}

struct Shape {
    Shape() = default;
    explicit Shape(std::vector<int64_t> extents) : dims(std::move(extents)) {}
    size_t GetDimNum() const { return dims.size(); }
    int64_t GetDim(size_t axis) const { return dims[axis]; }
    void SetDim(size_t axis, int64_t extent) { dims[axis] = extent; }
    std::vector<int64_t> GetDims() const { return dims; }
    int64_t GetShapeSize() const
    {
        int64_t count = 1;
        for (const int64_t extent : dims) {
            count *= extent;
        }
        return count;
    }
    std::vector<int64_t> dims;
};

class TypeUtils {
public:
    static std::string DataTypeToSerialString(DataType type) { return "dtype " + std::to_string(type); }
    static bool GetDataTypeLength(DataType type, uint32_t& bytes)
    {
        bytes = static_cast<uint32_t>(GetSizeByDataType(type));
        return true;
    }
};

} // namespace ge

namespace gert {

class Shape : public ge::Shape {
public:
    Shape() = default;
    Shape(std::initializer_list<int64_t> extents) : ge::Shape(std::vector<int64_t>(extents)) {}
    explicit Shape(std::vector<int64_t> extents) : ge::Shape(std::move(extents)) {}
    bool IsScalar() const { return dims.empty(); }
    int64_t operator[](size_t axis) const { return dims[axis]; }
    int64_t& operator[](size_t axis) { return dims[axis]; }
    void SetDimNum(size_t rank) { dims.resize(rank); }
    Shape& AppendDim(int64_t extent)
    {
        dims.push_back(extent);
        return *this;
    }
    bool operator==(const Shape& other) const { return dims == other.dims; }
    bool operator!=(const Shape& other) const { return dims != other.dims; }
};

struct StorageShape {
    Shape shape;
    const Shape& GetStorageShape() const { return shape; }
    const Shape& GetOriginShape() const { return shape; }
    Shape& MutableStorageShape() { return shape; }
};

struct CompileTimeTensorDesc {
    ge::DataType type = ge::DT_FLOAT;
    ge::DataType GetDataType() const { return type; }
    ge::Format GetStorageFormat() const { return ge::FORMAT_ND; }
    ge::Format GetOriginFormat() const { return ge::FORMAT_ND; }
    const CompileTimeTensorDesc& GetFormat() const { return *this; }
};

struct Tensor : StorageShape, CompileTimeTensorDesc {
    int64_t GetShapeSize() const { return shape.GetShapeSize(); }
    const StorageShape& GetShape() const { return *this; }
    size_t GetSize() const { return static_cast<size_t>(GetShapeSize() * ge::GetSizeByDataType(type)); }
    template <typename T> const T* GetData() const { return nullptr; } // values are on the device
};

struct TypedVector {
    std::vector<int64_t> values;
    size_t GetSize() const { return values.size(); }
    const int64_t* GetData() const { return values.data(); }
};

class RuntimeAttrs {
public:
    struct Value {
        double real = 0.0;
        int64_t integer = 0;
        float narrow = 0.0F;
        bool truth = false;
        std::string text;
        TypedVector list;
    };
    size_t GetAttrNum() const { return values.size(); }
    template <typename T> const T* GetAttrPointer(size_t index) const
    {
        if (index >= values.size()) {
            return nullptr;
        }
        const Value& value = values[index];
        if constexpr (std::is_same_v<T, bool>) {
            return &value.truth;
        } else if constexpr (std::is_same_v<T, float>) {
            return &value.narrow;
        } else if constexpr (std::is_floating_point_v<T>) {
            return &value.real;
        } else if constexpr (std::is_same_v<T, char>) {
            return value.text.c_str();
        } else if constexpr (std::is_same_v<T, TypedVector>) {
            return &value.list;
        } else {
            static_assert(sizeof(T) <= sizeof(int64_t), "attribute type");
            return reinterpret_cast<const T*>(&value.integer);
        }
    }
    const float* GetFloat(size_t index) const { return GetAttrPointer<float>(index); }
    const int64_t* GetInt(size_t index) const { return GetAttrPointer<int64_t>(index); }
    const bool* GetBool(size_t index) const { return GetAttrPointer<bool>(index); }
    const char* GetStr(size_t index) const { return GetAttrPointer<char>(index); }
    const TypedVector* GetListInt(size_t index) const { return GetAttrPointer<TypedVector>(index); }
    std::vector<Value> values;
};

class TilingData {
public:
    void* GetData() { return tiling->data; }
    size_t GetCapacity() const { return sizeof(tiling->data); }
    void SetDataSize(size_t size) { used = size; }
    size_t GetDataSize() const { return used; }
    template <typename T> uint32_t Append(const T& value)
    {
        std::memcpy(tiling->data + used, &value, sizeof(T));
        used += sizeof(T);
        return ge::GRAPH_SUCCESS;
    }
    kope_foreign::Tiling* tiling = nullptr;
    size_t used = 0;
};

class TilingContext {
public:
    const char* GetNodeName() const { return "operator"; }
    const char* GetNodeType() const { return "operator"; }
    fe::PlatFormInfos* GetPlatformInfo() const { return const_cast<fe::PlatFormInfos*>(&platform); }
    template <typename T> const T* GetCompileInfo() const
    {
        static T info{};
        return &info;
    }
    const void* GetCompileInfo() const { return &platform; }
    size_t GetComputeNodeInputNum() const { return inputs.size(); }
    size_t GetComputeNodeOutputNum() const { return outputs.size(); }
    const Tensor* GetInputTensor(size_t index) const { return at(inputs, index); }
    const StorageShape* GetInputShape(size_t index) const { return at(inputs, index); }
    const CompileTimeTensorDesc* GetInputDesc(size_t index) const { return at(inputs, index); }
    const Tensor* GetRequiredInputTensor(size_t index) const { return of(index, 0); }
    const StorageShape* GetRequiredInputShape(size_t index) const { return of(index, 0); }
    const CompileTimeTensorDesc* GetRequiredInputDesc(size_t index) const { return of(index, 0); }
    const Tensor* GetOptionalInputTensor(size_t index) const { return of(index, 0); }
    const StorageShape* GetOptionalInputShape(size_t index) const { return of(index, 0); }
    const CompileTimeTensorDesc* GetOptionalInputDesc(size_t index) const { return of(index, 0); }
    const Tensor* GetDynamicInputTensor(size_t input, size_t index) const { return of(input, index); }
    const StorageShape* GetDynamicInputShape(size_t input, size_t index) const { return of(input, index); }
    const CompileTimeTensorDesc* GetDynamicInputDesc(size_t input, size_t index) const { return of(input, index); }
    const StorageShape* GetOutputShape(size_t index) const { return at(outputs, index); }
    const CompileTimeTensorDesc* GetOutputDesc(size_t index) const { return at(outputs, index); }
    const RuntimeAttrs* GetAttrs() const { return &attrs; }
    TilingData* GetRawTilingData() { return &raw; }
    template <typename T> T* GetTilingData()
    {
        raw.used = sizeof(T);
        return new (raw.tiling->data) T();
    }
    size_t* GetWorkspaceSizes(size_t count)
    {
        workspaces.assign(count, 0);
        return workspaces.data();
    }
    ge::graphStatus SetBlockDim(uint32_t blocks)
    {
        raw.tiling->blocks = blocks;
        return ge::GRAPH_SUCCESS;
    }
    ge::graphStatus SetNumBlocks(uint32_t blocks) { return SetBlockDim(blocks); }
    uint32_t GetBlockDim() const { return raw.tiling->blocks; }
    ge::graphStatus SetTilingKey(uint64_t key)
    {
        raw.tiling->key = key;
        return ge::GRAPH_SUCCESS;
    }
    uint64_t GetTilingKey() const { return raw.tiling->key; }
    ge::graphStatus SetScheduleMode(uint32_t) { return ge::GRAPH_SUCCESS; }
    ge::graphStatus SetNeedAtomic(bool) { return ge::GRAPH_SUCCESS; }
    ge::graphStatus SetLocalMemorySize(uint32_t) { return ge::GRAPH_SUCCESS; }

    fe::PlatFormInfos platform;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    std::vector<bool> absent;
    std::vector<size_t> lengths; // tensors of each input of the definition; several where it is dynamic
    RuntimeAttrs attrs;
    TilingData raw;
    std::vector<size_t> workspaces;

private:
    // A tensor of an input as the definition counts them.
    const Tensor* of(size_t input, size_t index) const
    {
        size_t first = 0;
        for (size_t k = 0; k < input && k < lengths.size(); ++k) {
            first += lengths[k];
        }
        return input < lengths.size() && index < lengths[input] ? at(inputs, first + index) : nullptr;
    }
    const Tensor* at(const std::vector<Tensor>& list, size_t index) const
    {
        if (index >= list.size() || (&list == &inputs && absent[index])) {
            return nullptr;
        }
        return &list[index];
    }
};

// What shape and type inference is given. It is compiled, never called.
struct InferShapeContext {
    const Shape* GetInputShape(size_t) const { return nullptr; }
    const Shape* GetOptionalInputShape(size_t) const { return nullptr; }
    const Shape* GetDynamicInputShape(size_t, size_t) const { return nullptr; }
    Shape* GetOutputShape(size_t) { return nullptr; }
    const RuntimeAttrs* GetAttrs() const { return nullptr; }
    const char* GetNodeName() const { return ""; }
    const Tensor* GetInputTensor(size_t) const { return nullptr; }
    const CompileTimeTensorDesc* GetInputDesc(size_t) const { return nullptr; }
    size_t GetComputeNodeInputNum() const { return 0; }
    size_t GetComputeNodeOutputNum() const { return 0; }
};
struct InferDataTypeContext {
    ge::DataType GetInputDataType(size_t) const { return ge::DT_FLOAT; }
    ge::DataType GetDynamicInputDataType(size_t, size_t) const { return ge::DT_FLOAT; }
    ge::DataType GetOptionalInputDataType(size_t) const { return ge::DT_FLOAT; }
    ge::graphStatus SetOutputDataType(size_t, ge::DataType) { return ge::GRAPH_SUCCESS; }
    const RuntimeAttrs* GetAttrs() const { return nullptr; }
    const char* GetNodeName() const { return ""; }
};
struct InferShapeRangeContext {};
struct TilingParseContext {
    template <typename T> T* GetCompiledInfo() { return nullptr; }
    fe::PlatFormInfos* GetPlatformInfo() const { return nullptr; }
    const char* GetNodeName() const { return ""; }
};

} // namespace gert

namespace kope_foreign {

using TilingFunction = ge::graphStatus (*)(gert::TilingContext*);
inline TilingFunction tiling_function = nullptr;

struct AttrDefault {
    std::string name;
    gert::RuntimeAttrs::Value value;
};
inline std::vector<AttrDefault> attr_defaults;

} // namespace kope_foreign

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };
using ParamTypeOption = Option;

namespace ops {

using ::DYNAMIC;
using ::OPTIONAL;
using ::REQUIRED;

class OpParamDef {
public:
    OpParamDef& ParamType(Option) { return *this; }
    OpParamDef& DataType(std::vector<ge::DataType>) { return *this; }
    OpParamDef& DataTypeList(std::vector<ge::DataType>) { return *this; }
    OpParamDef& Format(std::vector<ge::Format>) { return *this; }
    OpParamDef& FormatList(std::vector<ge::Format>) { return *this; }
    OpParamDef& UnknownShapeFormat(std::vector<ge::Format>) { return *this; }
    OpParamDef& ValueDepend(Option) { return *this; }
    OpParamDef& IgnoreContiguous() { return *this; }
    OpParamDef& AutoContiguous() { return *this; }
    OpParamDef& Scalar() { return *this; }
    OpParamDef& ScalarList() { return *this; }
    OpParamDef& To(ge::DataType) { return *this; }
    OpParamDef& To(const char*) { return *this; }
    OpParamDef& InitValue(uint64_t) { return *this; }
    OpParamDef& OutputShapeDependOnCompute() { return *this; }
    OpParamDef& Follow(const char*) { return *this; }
};

class OpAttrDef {
public:
    explicit OpAttrDef(size_t index) : index_(index) {}
    OpAttrDef& AttrType(Option) { return *this; }
    OpAttrDef& Bool(bool value = false) { return set(value, value); }
    OpAttrDef& Float(float value = 0.0F) { return set(static_cast<int64_t>(value), value); }
    OpAttrDef& Int(int64_t value = 0) { return set(value, static_cast<double>(value)); }
    OpAttrDef& String(const char* value = "")
    {
        mine().text = value;
        return *this;
    }
    OpAttrDef& ListInt(std::vector<int64_t> values = {})
    {
        mine().list.values = std::move(values);
        return *this;
    }
    OpAttrDef& ListFloat(std::vector<float> = {}) { return *this; }
    OpAttrDef& ListBool(std::vector<bool> = {}) { return *this; }

private:
    gert::RuntimeAttrs::Value& mine() { return kope_foreign::attr_defaults[index_].value; }
    OpAttrDef& set(int64_t integer, double real)
    {
        gert::RuntimeAttrs::Value& value = mine();
        value.integer = integer;
        value.real = real;
        value.narrow = static_cast<float>(real);
        value.truth = integer != 0;
        return *this;
    }
    size_t index_;
};

class OpAICoreConfig {
public:
    OpParamDef& Input(const char*) { return param_; }
    OpParamDef& Output(const char*) { return param_; }
    OpAICoreConfig& DynamicCompileStaticFlag(bool) { return *this; }
    OpAICoreConfig& DynamicFormatFlag(bool) { return *this; }
    OpAICoreConfig& DynamicRankSupportFlag(bool) { return *this; }
    OpAICoreConfig& DynamicShapeSupportFlag(bool) { return *this; }
    OpAICoreConfig& NeedCheckSupportFlag(bool) { return *this; }
    OpAICoreConfig& PrecisionReduceFlag(bool) { return *this; }
    OpAICoreConfig& ExtendCfgInfo(const char*, const char*) { return *this; }

private:
    OpParamDef param_;
};

class OpAICoreDef {
public:
    OpAICoreDef& SetTiling(kope_foreign::TilingFunction function)
    {
        kope_foreign::tiling_function = function;
        return *this;
    }
    template <typename Function> OpAICoreDef& SetCheckSupport(Function) { return *this; }
    template <typename Function> OpAICoreDef& SetOpSelectFormat(Function) { return *this; }
    OpAICoreDef& AddConfig(const char*) { return *this; }
    OpAICoreDef& AddConfig(const char*, OpAICoreConfig&) { return *this; }
};

class OpDef {
public:
    explicit OpDef(const char*) { kope_foreign::attr_defaults.clear(); }
    OpParamDef& Input(const char*) { return param_; }
    OpParamDef& Output(const char*) { return param_; }
    OpAttrDef Attr(const char* name)
    {
        kope_foreign::attr_defaults.push_back({name, {}});
        return OpAttrDef(kope_foreign::attr_defaults.size() - 1);
    }
    template <typename Function> OpDef& SetInferShape(Function) { return *this; }
    template <typename Function> OpDef& SetInferDataType(Function) { return *this; }
    template <typename Function> OpDef& SetInferShapeRange(Function) { return *this; }
    OpAICoreDef& AICore() { return core_; }
    struct Collective {
        Collective& HcclGroup(const char*) { return *this; }
    };
    Collective MC2() { return {}; }
    OpDef& FormatMatchMode(Option) { return *this; }

private:
    OpParamDef param_;
    OpAICoreDef core_;
};

} // namespace ops

namespace kope_foreign {

template <typename Def> struct RegisteredDef {
    explicit RegisteredDef(const char* name) { Def definition(name); }
};

// IMPL_OP_OPTILING(Op).Tiling(function).TilingParse<Info>(parse)
struct RegisteredTiling {
    RegisteredTiling& Tiling(TilingFunction function)
    {
        tiling_function = function;
        return *this;
    }
    template <typename Info, typename Function> RegisteredTiling& TilingParse(Function) { return *this; }
    template <typename Function> RegisteredTiling& InferShape(Function) { return *this; }
    template <typename Function> RegisteredTiling& InferDataType(Function) { return *this; }
    RegisteredTiling& TilingInputsDataDependency(std::initializer_list<int32_t>) { return *this; }
    RegisteredTiling& InputsDataDependency(std::initializer_list<int32_t>) { return *this; }
};

} // namespace kope_foreign

#define OP_ADD(NAME, ...) static ::kope_foreign::RegisteredDef<NAME> kope_registered_##NAME(#NAME)
#define IMPL_OP_OPTILING(NAME) static ::kope_foreign::RegisteredTiling kope_tiling_##NAME = ::kope_foreign::RegisteredTiling()
#define IMPL_OP_INFERSHAPE(NAME) static ::kope_foreign::RegisteredTiling kope_shape_##NAME = ::kope_foreign::RegisteredTiling()
#define IMPL_OP(NAME) static ::kope_foreign::RegisteredTiling kope_op_##NAME = ::kope_foreign::RegisteredTiling()

// Logging of host code: errors are shown, the rest is not.
#define OP_LOGE(NAME, ...) (std::fprintf(stderr, "tiling: "), std::fprintf(stderr, __VA_ARGS__), std::fprintf(stderr, "\n"))
#define OP_LOGW(...) ((void)0)
#define OP_LOGI(...) ((void)0)
#define OP_LOGD(...) ((void)0)
#define VECTOR_INNER_ERR_REPORT_TILIING(NAME, ...) OP_LOGE(NAME, __VA_ARGS__)
#define OP_TILING_CHECK(CONDITION, LOG, LEAVE)                                                                                             \
    do {                                                                                                                                   \
        if (CONDITION) {                                                                                                                   \
            LOG;                                                                                                                           \
            LEAVE;                                                                                                                         \
        }                                                                                                                                  \
    } while (0)
#define OP_CHECK_IF(CONDITION, LOG, LEAVE) OP_TILING_CHECK(CONDITION, LOG, LEAVE)
#define OP_CHECK(CONDITION, LOG, LEAVE) OP_TILING_CHECK(CONDITION, LOG, LEAVE)
#define OPS_CHECK(CONDITION, LOG, LEAVE) OP_TILING_CHECK(CONDITION, LOG, LEAVE)
#define OPS_CHECK_NULL_WITH_CONTEXT(CONTEXT, POINTER)                                                                                      \
    if ((POINTER) == nullptr) {                                                                                                            \
        std::fprintf(stderr, "tiling: %s is null\n", #POINTER);                                                                            \
        return ge::GRAPH_FAILED;                                                                                                           \
    }
#define OP_CHECK_NULL_WITH_CONTEXT(CONTEXT, POINTER) OPS_CHECK_NULL_WITH_CONTEXT(CONTEXT, POINTER)
#define OPS_LOG_E_IF_NULL(CONTEXT, POINTER, LEAVE)                                                                                         \
    if ((POINTER) == nullptr) {                                                                                                            \
        LEAVE;                                                                                                                             \
    }
#define OPS_LOG_E(...) OP_LOGE(__VA_ARGS__)
#define OPS_LOG_I(...) ((void)0)
#define OPS_LOG_D(...) ((void)0)
#define OPS_LOG_W(...) ((void)0)

#endif
