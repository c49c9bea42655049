// Reads the launch description: which cases to call, with which tensors, attributes and parameters.
// Plain words separated by blanks, one statement a line, %xx for bytes that would end a word. Written by launch.py.
// Depends on nothing of the twin: the host program for NPUs reads the same file.
#ifndef KOPE_HARNESS_LAUNCH_H
#define KOPE_HARNESS_LAUNCH_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kope_candidate.h"

namespace harness {

struct TensorPlan {
    bool omitted = false;
    std::string path;
    std::string name;
    KopeDtype dtype = KOPE_FLOAT32;
    std::vector<int64_t> shape;

    int64_t numel() const;
    size_t bytes() const;
};

struct AttrPlan {
    std::string name;
    KopeAttrKind kind = KOPE_ATTR_INT;
    int64_t i = 0;
    double f = 0.0;
    std::string s;
    std::vector<int64_t> ints;
    std::vector<double> floats;
};

struct CasePlan {
    int64_t number = 0;
    uint64_t block_order = 0;
    std::vector<TensorPlan> inputs;
    std::vector<TensorPlan> outputs;
    std::vector<AttrPlan> attrs;
};

struct LaunchPlan {
    std::string nonce;
    bool verify = true;
    // What the twin looks for, see control::Options.
    bool strict = false;
    bool adversarial = false;
    bool checks = true;
    size_t spans = 0;
    std::string chip;
    uint32_t ub_bytes = 0;
    std::vector<std::pair<std::string, double>> parameters;
    std::vector<CasePlan> cases;
};

// Returns false and says why when the file cannot be read or understood.
bool read_launch(const char* path, LaunchPlan& plan, std::string& problem);

} // namespace harness

#endif
