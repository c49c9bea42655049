// See gm_order.h.
#include "gm_order.h"

namespace kope_twin {
namespace runtime {

namespace {

bool continues(const GmAccess& before, const GmAccess& access)
{
    return before.end == access.begin && before.block == access.block && before.atomic == access.atomic && before.site.line == access.site.line;
}

} // namespace

void GmOrder::read(const GmAccess& access)
{
    if (!reads_.empty() && continues(reads_.back(), access)) {
        reads_.back().end = access.end;
    } else if (reads_.size() < kMost) {
        reads_.push_back(access);
    }
}

// The first kept write that ends after `begin`.
GmOrder::Writes::iterator GmOrder::first_at(uint64_t begin)
{
    auto at = writes_.upper_bound(begin);
    if (at != writes_.begin()) {
        auto before = at;
        --before;
        if (before->second.end > begin) {
            return before;
        }
    }
    return at;
}

// The newest write of a byte is the one that is kept; what it covers of others is cut away.
void GmOrder::keep(const GmAccess& access)
{
    auto at = first_at(access.begin);
    while (at != writes_.end() && at->second.begin < access.end) {
        const GmAccess old = at->second;
        at = writes_.erase(at);
        if (old.begin < access.begin) {
            GmAccess head = old;
            head.end = access.begin;
            writes_.emplace(head.begin, head);
        }
        if (old.end > access.end) {
            GmAccess tail = old;
            tail.begin = access.end;
            at = writes_.emplace(tail.begin, tail).first;
        }
    }
    if (writes_.size() >= kMost) {
        return;
    }
    if (at != writes_.begin()) {
        auto before = at;
        --before;
        if (continues(before->second, access)) {
            before->second.end = access.end;
            return;
        }
    }
    writes_.emplace(access.begin, access);
}

} // namespace runtime
} // namespace kope_twin
