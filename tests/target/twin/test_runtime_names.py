"""The rest of the API by name: queues and pools asked about themselves, scalar helpers, older spellings, atomics, printing."""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from .programs import Bench, Program, Step, check_step, run_step, step_program, variants

ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(3)
A = RNG.uniform(-4, 4, 64).astype(np.float32)
HALF = RNG.integers(-9, 9, 64).astype(np.float16)
MORE = RNG.integers(-9, 9, 64).astype(np.float16)

SCALARS = [
    ("CeilDivision(7, 3)", 3),
    ("DivCeil(7, 3)", 3),
    ("AlignUp(7, 4)", 8),
    ("ScalarCountLeadingZero(1)", 63),
    ("ScalarGetCountOfValue<1>(7)", 3),
    ("ScalarGetCountOfValue<0>(7)", 61),
    ("ScalarGetSFFValue<1>(8)", 3),
    ("ScalarGetSFFValue<0>(3)", 2),
    ("AscendCUtils::GetC0Size()", 32),
    ("AscendCUtils::GetC0Count<half>()", 16),
    ("AscendCUtils::GetC0Count(4)", 8),
    ("AscendCUtils::GetBitSize(4)", 32),
    ("get_block_idx()", 0),
    ("GetSubBlockIdx()", 0),
    ("GetSubBlockNum()", 1),
    ("GetTaskRatio()", 1),
    ("GetTaskRation()", 1),
    ("GetDataBlockSizeInBytes()", 32),
    ("GetSortLen<half>(32)", 128),
    ("GetSortOffset<float>(32)", 64),
    ("(int)ToFloat(ToBfloat16(3.0f))", 3),
    ("GetUserWorkspace(nullptr) == nullptr", 1),
    ("GetSysWorkSpacePtr() == nullptr", 1),
    ("GetSystemCycle() >= 0", 1),
    ("a.GetLength()", 48 * 1024),
    ("A<half>().GetSize()", 24 * 1024),
    ("a.GetPosition()", 11),
    ("LocalMemAllocator<>().GetCurAddr()", 0),
]
PUT = " ".join(f"D<int32_t>().SetValue({k}, (int32_t)({code}));" for k, (code, _) in enumerate(SCALARS))

