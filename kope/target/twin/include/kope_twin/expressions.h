// Operators between whole tensors: `dst = src0 + src1` computes as many elements as dst has, `dst = src0 < src1` compares
// as many as src0 has. What an operator gives can only be assigned.
#ifndef KOPE_TWIN_EXPRESSIONS_H
#define KOPE_TWIN_EXPRESSIONS_H

#include "kope_twin/vector_arith.h"
#include "kope_twin/vector_compare.h"

namespace kope_twin {

template <typename T, Op op> struct BinaryExpression {
    using Element = T;
    const char* name;
    AscendC::LocalTensor<T> left, right;

    KOPE_TWIN_INLINE void into(const AscendC::LocalTensor<T>& dst, Site site) const
    {
        run_binary(name, op, dst, left, right, first_elements(static_cast<int32_t>(dst.GetSize())), site);
    }
};

template <typename T> struct CompareExpression {
    using Element = T;
    AscendC::CMPMODE mode;
    AscendC::LocalTensor<T> left, right;

    template <typename U> KOPE_TWIN_INLINE void into(const AscendC::LocalTensor<U>& dst, Site site) const
    {
        run_compare("Compare", dst, left, &right, T(0), mode, first_elements(static_cast<int32_t>(left.GetSize())), site);
    }
};

} // namespace kope_twin

namespace AscendC {

#define KOPE_TWIN_OPERATOR(SIGN, NAME, REQUIRE)                                                                                            \
    template <typename T>                                                                                                                  \
    KOPE_TWIN_INLINE kope_twin::BinaryExpression<T, kope_twin::Op::NAME> operator SIGN(const LocalTensor<T>& src0, const LocalTensor<T>& src1) \
    {                                                                                                                                      \
        REQUIRE(T, #NAME);                                                                                                                 \
        return {#NAME, src0, src1};                                                                                                        \
    }
KOPE_TWIN_OPERATOR(+, Add, KOPE_TWIN_ARITH)
KOPE_TWIN_OPERATOR(-, Sub, KOPE_TWIN_ARITH)
KOPE_TWIN_OPERATOR(*, Mul, KOPE_TWIN_ARITH)
KOPE_TWIN_OPERATOR(/, Div, KOPE_TWIN_FLOATS)
KOPE_TWIN_OPERATOR(&, And, KOPE_TWIN_BITS16)
KOPE_TWIN_OPERATOR(|, Or, KOPE_TWIN_BITS16)
#undef KOPE_TWIN_OPERATOR

#define KOPE_TWIN_COMPARISON(SIGN, MODE)                                                                                                   \
    template <typename T>                                                                                                                  \
    KOPE_TWIN_INLINE kope_twin::CompareExpression<T> operator SIGN(const LocalTensor<T>& src0, const LocalTensor<T>& src1)                \
    {                                                                                                                                      \
        return {CMPMODE::MODE, src0, src1};                                                                                                \
    }
KOPE_TWIN_COMPARISON(<, LT)
KOPE_TWIN_COMPARISON(>, GT)
KOPE_TWIN_COMPARISON(<=, LE)
KOPE_TWIN_COMPARISON(>=, GE)
KOPE_TWIN_COMPARISON(==, EQ)
KOPE_TWIN_COMPARISON(!=, NE)
#undef KOPE_TWIN_COMPARISON

} // namespace AscendC

#endif
