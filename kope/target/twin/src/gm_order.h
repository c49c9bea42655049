// Which blocks touched which bytes of a buffer in device memory since all blocks last met (start of the launch, SyncAll).
// Two blocks that touch the same bytes in between, one of them writing, race: nothing orders them on the device, whatever
// order they run in here.
#ifndef KOPE_TWIN_SRC_GM_ORDER_H
#define KOPE_TWIN_SRC_GM_ORDER_H

#include <cstdint>
#include <map>
#include <vector>

#include "kope_twin/types.h"

namespace kope_twin {
namespace runtime {

// Bytes [begin, end) of one block's access; pieces that lie end to end and come from one line are one.
struct GmAccess {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint32_t block = 0;
    bool atomic = false;
    const char* name = "";
    Site site = {"", 0};
};

class GmOrder {
public:
    void read(const GmAccess& access);
    // Calls clash(earlier, begin, end) for the bytes that another block has written in this phase; two atomics do not clash.
    template <typename Clash> void write(const GmAccess& access, Clash clash)
    {
        for (auto at = first_at(access.begin); at != writes_.end() && at->second.begin < access.end; ++at) {
            const GmAccess& earlier = at->second;
            if (earlier.block != access.block && !(earlier.atomic && access.atomic)) {
                clash(earlier, earlier.begin > access.begin ? earlier.begin : access.begin, earlier.end < access.end ? earlier.end : access.end);
            }
        }
        keep(access);
    }
    // Calls clash(read, write) for reads of what another block wrote, and forgets everything: all blocks have met.
    template <typename Clash> void meet(Clash clash)
    {
        for (const GmAccess& read : reads_) {
            for (auto at = first_at(read.begin); at != writes_.end() && at->second.begin < read.end; ++at) {
                if (at->second.block != read.block) {
                    clash(read, at->second);
                }
            }
        }
        reads_.clear();
        writes_.clear();
    }
    bool busy() const { return !writes_.empty() || !reads_.empty(); }

private:
    using Writes = std::map<uint64_t, GmAccess>; // by begin, none overlaps another
    static constexpr size_t kMost = 1 << 20;     // beyond this many pieces nothing more is kept

    Writes::iterator first_at(uint64_t begin);
    void keep(const GmAccess& access);

    Writes writes_;
    std::vector<GmAccess> reads_;
};

} // namespace runtime
} // namespace kope_twin

#endif