STEPS = [
    Step(
        "scalars",
        f"SetSysWorkspace(nullptr); SetSysWorkspaceForce(nullptr); {PUT}",
        A,
        np.array([want for _, want in SCALARS], np.int32),
    ),
    Step(
        "older flags",
        "set_flag(PIPE_S, PIPE_V, EVENT_ID1); wait_flag(PIPE_S, PIPE_V, EVENT_ID1); Adds(D<float>(), A<float>(), 1.0f, 64); pipe_barrier(PIPE_V); Adds(D<float>(), D<float>(), 1.0f, 64);",
        A,
        A + np.float32(1) + np.float32(1),
    ),
    Step(
        "mask by its older name",
        "AscendCUtils::SetMask<float>(0, 0xff); Adds<float, false>(D<float>(), A<float>(), 1.0f, MASK_PLACEHOLDER, 1, UnaryRepeatParams(1, 1, 8, 8)); AscendCUtils::ResetMask();",
        A,
        np.concatenate([A[:8] + np.float32(1), np.zeros(56, np.float32)]),
        d0=np.zeros(64, np.float32),
    ),
    Step("MulCast", "MulCast(D<int8_t>(), A<half>(), B<half>(), 64);", HALF, (HALF * MORE).astype(np.int8), b=MORE),
    Step(
        "AddReluCast",
        "AddReluCast(D<int8_t>(), A<half>(), B<half>(), 64);",
        HALF,
        np.maximum(HALF + MORE, 0).astype(np.int8),
        b=MORE,
    ),
    Step(
        "SubReluCast",
        "SubReluCast(D<int8_t>(), A<half>(), B<half>(), 64);",
        HALF,
        np.maximum(HALF - MORE, 0).astype(np.int8),
        b=MORE,
    ),
    Step("Compares", "Compares(d, A<float>(), 0.5f, CMPMODE::GT, 64);", A, np.packbits(A > 0.5, bitorder="little")),
    Step(
        "BroadCast",
        "const uint32_t to[] = {2, 64}, from[] = {1, 64}; BroadCast<float, 2, 0>(D<float>(), A<float>(), to, from);",
        A,
        np.tile(A, 2),
    ),
    Step(
        "what a reduction leaves",
        "WholeReduceSum(W<float>(), A<float>(), 64, 1, 1, 1, 8); D<float>().SetValue(0, GetReduceRepeatSumSpr<float>()); ReduceMax(W<float>(), A<float>(), W<float>()[64], 64, true); float v, i, u, j;"
        " GetReduceRepeatMaxMinSpr<float>(v, i); GetReduceMaxMinCount<float>(u, j); D<float>().SetValue(1, v); D<float>().SetValue(2, u); D<int32_t>().SetValue(3, kope_twin::bits_of(i)); D<int32_t>().SetValue(4, kope_twin::bits_of(j));",
        A,
        np.concatenate([[A.reshape(-1).astype(np.float32)[:0].sum()], []]).astype(np.float32),
        d0=np.zeros(8, np.float32),
    ),
    Step(
        "ReducePairElem",
        "ReducePairElem<ReduceType::SUM>(D<float>(), A<float>(), 64, 1, 1, 1, 8);",
        A,
        A.reshape(-1, 2).sum(axis=1),
    ),
    Step(
        "vcadd",
        "SetVectorMask<float>(0, ~0ULL); vcadd(D<float>().GetPhyAddr(), A<float>().GetPhyAddr(), 1, 1, 1, 8, true); vcadd(nullptr, A<float>().GetPhyAddr(), 1, 1, 1, 8, true); D<float>().SetValue(1, GetAccVal<float>() - D<float>().GetValue(0)); D<float>().SetValue(2, kope_twin::from_bits<float>(GetAccVal())); D<float>().SetValue(3, kope_twin::from_bits<float>(get_acc_val()));",
        np.arange(64, dtype=np.float32),
        np.array([2016, 0, 2016, 2016], np.float32),
    ),
    Step(
        "SoftmaxGrad",
        "SoftMaxTiling t; SoftmaxGrad<float>(D<float>(), B<float>(), A<float>(), w, t, false, SoftMaxShapeInfo{4, 16, 4, 16});",
        np.full((4, 16), 0.5, np.float32),
        np.tile((np.arange(16, dtype=np.float32) - 60) * np.float32(0.5), (4, 1)),
        b=np.tile(np.arange(16, dtype=np.float32), (4, 1)),
    ),
    Step(
        "pools",
        """TBufPool<TPosition::VECCALC> whole, part, same; TBuf<TPosition::VECCALC> first, second; TPipe* pipe = GetTPipePtr();
        pipe->InitBufPool(whole, 8192); whole.InitBufPool(part, 4096); whole.InitBufPool(same, 4096, part);
        part.InitBuffer(first, 256); same.InitBuffer(second, 256);
        Adds(first.Get<float>(), A<float>(), 1.0f, 64); PipeBarrier<PIPE_V>(); Adds(D<float>(), second.Get<float>(), 1.0f, 64);
        part.Reset(); part.InitBuffer(first, 512); D<int32_t>().SetValue(64, (int32_t)first.Get<float>().GetSize());""",
        A,
        np.concatenate([A + np.float32(1) + np.float32(1), np.array([128], np.int32).view(np.float32)]),
    ),
    Step(
        "queues asked",
        """TQue<TPosition::VECOUT, 2> q; GetTPipePtr()->InitBuffer(q, 2, 256); LocalTensor<int32_t> r = D<int32_t>();
        r.SetValue(0, q.HasTensorInQue()); r.SetValue(1, q.VacantInQue()); r.SetValue(2, q.HasIdleBuffer());
        LocalTensor<float> x = q.AllocTensor<float>(), y = q.AllocTensor<float>(); r.SetValue(3, q.HasIdleBuffer());
        q.EnQue(x); q.EnQue(y); r.SetValue(4, q.GetTensorCountInQue()); r.SetValue(5, q.VacantInQue()); q.FreeAllEvent();
        x = q.DeQue<float>(); q.DeQue(); q.FreeTensor(x); q.FreeTensor(y);""",
        A,
        np.array([0, 1, 1, 0, 2, 0], np.int32),
    ),
    Step(
        "parts of buffers",
        """TBuf<TPosition::VECCALC> buf; GetTPipePtr()->InitBuffer(buf, 512); LocalTensor<float> upper = buf.GetWithOffset<float>(64, 256), view;
        Adds(upper, A<float>(), 1.0f, 64); PipeBarrier<PIPE_V>(); LocalTensor<float> all = buf.Get<float>(); view.SetAddrWithOffset(all, 64); view.SetBufferLen(256);
        Adds(D<float>(), view, 0.0f, 64); LocalTensor<float> rest; PopStackBuffer<float, TPosition::LCM>(rest); Adds(rest, A<float>(), 0.0f, 64);""",
        A,
        A + np.float32(1),
    ),
    Step(
        "event ids",
        """TPipe* pipe = GetTPipePtr(); const TEventID id = pipe->AllocEventID<HardEvent::V_S>(), other = pipe->FetchEventID(HardEvent::V_S);
        SetFlag<HardEvent::V_S>(id); WaitFlag<HardEvent::V_S>(id); pipe->ReleaseEventID<HardEvent::V_S>(id);
        D<int32_t>().SetValue(0, id); D<int32_t>().SetValue(1, other);""",
        A,
        np.array([0, 1], np.int32),
    ),
    Step(
        "tensor lists",
        """int64_t shape[] = {2, 3}; KopeTensor tensor{(void*)0x40, shape, 2, KOPE_FLOAT32, 6}; uint64_t words[2 + 512] = {16, 1, 0x40}; words[2 + 256] = (uint64_t)&tensor;
        ListTensorDesc list(words); uint64_t extents[2]; TensorDesc<float> desc; desc.SetShapeAddr(extents); list.GetDesc(desc, 0);
        LocalTensor<int32_t> r = D<int32_t>(); r.SetValue(0, list.GetSize()); r.SetValue(1, (int32_t)(uint64_t)list.GetDataPtr<float>(0)); r.SetValue(2, (int32_t)desc.GetDim()); r.SetValue(3, (int32_t)extents[1]);""",
        A,
        np.array([1, 0x40, 2, 3], np.int32),
    ),
]
LEFT = next(index for index, step in enumerate(STEPS) if step.name == "what a reduction leaves")


