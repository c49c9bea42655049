// Writes what happened, one JSON line per event, to the descriptor the driver handed in. See launch.py for the reader.
#ifndef KOPE_HARNESS_ANSWER_H
#define KOPE_HARNESS_ANSWER_H

#include <cstdint>
#include <string>

#include "kope_twin/control.h"

namespace harness {

class Answers {
public:
    Answers(int descriptor, std::string nonce) : descriptor_(descriptor), nonce_(std::move(nonce)) {}

    void begin(int64_t number);
    void end(int64_t number, int return_code, const kope_twin::control::CaseResult& result);

private:
    void write_line(const std::string& line) const;
    std::string start(const char* event, int64_t number) const;

    int descriptor_;
    std::string nonce_;
};

// A finding of the harness itself.
kope_twin::control::Finding finding(const char* kind, std::string message, std::string remedy);

} // namespace harness

#endif
