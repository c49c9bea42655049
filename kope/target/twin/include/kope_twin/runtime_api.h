// What the API headers call in the prebuilt runtime: type-erased operations on UB views and device addresses.
// These are the only functions of the runtime that a candidate's object may link to.
#ifndef KOPE_TWIN_RUNTIME_API_H
#define KOPE_TWIN_RUNTIME_API_H

#include "kope_twin/types.h"

namespace kope_twin {

// A piece of unified buffer. Addresses are offsets into it, never host pointers.
struct UbView {
    uint32_t address = 0; // bytes from the start of UB
    uint32_t bytes = 0;
    uint32_t limit = 0;             // end of the allocation this is a part of
    uint16_t buffer = kNoBuffer;    // queue buffer, to find uses after it was freed
    uint16_t generation = 0;        // counts allocations of that queue buffer
    uint8_t position = 0;           // TPosition

    static constexpr uint16_t kNoBuffer = 0xffff;
};

enum class Op : uint8_t {
    // one source
    Abs, Exp, Ln, Reciprocal, Sqrt, Rsqrt, Relu, Not, Cast, Copy,
    // one source and a scalar
    Adds, Muls, Maxs, Mins, LeakyRelu, ShiftLeft, ShiftRight, ShiftRightRound, Axpy,
    // two sources
    Add, Sub, Mul, Div, Max, Min, And, Or, AddRelu, SubRelu, MulAddDst, FusedMulAdd, FusedMulAddRelu, MulCast, AddReluCast, SubReluCast,
    // no source
    Duplicate, CreateVecIndex,
    // their results are bits or depend on bits
    Compare, CompareScalar, Select, SelectScalar,
    // fold a repeat, a block or a pair
    RepeatSum, RepeatSumAll, RepeatMax, RepeatMin, BlockSum, BlockMax, BlockMin, PairSum,
    // fold everything
    ReduceSum, ReduceMax, ReduceMin,
    Brcb, Gather, GatherMask,
    Count
};

// Which elements an instruction works on.
struct Form {
    enum Kind : uint8_t {
        Contiguous, // the first `count` elements
        Prefix,     // per repeat the first mask[0] elements
        Bits,       // per repeat the elements whose bit in mask is set
        External    // as Bits, with the mask register set by SetVectorMask
    };
    Kind kind = Contiguous;
    int32_t repeat = 1;
    uint32_t count = 0;
    uint64_t mask[2] = {0, 0};
    uint16_t block_stride[3] = {1, 1, 1}; // dst, src0, src1; in 32-byte blocks
    uint16_t repeat_stride[3] = {8, 8, 8};
};

struct VectorCall {
    const char* name; // as the user wrote it
    Op op;
    Dtype dst_type;
    Dtype src_type;
    uint8_t mode = 0; // RoundMode, CMPMODE, SELMODE or ReduceOrder
    const UbView* dst = nullptr;
    const UbView* src0 = nullptr;
    const UbView* src1 = nullptr;
    const UbView* mask = nullptr; // selection bits, offsets, work space
    Scalar scalar;
    Form form;
    Site site;
};

// Functions of the toolkit's library, which the device does with a sequence of vector instructions.
enum class LibraryOp : uint8_t {
    // one source
    Acos, Acosh, Asin, Asinh, Atan, Atanh, Ceil, Cos, Cosh, Digamma, Erf, Erfc, Exp, Floor, Frac, Lgamma, Log, Log2, Log10, Rint, Round, Sign, Sin,
    Sinh, Tan, Tanh, Trunc, Gelu, FasterGelu, Sigmoid, Silu,
    // one source and one or two scalars
    Swish, ClampMax, ClampMin, Quant, Dequant, AntiQuant, Progression,
    // two sources
    Power, Fmod, GeGlu, ReGlu, SwiGlu, DequantBy,
    // on integers
    Xor,
    Count
};

// dst[i] = f(src0[i], src1[i], scalars) for i < count. A source that is nullptr is scalar[0] or scalar[1].
struct LibraryCall {
    const char* name;
    LibraryOp op;
    Dtype dst_type;
    Dtype src_type;
    Dtype src1_type;
    const UbView* dst = nullptr;
    const UbView* src0 = nullptr;
    const UbView* src1 = nullptr;
    const UbView* work = nullptr; // overwritten
    uint32_t src1_period = 0;     // src1 is used again after so many elements, 0: it is as long as dst
    double scalar[2] = {0.0, 0.0};
    uint32_t count = 0;
    Site site;
};

enum class RowsOp : uint8_t { SoftMax, SimpleSoftMax, SoftmaxFlash, SoftmaxFlashUpdate, SoftmaxGrad, SoftmaxGradFront, Sum, Mean, LayerNorm, RmsNorm };

// A library function over the rows of [rows, pitch], of which the first `columns` elements count.
struct RowsCall {
    const char* name;
    RowsOp op;
    Dtype dtype;       // of dst and src
    Dtype stat_dtype;  // of what is kept per row, one block of 32 bytes each (Sum, Mean, LayerNorm: one element each)
    uint32_t rows = 0;
    uint32_t columns = 0;
    uint32_t pitch = 0;
    double epsilon = 0.0;
    const UbView* dst = nullptr;
    const UbView* src = nullptr;
    const UbView* in[3] = {};  // further sources: gamma, beta; grad; sum and max of before
    const UbView* out[3] = {}; // further results: sum, max, exp of the maxima's difference; mean, variance
    const UbView* work = nullptr;
    Site site;
};

// One transfer: blocks of `block_bytes`, with gaps between them.
struct Transfer {
    const char* name;
    uint32_t block_count = 1;
    uint32_t block_bytes = 0;
    uint32_t gm_gap_bytes = 0;
    uint32_t ub_gap_blocks = 0;
    uint8_t element_bytes = 1;
    bool padded = false;     // DataCopyPad: any byte count; else whole 32-byte blocks
    bool fill = false;       // paddings take pad_bits
    uint8_t left_elements = 0;
    uint8_t right_elements = 0;
    uint64_t pad_bits = 0;
    Site site;
};

namespace api {

// --- where am I ---------------------------------------------------------------------------------------------------------
uint32_t block_index();
uint32_t block_count();
int64_t system_cycle();
uint32_t ub_bytes();

// --- memory and queues ----------------------------------------------------------------------------------------------------
void pipe_open(void* pipe, Site site);
void* pipe_current();
void pipe_close(Site site);
void pipe_reset(Site site);
int32_t queue_init(uint8_t source, uint8_t target, int32_t depth, uint32_t buffers, uint32_t bytes, Site site);
UbView buffer_init(uint8_t position, uint32_t bytes, Site site);
UbView queue_alloc(int32_t queue, Site site);
void queue_free(int32_t queue, const UbView& view, Site site);
bool queue_enque(int32_t queue, const UbView& view, uint8_t source, uint8_t target, Site site);
UbView queue_deque(int32_t queue, uint8_t source, uint8_t target, Site site);
int32_t queue_waiting(int32_t queue);
int32_t queue_idle(int32_t queue);
// Buffers are laid out from `head` on, up to `limit`; returns what held before.
struct UbCursor {
    uint32_t head;
    uint32_t limit;
};
UbCursor use_cursor(UbCursor cursor);
UbView scratch(uint32_t bytes, Site site); // the end of the unified buffer, which the toolkit keeps for its own functions
UbView static_alloc(uint8_t position, uint32_t address, uint32_t bytes, Site site);
void* ub_pointer(const UbView& view);

// --- data movement ----------------------------------------------------------------------------------------------------------
void copy_in(const UbView& dst, const void* src, const Transfer& transfer);
void copy_out(void* dst, const UbView& src, const Transfer& transfer);
void copy_local(const UbView& dst, const UbView& src, const Transfer& transfer);
void set_atomic(uint8_t operation, Dtype dtype, Site site); // 0 none, 1 add, 2 max, 3 min
void set_pad_value(uint64_t bits);

// --- scalar access ------------------------------------------------------------------------------------------------------------
uint64_t ub_get(const UbView& view, uint64_t offset, Dtype dtype, Site site);
void ub_set(const UbView& view, uint64_t offset, uint32_t bytes, uint64_t bits, Site site);
uint64_t gm_get(const void* base, uint64_t offset, Dtype dtype, Site site);
void gm_set(void* base, uint64_t offset, uint32_t bytes, uint64_t bits, Site site);
void charge_scalar(uint32_t cycles);

// --- synchronisation --------------------------------------------------------------------------------------------------------------
void set_flag(uint8_t event, int32_t id, Site site);
void wait_flag(uint8_t event, int32_t id, Site site);
int32_t fetch_event(uint8_t event, bool reserve, Site site);
void release_event(uint8_t event, int32_t id, Site site);
void barrier(int pipe, Site site);
void sync_all(Site site);

// --- vector unit --------------------------------------------------------------------------------------------------------------------
void vector(const VectorCall& call);
uint64_t gather_mask(const VectorCall& call); // returns how many elements were kept
void broadcast(const UbView& dst, const UbView& src, Dtype dtype, const uint32_t* to, const uint32_t* from, Site site);
void library(const LibraryCall& call);
void library_rows(const RowsCall& call);
void sort32(const UbView& dst, const UbView& scores, const UbView& indices, Dtype dtype, int32_t repeats, bool everything, const char* name, Site site);
// lengths: pairs in each queue. `taken`: how many of each are in dst afterwards.
void merge_sorted(const UbView& dst, const UbView* const* queues, const uint32_t* lengths, Dtype dtype, uint32_t valid, int32_t repeats,
    bool stop_when_empty, uint32_t* taken, Site site);
void extract_sorted(const UbView& values, const UbView& indices, const UbView& sorted, Dtype dtype, int32_t repeats, Site site);
void transpose_blocks(const UbView* const* dst, const UbView* const* src, Dtype dtype, bool dst_high, bool src_high, int32_t repeats,
    uint32_t dst_stride, uint32_t src_stride, const char* name, Site site);
UbView raw_view(uint64_t pointer, Site site); // UB from an address that ub_pointer gave
void set_mask(uint64_t high, uint64_t low);
void set_mask_mode(bool counter);
uint64_t last_reduction(int which); // 0 sum, 1 value, 2 index; bits of the element
void set_deq_scale(double scale);

// --- output of kernels ------------------------------------------------------------------------------------------------------------------
void print(const char* text);
void dump_ub(const UbView& view, Dtype dtype, uint32_t desc, uint32_t count, Site site);
void dump_gm(const void* base, Dtype dtype, uint32_t desc, uint32_t count, Site site);

// --- launch ---------------------------------------------------------------------------------------------------------------------------
void launch(const char* kernel, uint32_t blocks, void (*body)(void*), void* arguments, Site site);
[[noreturn]] void device_abort(const char* reason, Site site);

} // namespace api
} // namespace kope_twin

#endif
