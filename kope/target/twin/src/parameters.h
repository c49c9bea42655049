// The chip as the model sees it. Names are those of control::set_parameter.
#ifndef KOPE_TWIN_SRC_PARAMETERS_H
#define KOPE_TWIN_SRC_PARAMETERS_H

namespace kope_twin {
namespace runtime {

// X(name, default, meaning). Defaults describe the 910B2. "guess": nobody has published the number.
#define KOPE_TWIN_PARAMETERS(X)                                                                                                            \
    X(clock_mhz, 1800.0, "clock of scalar and vector unit")                                                                                \
    X(vector_core_count, 48.0, "vector cores (AIV)")                                                                                       \
    X(ub_bytes, 196608.0, "unified buffer of a core")                                                                                      \
    X(launch_us, 3.0, "from launch to the first instruction and from the last to the end (guess)")                                         \
    X(block_start_cycles, 200.0, "start of a block on a core (guess)")                                                                     \
    X(gm_bandwidth_gbps, 1750.0, "device memory, all cores together, reads and writes together")                                          \
    X(gm_to_ub_gbps, 214.11, "one core reading")                                                                                           \
    X(ub_to_gm_gbps, 181.75, "one core writing")                                                                                           \
    X(l2_gbps, 0.0, "L2 cache, all cores together, reads and writes together; 0: no cache is modelled")                                     \
    X(l2_bytes, 201326592.0, "L2 cache: what was touched less than this ago is read from there")                                           \
    X(l2_write_back_bytes, 0.0, "written bytes of a case that the cache still holds at its end, and the device memory never sees")         \
    X(gm_read_latency_ns, 450.0, "from the issue of a read to its data being visible, beyond the transfer (guess)")                        \
    X(gm_write_latency_ns, 250.0, "from the end of a write to its completion being visible (guess)")                                       \
    X(move_head_cycles, 24.0, "occupation of MTE2 or MTE3 by a transfer instruction, beyond the transfer (guess)")                         \
    X(burst_cycles, 4.0, "occupation by every further block of a strided transfer (guess)")                                                \
    X(gm_unaligned_port_factor, 1.43, "a core's port is slower by this when a transfer does not start at 512 bytes (measured worst case: 70 %)")     \
    X(gm_granule_bytes, 32.0, "a transfer's blocks occupy the memory in multiples of this")                                               \
    X(vector_head_cycles, 16.0, "occupation of the vector unit by an instruction, beyond its throughput (guess)")                          \
    X(vector_latency_cycles, 8.0, "from the end of a vector instruction to its results being visible (guess)")                             \
    X(issue_cycles, 12.0, "scalar unit, for one instruction: operands, mask, issue (guess)")                                               \
    X(queue_cycles, 16.0, "scalar unit, for one queue operation: AllocTensor, EnQue, DeQue, FreeTensor (guess)")                           \
    X(flag_cycles, 4.0, "scalar unit, for SetFlag or WaitFlag (guess)")                                                                    \
    X(flag_latency_cycles, 20.0, "from the source pipe's completion to the target pipe's start (guess)")                                   \
    X(barrier_cycles, 20.0, "PipeBarrier<PIPE_ALL>, beyond waiting (guess)")                                                               \
    X(sync_all_cycles, 1800.0, "SyncAll, beyond waiting for the last core (guess)")                                                        \
    X(scalar_block_cycles, 6.0, "one basic block of scalar code (guess)")                                                                  \
    X(scalar_call_cycles, 40.0, "one call of a mathematical library function in device code (guess)")                                      \
    X(ub_scalar_read_cycles, 30.0, "GetValue on a LocalTensor (guess)")                                                                    \
    X(ub_scalar_write_cycles, 12.0, "SetValue on a LocalTensor (guess)")                                                                   \
    X(gm_scalar_read_cycles, 180.0, "GetValue on a GlobalTensor (guess)")                                                                  \
    X(gm_scalar_write_cycles, 60.0, "SetValue on a GlobalTensor (guess)")                                                                  \
    X(pipe_queue_depth, 32.0, "instructions a pipe takes before the scalar unit has to wait")                                             \
    X(device_time_limit_us, 1.0e7, "a block that must take longer is stopped: device-timeout")

struct Parameters {
#define KOPE_TWIN_FIELD(name, value, meaning) double name = value;
    KOPE_TWIN_PARAMETERS(KOPE_TWIN_FIELD)
#undef KOPE_TWIN_FIELD
};

extern Parameters parameters;

} // namespace runtime
} // namespace kope_twin

#endif