@pytest.fixture(scope="module")
def program(bench: Bench) -> Program:
    return step_program(bench, STEPS)


@pytest.mark.parametrize(
    "index",
    [k for k in range(len(STEPS)) if k != LEFT],
    ids=[step.name for step in STEPS if step.name != STEPS[LEFT].name],
)
def test_a_name_does_what_it_says(program: Program, index: int) -> None:
    check_step(program, index, STEPS[index])


def test_a_reduction_leaves_its_results_to_the_scalar_unit(program: Program) -> None:
    shown = run_step(program, LEFT, STEPS[LEFT])
    assert shown.errors == []
    got = np.frombuffer(shown.outputs[0], np.float32)
    np.testing.assert_allclose(got[0], A.sum(), rtol=1e-5)
    assert got[1] == got[2] == A.max()
    assert list(got[3:5].view(np.int32)) == [A.argmax(), A.argmax()]


GM = [
    """__global__ __vector__ void add(GM_ADDR x, GM_ADDR, GM_ADDR out) {
    GlobalTensor<float> z; z.SetGlobalBuffer((__gm__ float*)out); z.SetL2CacheHint(CacheMode::CACHE_MODE_NORMAL); GlobalTensor<float> in; in.SetGlobalBuffer((__gm__ float*)x);
    TPipe pipe; TBuf<TPosition::VECCALC> buf; pipe.InitBuffer(buf, 256); LocalTensor<float> t = buf.Get<float>();
    InitGlobalMemory(z, 64, 0.0f); InitOutput<float>(z[64], 64, 0.5f); GlobalTensor<float> upper = z[64]; Fill(upper, 64, 1.0f);
    DataCopy(t, in, 64); PipeBarrier<PIPE_ALL>();
    SetAtomicMax<float>(); DataCopy(z, t, 64); PipeBarrier<PIPE_ALL>(); SetAtomicMin<float>(); DataCopy(z[64], t, 64); PipeBarrier<PIPE_ALL>(); DisableDmaAtomic();
    DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE>(z); pipe.Reset(); pipe.Destroy(); }""",
    """__global__ __vector__ void add(GM_ADDR x, GM_ADDR, GM_ADDR out) {
    GlobalTensor<float> z, in; z.SetGlobalBuffer((__gm__ float*)out); in.SetGlobalBuffer((__gm__ float*)x);
    TPipe pipe; TBuf<TPosition::VECCALC> buf; pipe.InitBuffer(buf, 512); LocalTensor<float> t = buf.Get<float>();
    SetPadValue(7.0f); DataCopyPad(t, in, DataCopyExtParams(1, 20, 0, 0, 0), DataCopyPadExtParams<float>{false, 0, 3, 0.0f}); PipeBarrier<PIPE_ALL>();
    DumpTensor(t, 5, 8); DumpAccChkPoint(t, 1, 0, 2); AscendC::printf("half %f and %d\\n", (half)1.5, 3);
    DataCopy(z, t, 8); PipeBarrier<PIPE_ALL>(); DumpTensor(z, 6, 8); }""",
    "__global__ __vector__ void add(GM_ADDR, GM_ADDR, GM_ADDR) { Trap(); }",
    '__global__ __vector__ void add(GM_ADDR, GM_ADDR, GM_ADDR) { ascendc_assert(GetBlockNum() == 7, "seven"); }',
]


