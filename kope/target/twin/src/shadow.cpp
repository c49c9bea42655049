// See shadow.h.
#include "shadow.h"

#include <algorithm>

namespace kope_twin {
namespace runtime {

namespace {

uint32_t newest(const std::vector<uint32_t>& counts, uint32_t first, uint32_t last)
{
    uint32_t most = 0;
    for (uint32_t cell = first; cell < last; ++cell) {
        most = counts[cell] > most ? counts[cell] : most;
    }
    return most;
}

Conflict locate(const std::vector<uint32_t>& counts, uint32_t first, uint32_t last, uint32_t known, int pipe, bool wrote)
{
    for (uint32_t cell = first; cell < last; ++cell) {
        if (counts[cell] > known) {
            return {true, cell, pipe, wrote};
        }
    }
    return {};
}

} // namespace

Shadow::Shadow(uint32_t bytes)
{
    const uint32_t cells = (bytes + kCell - 1) / kCell;
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        wrote_[pipe].assign(cells, 0);
        read_[pipe].assign(cells, 0);
    }
    origin_.assign(cells, 0);
}

void Shadow::clear(uint32_t used_bytes)
{
    const size_t cells = std::min<size_t>(origin_.size(), (used_bytes + kCell - 1) / kCell);
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        std::fill_n(wrote_[pipe].begin(), cells, 0U);
        std::fill_n(read_[pipe].begin(), cells, 0U);
    }
    std::fill_n(origin_.begin(), cells, uint8_t(0));
}

Conflict Shadow::check_read(uint32_t first, uint32_t last, const Clock& known, uint32_t watched) const
{
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        if ((watched >> pipe & 1U) != 0 && newest(wrote_[pipe], first, last) > known.count[pipe]) {
            return locate(wrote_[pipe], first, last, known.count[pipe], pipe, true);
        }
    }
    return {};
}

Conflict Shadow::check_write(uint32_t first, uint32_t last, const Clock& known, uint32_t watched) const
{
    const Conflict conflict = check_read(first, last, known, watched);
    if (conflict.found) {
        return conflict;
    }
    for (int pipe = 0; pipe < kPipes; ++pipe) {
        if ((watched >> pipe & 1U) != 0 && newest(read_[pipe], first, last) > known.count[pipe]) {
            return locate(read_[pipe], first, last, known.count[pipe], pipe, false);
        }
    }
    return {};
}

void Shadow::set_read(int pipe, uint32_t first, uint32_t last, uint32_t count)
{
    std::fill(read_[pipe].begin() + first, read_[pipe].begin() + last, count);
}

void Shadow::set_write(int pipe, uint32_t first, uint32_t last, uint32_t count)
{
    std::fill(wrote_[pipe].begin() + first, wrote_[pipe].begin() + last, count);
}

} // namespace runtime
} // namespace kope_twin
