// What the sanitizer knows about every 32-byte cell of a unified buffer: who wrote and read it last, and whether it holds data.
//
// Order is happens-before, independent of timing: every pipe counts its instructions, flags and queues carry the counts
// across, and an access is a finding when a conflicting earlier one is not known to be complete.
#ifndef KOPE_TWIN_SRC_SHADOW_H
#define KOPE_TWIN_SRC_SHADOW_H

#include <cstdint>
#include <cstring>
#include <vector>

#include "kope_twin/types.h"
#include "timeline.h"

namespace kope_twin {
namespace runtime {

constexpr uint32_t kCell = 32;

// Counts of instructions, one per pipe.
struct Clock {
    uint32_t count[kPipes] = {};

    void join(const Clock& other)
    {
        for (int pipe = 0; pipe < kPipes; ++pipe) {
            count[pipe] = count[pipe] < other.count[pipe] ? other.count[pipe] : count[pipe];
        }
    }
};

struct Conflict {
    bool found = false;
    uint32_t cell = 0;
    int pipe = 0;         // of the earlier access
    bool earlier_wrote = false;
};

class Shadow {
public:
    explicit Shadow(uint32_t bytes);
    void clear(uint32_t used_bytes);

    // `known`: for each pipe, the instructions known to be complete. `watched`: earlier pipes to look at, as bits.
    Conflict check_read(uint32_t first, uint32_t last, const Clock& known, uint32_t watched) const;
    Conflict check_write(uint32_t first, uint32_t last, const Clock& known, uint32_t watched) const;
    void set_read(int pipe, uint32_t first, uint32_t last, uint32_t count);
    void set_write(int pipe, uint32_t first, uint32_t last, uint32_t count);

    uint32_t last_write(int pipe, uint32_t cell) const { return wrote_[pipe][cell]; }
    uint32_t last_read(int pipe, uint32_t cell) const { return read_[pipe][cell]; }

    // Cells no instruction has filled, or filled from such cells. Returns `last` when all hold data.
    uint32_t first_empty(uint32_t first, uint32_t last) const
    {
        const void* found = std::memchr(origin_.data() + first, 0, last - first);
        const uint32_t cell = found == nullptr ? last : static_cast<uint32_t>(static_cast<const uint8_t*>(found) - origin_.data());
        return cell;
    }
    bool holds_data(uint32_t first, uint32_t last) const { return first_empty(first, last) == last; }
    void fill(uint32_t first, uint32_t last, bool data) { std::memset(origin_.data() + first, data ? 1 : 0, last - first); }

private:
    std::vector<uint32_t> wrote_[kPipes]; // per cell, count of the pipe's last write
    std::vector<uint32_t> read_[kPipes];
    std::vector<uint8_t> origin_; // 1: holds data
};

// The last instructions of every pipe, so that a finding can name the other side.
class History {
public:
    struct Entry {
        uint32_t count = 0;
        const char* name = "";
        Site site = {"", 0};
    };

    void add(int pipe, uint32_t count, const char* name, Site site) { entries_[pipe][count % kKept] = {count, name, site}; }
    const Entry* find(int pipe, uint32_t count) const
    {
        const Entry& entry = entries_[pipe][count % kKept];
        return entry.count == count ? &entry : nullptr;
    }

private:
    static constexpr uint32_t kKept = 512;
    Entry entries_[kPipes][kKept];
};

} // namespace runtime
} // namespace kope_twin

#endif
