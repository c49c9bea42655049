// The vector instructions that are not elementwise, one function each; `vector.cpp` picks.
#ifndef KOPE_TWIN_SRC_VECTOR_OPS_H
#define KOPE_TWIN_SRC_VECTOR_OPS_H

#include "geometry.h"

namespace kope_twin {
namespace runtime {

// Puts the instruction on the vector unit's timeline.
void charge(Block& block, const VectorCall& call, const Shape& shape);
// Counts the instruction and checks its operands' bounds and alignment.
bool check(Block& block, const Instruction& instruction, const Shape& shape, const Operand* operands, int count, uint32_t alignment);

void fill_values(Block& block, const VectorCall& call);
void spread(Block& block, const VectorCall& call);
void gather(Block& block, const VectorCall& call);
uint64_t keep_elements(Block& block, const VectorCall& call);
void copy_elements(Block& block, const VectorCall& call);
void compare(Block& block, const VectorCall& call);
void select(Block& block, const VectorCall& call);
void fold(Block& block, const VectorCall& call);
void reduce(Block& block, const VectorCall& call);
void combine_and_cast(Block& block, const VectorCall& call);

} // namespace runtime
} // namespace kope_twin

#endif
