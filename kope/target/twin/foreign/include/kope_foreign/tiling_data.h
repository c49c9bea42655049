// Tiling structs as operator projects declare them: plain members, with the accessors that tiling functions use.
// The same declaration serves the host half and the kernel, so both see one layout.
#ifndef KOPE_FOREIGN_TILING_DATA_H
#define KOPE_FOREIGN_TILING_DATA_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kope_twin/library_tiling.h"

namespace kope_foreign {

template <typename Self> struct TilingAccess {
    void SaveToBuffer(void* to, size_t room) const
    {
        std::memcpy(to, static_cast<const Self*>(this), sizeof(Self) < room ? sizeof(Self) : room);
    }
    size_t GetDataSize() const { return sizeof(Self); }
    void SetDataPtr(void* from) { std::memcpy(static_cast<Self*>(this), from, sizeof(Self)); }
    const char* GetTilingClassName() const { return ""; }
};

} // namespace kope_foreign

#define BEGIN_TILING_DATA_DEF(NAME) struct NAME : ::kope_foreign::TilingAccess<NAME> {
#define TILING_DATA_FIELD_DEF(TYPE, NAME)                                                                                                  \
    TYPE NAME{};                                                                                                                           \
    void set_##NAME(TYPE value) { NAME = value; }                                                                                          \
    TYPE get_##NAME() const { return NAME; }
#define TILING_DATA_FIELD_DEF_ARR(TYPE, COUNT, NAME)                                                                                       \
    TYPE NAME[COUNT]{};                                                                                                                    \
    void set_##NAME(const TYPE* values) { std::memcpy(NAME, values, sizeof(NAME)); }                                                       \
    const TYPE* get_##NAME() const { return NAME; }                                                                                        \
    TYPE* get_##NAME() { return NAME; }
#define TILING_DATA_FIELD_DEF_STRUCT(TYPE, NAME) TYPE NAME{};
#define END_TILING_DATA_DEF };
#define REGISTER_TILING_DATA_CLASS(OP, NAME) struct KopeRegistered##OP##NAME {};

#endif
