// How instructions touch the unified buffer: bounds, alignment, order between pipes, and whether there is data to read.
#ifndef KOPE_TWIN_SRC_ACCESS_H
#define KOPE_TWIN_SRC_ACCESS_H

#include "machine.h"

namespace kope_twin {
namespace runtime {

// The instruction that is being executed, for counting and for messages.
struct Instruction {
    const char* name;
    int pipe;
    Site site;
};

// One operand: bytes [address, address + bytes) of UB.
struct Range {
    const char* operand; // "dst", "src0", ...
    uint32_t address;
    uint32_t bytes;

    uint32_t first_cell() const { return address / kCell; }
    uint32_t last_cell() const { return (address + bytes + kCell - 1) / kCell; }
};

constexpr uint32_t pipe_bit(int pipe) { return 1U << pipe; }

// Counts the instruction on its pipe. Every data access of it happens at this count.
void begin(Block& block, const Instruction& instruction);

// What `pipe` has done so far and knows to be done, as a flag or queue carries it to another pipe.
void signal_from(Block& block, int pipe, Clock& clock);
void everything_done(Block& block);

// False, with a finding, when the view is unusable: freed, never allocated, beyond its allocation, misaligned.
// `span` is the number of bytes from the view's start to the end of what the instruction touches.
bool usable(Block& block, const Instruction& instruction, const char* operand, const UbView& view, uint64_t span, uint32_t alignment);

// Order checks and bookkeeping; verify mode only.
void read(Block& block, const Instruction& instruction, const Range& range);
void write(Block& block, const Instruction& instruction, const Range& range);

// Marks dst as holding data exactly where all sources do. Sources are mapped onto dst in proportion.
void flow(Block& block, const Range& dst, const Range* const* sources, int source_count);
void fill(Block& block, const Range& range, bool data);
// A value leaves UB here (to device memory, to the scalar unit, as an index): finding when it was never filled.
void require_data(Block& block, const Instruction& instruction, const Range& range);

// Adversarial mode: what nothing orders has no value. The bytes become NaN, or -1.
void spoil(Block& block, const Range& range);

inline uint8_t* ub(Block& block, uint32_t address) { return block.memory->ub.data() + address; }

} // namespace runtime
} // namespace kope_twin

#endif
