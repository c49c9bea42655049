"""What ends a case early: raw access to device memory, crashes, endless loops, API calls in the wrong place."""

from __future__ import annotations

import numpy as np
import pytest

from .programs import Bench, Program, Shown, variants

RAW_GM = """
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    SetMaskNorm();
    float sum = 0.0f;
    for (int k = 0; k < 64; ++k) {
        sum += ((__gm__ float*)x)[k];
    }
    ((__gm__ float*)z)[0] = sum;
}
"""
RAW_UB = """
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    float* raw = buffer.Get<float>().GetPhyAddr();
    raw[3] = 1.0f;
}
"""
NULL = """
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    volatile int* nowhere = nullptr;
    *nowhere = 1;
}
"""
DEEP = """
__aicore__ int deeper(volatile char* above, int n)
{
    volatile char space[4096];
    space[0] = above[0];
    return n == 0 ? 0 : deeper(space, n - 1) + space[0];
}
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    char c = 0;
    volatile int result = deeper(&c, 1000000);
    (void)result;
}
"""
FOREVER = """
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    volatile int k = 0;
    while (k < 1) {
        k = 0;
    }
}
"""
FOREVER_WITH_API = """
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    volatile int k = 0;
    while (k < 1) {
        Duplicate(buffer.Get<float>(), 1.0f, 64);
        k = 0;
    }
}
"""
HEAP = """
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    volatile float* array = new float[100];
    array[0] = 1.0f;
    delete[] array;
}
"""
FOREIGN = """
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    static float host[64];
    GlobalTensor<float> gm;
    gm.SetGlobalBuffer(host);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    DataCopy(buffer.Get<float>(), gm, 64);
}
"""
KERNELS = [RAW_GM, RAW_UB, NULL, DEEP, FOREVER, FOREVER_WITH_API, HEAP, FOREIGN]


@pytest.fixture(scope="module")
def faulty(bench: Bench) -> Program:
    return variants(bench, KERNELS)


def run(faulty: Program, kernel: str, mode: str = "verify") -> Shown:
    parameters = {"device_time_limit_us": 20_000.0}
    return faulty.run(
        [np.ones(64, np.float32)] * 2, [256], mode=mode, attrs={"which": KERNELS.index(kernel)}, parameters=parameters
    )


@pytest.mark.parametrize("mode", ["verify", "time"])
@pytest.mark.parametrize("kernel", [RAW_GM, RAW_UB], ids=["device memory", "unified buffer"])
def test_a_raw_pointer_is_untimed_work(faulty: Program, kernel: str, mode: str) -> None:
    shown = run(faulty, kernel, mode)
    assert shown.errors == ["untimed-work"] and shown.result["untimed"] and shown.result["stopped"]
    assert "GetValue" in shown.finding("untimed-work")["remedy"]


def test_a_null_pointer_is_a_crash(faulty: Program) -> None:
    shown = run(faulty, NULL)
    assert shown.errors == ["crash"] and not shown.result["untimed"]
    assert "signal 11" in shown.finding("crash")["message"]


def test_endless_recursion_is_a_stack_overflow(faulty: Program) -> None:
    assert run(faulty, DEEP).errors == ["stack-overflow"]


@pytest.mark.parametrize("mode", ["verify", "time"])
@pytest.mark.parametrize("kernel", [FOREVER, FOREVER_WITH_API], ids=["without API", "with API"])
def test_an_endless_loop_ends_at_the_device_time_limit(faulty: Program, kernel: str, mode: str) -> None:
    shown = run(faulty, kernel, mode)
    assert shown.errors == ["device-timeout"] and shown.result["stopped"]
    assert "more than 20000 us" in shown.finding("device-timeout")["message"]


def test_heap_in_device_code_is_refused(faulty: Program) -> None:
    shown = run(faulty, HEAP)
    assert shown.errors == ["host-call"]
    assert "operator new[]" in shown.finding("host-call")["message"]


def test_memory_that_is_no_tensor_cannot_be_copied(faulty: Program) -> None:
    shown = run(faulty, FOREIGN)
    assert shown.errors == ["gm-oob"]
    assert "belongs to no tensor" in shown.finding("gm-oob")["message"]


HOST_CODE = """
__global__ __aicore__ void nothing(GM_ADDR x) { (void)x; }
__global__ __aicore__ void nested(GM_ADDR x) { kope_twin::launch("nothing", nothing, 1, nullptr, nullptr)(x); }
extern "C" int kope_entry(const KopeCall* call)
{
    float* x = (float*)call->inputs[0].data;
    switch (kope_attr_i(call, "which", 0)) {
        case 0: return x[0] > 0.5f;
        case 1: {
            LocalTensor<float> local;
            Exp(local, local, 8);
            return 0;
        }
        case 2: return (int)GetBlockIdx();
        case 3: kope_twin::launch("nested", nested, 1, nullptr, call->stream)((GM_ADDR)x); return 0;
        case 4: kope_twin::launch("nothing", nothing, 65536, nullptr, call->stream)((GM_ADDR)x); return 0;
        default: kope_twin::launch("nothing", nothing, 0, nullptr, call->stream)((GM_ADDR)x); return 0;
    }
}
"""


@pytest.mark.parametrize(
    ("which", "kind"),
    [
        (0, "untimed-work"),
        (1, "api-outside-kernel"),
        (2, "api-outside-kernel"),
        (3, "launch-outside-host"),
        (4, "block-count"),
        (5, "block-count"),
    ],
)
def test_host_code_cannot_touch_what_is_the_device_s(bench: Bench, which: int, kind: str) -> None:
    shown = bench.program(HOST_CODE).run([np.ones(64, np.float32)], [256], attrs={"which": which})
    assert shown.errors == [kind]
