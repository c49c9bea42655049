// See parameters.h.
#include "parameters.h"

#include <cstddef>
#include <cstring>

#include "kope_twin/control.h"

namespace kope_twin {
namespace runtime {

Parameters parameters;

namespace {

struct Entry {
    const char* name;
    double Parameters::*field;
};

const Entry entries[] = {
#define KOPE_TWIN_ENTRY(name, value, meaning) {#name, &Parameters::name},
    KOPE_TWIN_PARAMETERS(KOPE_TWIN_ENTRY)
#undef KOPE_TWIN_ENTRY
};

const Entry* find(const char* name)
{
    for (const Entry& entry : entries) {
        if (std::strcmp(entry.name, name) == 0) {
            return &entry;
        }
    }
    return nullptr;
}

} // namespace
} // namespace runtime

namespace control {

bool set_parameter(const char* name, double value)
{
    const runtime::Entry* entry = runtime::find(name);
    if (entry != nullptr) {
        runtime::parameters.*(entry->field) = value;
    }
    return entry != nullptr;
}

bool get_parameter(const char* name, double* value)
{
    const runtime::Entry* entry = runtime::find(name);
    if (entry != nullptr) {
        *value = runtime::parameters.*(entry->field);
    }
    return entry != nullptr;
}

const char* parameter_name(size_t index)
{
    return index < sizeof(runtime::entries) / sizeof(runtime::entries[0]) ? runtime::entries[index].name : nullptr;
}

} // namespace control
} // namespace kope_twin