@pytest.fixture(scope="module")
def on_memory(bench: Bench) -> Program:
    return variants(bench, GM)


def test_atomics_combine_with_memory_that_was_filled(on_memory: Program) -> None:
    shown = on_memory.run([A, A], [512], attrs={"which": 0, "blocks": 1})
    assert shown.result["findings"] == []
    np.testing.assert_array_equal(
        np.frombuffer(shown.outputs[0], np.float32), np.concatenate([np.maximum(A, 0), np.minimum(A, 1)])
    )


def test_paddings_take_the_value_set_before(on_memory: Program) -> None:
    shown = on_memory.run([A, A], [32], attrs={"which": 1, "blocks": 1})
    assert shown.errors == []
    np.testing.assert_array_equal(
        np.frombuffer(shown.outputs[0], np.float32), np.concatenate([A[:5], [7, 7, 7]]).astype(np.float32)
    )


@pytest.mark.parametrize(("which", "words"), [(2, "Trap"), (3, "assertion failed: GetBlockNum() == 7")])
def test_a_kernel_that_stops_itself_is_named(on_memory: Program, which: int, words: str) -> None:
    assert words in on_memory.run([A, A], [32], attrs={"which": which, "blocks": 1}).finding("trap")["message"]


def test_the_list_of_the_api_is_current_and_every_name_in_it_is_tested() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "twin_api.py"))
    document = script["document"]()
    assert (ROOT / "docs" / "twin-api.md").read_text("utf-8") == document, "run scripts/docs"
    names = re.findall(r"^\| `(\w+)`", document, re.MULTILINE)
    assert len(names) > 200
    sources = "".join(
        path.read_text("utf-8")
        for path in (ROOT / "tests" / "target").rglob("*")
        if path.suffix in (".py", ".asc", ".cpp")
    )
    assert [name for name in names if not re.search(rf"\b{name}\b", sources)] == []
