// Sorting: 32 pairs at a time, merging sorted queues, taking pairs apart. A pair is 8 bytes: score (float, or half and two
// bytes of nothing), then index.
#include <algorithm>
#include <cstring>
#include <vector>

#include "access.h"

namespace kope_twin {
namespace runtime {

namespace {

constexpr uint32_t kPair = 8;

struct Pair {
    float score;
    uint32_t index;
};

float score_at(const uint8_t* from, Dtype dtype)
{
    if (dtype == Dtype::F32) {
        float value;
        std::memcpy(&value, from, sizeof(value));
        return value;
    }
    half value;
    std::memcpy(&value, from, sizeof(value));
    return static_cast<float>(value);
}

void put_score(uint8_t* to, float score, Dtype dtype)
{
    if (dtype == Dtype::F32) {
        std::memcpy(to, &score, sizeof(score));
        return;
    }
    const half narrow = static_cast<half>(score);
    std::memcpy(to, &narrow, sizeof(narrow));
}

Pair pair_at(const uint8_t* from, Dtype dtype)
{
    Pair pair = {score_at(from, dtype), 0};
    std::memcpy(&pair.index, from + 4, sizeof(pair.index));
    return pair;
}

void put_pair(uint8_t* to, const Pair& pair, Dtype dtype)
{
    std::memset(to, 0, kPair);
    put_score(to, pair.score, dtype);
    std::memcpy(to + 4, &pair.index, sizeof(pair.index));
}

bool before(const Pair& a, const Pair& b) { return a.score > b.score; }

} // namespace
} // namespace runtime

namespace api {

using namespace runtime;

void sort32(const UbView& dst, const UbView& scores, const UbView& indices, Dtype dtype, int32_t repeats, bool everything, const char* name, Site site)
{
    Enter enter(name, site);
    Block& block = *current;
    const Instruction instruction = {name, kVector, site};
    const uint32_t element = static_cast<uint32_t>(size_of(dtype));
    const uint32_t count = repeats > 0 ? static_cast<uint32_t>(repeats) * 32 : 0;
    double cycles = parameters.vector_head_cycles + count / 2.0; // two elements a cycle
    for (uint32_t sorted = 32; everything && sorted < count; sorted *= 4) {
        cycles += parameters.vector_head_cycles + count / 2.0; // a round of merging
    }
    block.trace.work(kVector, static_cast<uint32_t>(cycles));
    begin(block, instruction);
    if (count == 0) {
        return;
    }
    const Range from = {"src0", scores.address, count * element};
    const Range numbers = {"src1", indices.address, count * 4};
    const Range target = {"dst", dst.address, count * kPair};
    bool fine = usable(block, instruction, "dst", dst, target.bytes, kCell);
    fine = usable(block, instruction, "src0", scores, from.bytes, kCell) && fine;
    fine = usable(block, instruction, "src1", indices, numbers.bytes, kCell) && fine;
    if (!fine || !machine.verify) {
        return;
    }
    read(block, instruction, from);
    read(block, instruction, numbers);
    write(block, instruction, target);
    const Range* const sources[] = {&from, &numbers};
    flow(block, target, sources, 2);
    std::vector<Pair> pairs(count);
    for (uint32_t k = 0; k < count; ++k) {
        pairs[k].score = score_at(ub(block, scores.address + k * element), dtype);
        std::memcpy(&pairs[k].index, ub(block, indices.address + k * 4), 4);
    }
    const uint32_t group = everything ? count : 32;
    for (uint32_t at = 0; at < count; at += group) {
        std::stable_sort(pairs.begin() + at, pairs.begin() + at + group, before);
    }
    for (uint32_t k = 0; k < count; ++k) {
        put_pair(ub(block, dst.address + k * kPair), pairs[k], dtype);
    }
}

void merge_sorted(const UbView& dst, const UbView* const* queues, const uint32_t* lengths, Dtype dtype, uint32_t valid, int32_t repeats,
    bool stop_when_empty, uint32_t* taken, Site site)
{
    Enter enter("MrgSort", site);
    Block& block = *current;
    const Instruction instruction = {"MrgSort", kVector, site};
    uint32_t used = 0;
    uint32_t total = 0;
    for (; used < 4 && (valid >> used & 1U) != 0; ++used) {
        total += lengths[used];
    }
    const uint32_t rounds = repeats > 0 ? static_cast<uint32_t>(repeats) : 0;
    block.trace.work(kVector, static_cast<uint32_t>(parameters.vector_head_cycles + rounds * total / 2.0));
    begin(block, instruction);
    std::fill_n(taken, 4, 0U);
    const bool one_list = used == 4 && lengths[0] == lengths[1] && lengths[0] == lengths[2] && lengths[0] == lengths[3] && !stop_when_empty;
    if (used < 2 || (rounds > 1 && !one_list)) {
        if (control::Finding* found = note("argument-range", site)) {
            describe(found, "validBit is 3, 7 or 15; several repeats take four queues of one length, end to end", "MrgSort with validBit %u, %u repeats (block %u)",
                valid, rounds, block.index);
        }
        return;
    }
    const Range target = {"dst", dst.address, rounds * total * kPair};
    bool fine = usable(block, instruction, "dst", dst, target.bytes, kCell);
    for (uint32_t k = 0; k < used; ++k) {
        const uint64_t bytes = rounds == 1 ? uint64_t(lengths[k]) * kPair : (uint64_t(rounds - 1) * total + lengths[k]) * kPair;
        fine = usable(block, instruction, "a queue", *queues[k], bytes, kPair) && fine;
    }
    if (!fine || !machine.verify || total == 0) {
        return;
    }
    bool data = true;
    for (uint32_t k = 0; k < used; ++k) {
        const Range range = {"a queue", queues[k]->address, lengths[k] * kPair};
        read(block, instruction, range);
        data = data && block.memory->shadow.holds_data(range.first_cell(), range.last_cell());
    }
    write(block, instruction, target);
    fill(block, target, data);
    for (uint32_t round = 0; round < rounds; ++round) {
        std::vector<Pair> merged;
        uint32_t position[4] = {0, 0, 0, 0};
        while (merged.size() < total) {
            int best = -1;
            Pair most = {0.0F, 0};
            bool empty = false;
            for (uint32_t k = 0; k < used; ++k) {
                if (position[k] == lengths[k]) {
                    empty = empty || lengths[k] != 0;
                    continue;
                }
                const uint32_t offset = (round * total + position[k]) * kPair;
                const Pair candidate = pair_at(ub(block, queues[k]->address + offset), dtype);
                if (best < 0 || candidate.score > most.score) {
                    best = static_cast<int>(k);
                    most = candidate;
                }
            }
            if (best < 0 || (empty && stop_when_empty)) {
                break;
            }
            merged.push_back(most);
            position[best] += 1;
        }
        for (uint32_t k = 0; k < merged.size(); ++k) {
            put_pair(ub(block, dst.address + (round * total + k) * kPair), merged[k], dtype);
        }
        std::copy_n(position, 4, taken);
    }
}

void extract_sorted(const UbView& values, const UbView& indices, const UbView& sorted, Dtype dtype, int32_t repeats, Site site)
{
    Enter enter("Extract", site);
    Block& block = *current;
    const Instruction instruction = {"Extract", kVector, site};
    const uint32_t element = static_cast<uint32_t>(size_of(dtype));
    const uint32_t count = repeats > 0 ? static_cast<uint32_t>(repeats) * 32 : 0;
    block.trace.work(kVector, static_cast<uint32_t>(2.0 * (parameters.vector_head_cycles + count / 32.0)));
    begin(block, instruction);
    const Range from = {"sorted", sorted.address, count * kPair};
    const Range scores = {"dstValue", values.address, count * element};
    const Range numbers = {"dstIndex", indices.address, count * 4};
    bool fine = count != 0 && usable(block, instruction, "sorted", sorted, from.bytes, kCell);
    fine = fine && usable(block, instruction, "dstValue", values, scores.bytes, kCell) && usable(block, instruction, "dstIndex", indices, numbers.bytes, kCell);
    if (!fine || !machine.verify) {
        return;
    }
    read(block, instruction, from);
    const Range* const sources[] = {&from};
    for (const Range& target : {scores, numbers}) {
        write(block, instruction, target);
        flow(block, target, sources, 1);
    }
    for (uint32_t k = 0; k < count; ++k) {
        const Pair pair = pair_at(ub(block, sorted.address + k * kPair), dtype);
        put_score(ub(block, values.address + k * element), pair.score, dtype);
        std::memcpy(ub(block, indices.address + k * 4), &pair.index, 4);
    }
}

} // namespace api
} // namespace kope_twin
