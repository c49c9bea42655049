// See launch.h.
#include "launch.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace harness {

int64_t TensorPlan::numel() const
{
    int64_t count = 1;
    for (int64_t extent : shape) {
        count *= extent;
    }
    return count;
}

size_t TensorPlan::bytes() const { return static_cast<size_t>(numel()) * kope_dtype_bytes(dtype); }

namespace {

std::string unescape(const std::string& word)
{
    std::string text;
    for (size_t k = 0; k < word.size(); ++k) {
        if (word[k] != '%') {
            text += word[k];
        } else if (k + 2 < word.size()) {
            text += static_cast<char>(std::strtol(word.substr(k + 1, 2).c_str(), nullptr, 16));
            k += 2;
        } // a lone % stands for the empty text
    }
    return text;
}

bool parse_dtype(const std::string& word, KopeDtype& dtype)
{
    static const char* const names[] = {"float32", "float16", "bfloat16", "int8", "uint8",
                                        "int32",   "int64",   "bool",     "int16"};
    for (int32_t k = 0; k < 9; ++k) {
        if (word == names[k]) {
            dtype = static_cast<KopeDtype>(k);
            return true;
        }
    }
    return false;
}

bool parse_tensor(std::istringstream& words, TensorPlan& tensor)
{
    std::string path, name, dtype;
    int rank = 0;
    if (!(words >> path >> name >> dtype >> rank) || rank < 0 || !parse_dtype(dtype, tensor.dtype)) {
        return false;
    }
    tensor.omitted = path == "-";
    tensor.path = unescape(path);
    tensor.name = unescape(name);
    tensor.shape.resize(static_cast<size_t>(rank));
    for (int64_t& extent : tensor.shape) {
        if (!(words >> extent) || extent < 0) {
            return false;
        }
    }
    return true;
}

/* Numbers apart by commas; an integer keeps all of its 64 bits. */
void parse_list(const std::string& text, AttrPlan& attr)
{
    std::istringstream items(text);
    for (std::string item; std::getline(items, item, ',');) {
        const bool whole = item.find_first_not_of("-0123456789") == std::string::npos;
        attr.floats.push_back(std::strtod(item.c_str(), nullptr));
        attr.ints.push_back(whole ? std::strtoll(item.c_str(), nullptr, 10) : static_cast<int64_t>(attr.floats.back()));
    }
}

bool parse_attr(std::istringstream& words, AttrPlan& attr)
{
    std::string name, kind, value;
    if (!(words >> name >> kind >> value)) {
        return false;
    }
    attr.name = unescape(name);
    if (kind == "float") {
        attr.kind = KOPE_ATTR_FLOAT;
        attr.f = std::strtod(value.c_str(), nullptr);
    } else if (kind == "string") {
        attr.kind = KOPE_ATTR_STRING;
        attr.s = unescape(value);
    } else if (kind == "list") {
        attr.kind = KOPE_ATTR_LIST;
        parse_list(unescape(value), attr);
    } else {
        attr.kind = kind == "bool" ? KOPE_ATTR_BOOL : KOPE_ATTR_INT;
        attr.i = std::strtoll(value.c_str(), nullptr, 10);
    }
    return true;
}

bool parse_header(const std::string& key, std::istringstream& words, LaunchPlan& plan)
{
    std::string word;
    if (!(words >> word)) {
        return false;
    }
    if (key == "kope-launch") {
        return word == "1";
    }
    if (key == "nonce") {
        plan.nonce = word;
    } else if (key == "mode") {
        plan.verify = word == "verify";
    } else if (key == "checks") {
        plan.strict = word == "strict";
        plan.adversarial = word == "adversarial";
        plan.checks = word != "off";
    } else if (key == "spans") {
        plan.spans = std::strtoul(word.c_str(), nullptr, 10);
    } else if (key == "chip") {
        plan.chip = word;
    } else if (key == "ub") {
        plan.ub_bytes = static_cast<uint32_t>(std::strtoul(word.c_str(), nullptr, 10));
    } else if (key == "param") {
        std::string value;
        words >> value;
        plan.parameters.emplace_back(word, std::strtod(value.c_str(), nullptr));
    } else {
        return false;
    }
    return true;
}

bool parse_line(const std::string& line, LaunchPlan& plan, CasePlan& current)
{
    std::istringstream words(line);
    std::string key;
    if (!(words >> key)) {
        return true;
    }
    if (key == "case") {
        current = CasePlan{};
        return static_cast<bool>(words >> current.number >> current.block_order);
    }
    if (key == "input" || key == "output") {
        std::vector<TensorPlan>& list = key == "input" ? current.inputs : current.outputs;
        return parse_tensor(words, list.emplace_back());
    }
    if (key == "attr") {
        return parse_attr(words, current.attrs.emplace_back());
    }
    if (key == "run") {
        plan.cases.push_back(current);
        return true;
    }
    return parse_header(key, words, plan);
}

} // namespace

bool read_launch(const char* path, LaunchPlan& plan, std::string& problem)
{
    std::ifstream file(path);
    if (!file) {
        problem = std::string("cannot read the launch description ") + path;
        return false;
    }
    CasePlan current;
    std::string line;
    while (std::getline(file, line)) {
        if (!parse_line(line, plan, current)) {
            problem = "cannot understand the launch description at: " + line;
            return false;
        }
    }
    return true;
}

} // namespace harness
