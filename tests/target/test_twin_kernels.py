"""Real kernels on the real twin: right values against NumPy, modelled times that behave."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from kope.target.profile import bottleneck, counters, read_profiles
from kope.target.twin import TwinTarget

from .launching import Call, build, changed, kernel, launch_case, line_of, read_output, run

RNG = np.random.default_rng(7)
ULP = {"float32": 2**-22, "float16": 2**-10, "bfloat16": 2**-7}
SIZES = (1, 31, 100, 4096, 100_003, 1 << 20)


def values(size: int, dtype: str) -> np.ndarray:
    wide = RNG.uniform(-4, 4, size).astype(np.float32)
    return wide.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_exp_is_right_for_every_length(twin: TwinTarget, tmp_path: Path, dtype: str) -> None:
    calls = [Call([values(size, dtype)], [((size,), dtype)]) for size in SIZES]
    cases, runs = run(twin, kernel("exp"), calls, tmp_path)
    assert [(one.ok, one.diagnostics) for one in runs] == [(True, ())] * len(SIZES)
    for call, case in zip(calls, cases, strict=True):
        want = np.exp(call.inputs[0].astype(np.float64))
        got = read_output(case).astype(np.float64)
        assert np.max(np.abs(got - want) / want) <= ULP[dtype]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_add_is_exact_for_every_length(twin: TwinTarget, tmp_path: Path, dtype: str) -> None:
    calls = [Call([values(size, dtype), values(size, dtype)], [((size,), dtype)]) for size in SIZES]
    cases, runs = run(twin, kernel("add"), calls, tmp_path)
    assert [(one.ok, one.diagnostics) for one in runs] == [(True, ())] * len(SIZES)
    for call, case in zip(calls, cases, strict=True):
        np.testing.assert_array_equal(read_output(case), call.inputs[0] + call.inputs[1])


def test_special_values_pass_through(twin: TwinTarget, tmp_path: Path) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 88.0, 89.0, -104.0], np.float32)
    (case,), (one,) = run(twin, kernel("exp"), [Call([x], [((9,), "float32")])], tmp_path)
    assert one.ok
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(read_output(case), np.exp(x), rtol=1e-6)


def test_time_mode_gives_the_time_of_verify_mode_without_data(twin: TwinTarget, tmp_path: Path) -> None:
    call = Call([values(100_003, "float32")], [((100_003,), "float32")])
    built = build(twin, kernel("exp"), tmp_path)
    case = launch_case(call, tmp_path / "data", "c")
    (verified,) = twin.run(built, [case], "verify", tmp_path / "v", time_limit_s=60).cases
    for tensor in (*case.inputs, *case.outputs):
        assert tensor is not None and tensor.path is not None
        tensor.path.unlink()
    (timed,) = twin.run(built, [case], "time", tmp_path / "t", time_limit_s=60).cases
    assert timed.duration_us == verified.duration_us
    assert timed.control_flow == verified.control_flow != ""
    assert timed.counters == verified.counters


def test_times_repeat_exactly_and_stay_above_the_bound(twin: TwinTarget, tmp_path: Path) -> None:
    calls = [Call([np.zeros(n, np.float32)], [((n,), "float32")]) for n in (1, 1000, 1 << 20, 4 << 20)]
    runs = [run(twin, kernel("exp"), calls, tmp_path / str(n), "time")[1] for n in range(2)]
    assert [one.duration_us for one in runs[0]] == [one.duration_us for one in runs[1]]
    for one in runs[0]:
        assert one.bound_us is not None and one.duration_us[0] >= one.bound_us
    assert runs[0][3].bound_us / runs[0][3].duration_us[0] > 0.6  # type: ignore[operator]


@pytest.mark.parametrize(
    ("old", "new", "at_least"),
    [
        ("tiling{total, per_core, 8192}", "tiling{total, per_core, 256}", 2.0),
        (
            "(total + call->vector_core_count - 1) / call->vector_core_count",
            "total",
            5.0,
        ),
    ],
)
def test_worse_schedules_take_longer(twin: TwinTarget, tmp_path: Path, old: str, new: str, at_least: float) -> None:
    call = Call([np.zeros(4 << 20, np.float32)], [((4 << 20,), "float32")])
    good = run(twin, kernel("exp"), [call], tmp_path / "good", "time")[1][0].duration_us[0]
    bad = run(twin, changed(kernel("exp"), old, new), [call], tmp_path / "bad", "time")[1][0].duration_us[0]
    assert bad / good > at_least


def test_double_buffering_shows_where_memory_does_not_hide_it(twin: TwinTarget, tmp_path: Path) -> None:
    small = changed(kernel("exp"), "tiling{total, per_core, 8192}", "tiling{total, per_core, 1024}")
    single = changed(small, "InitBuffer(in_, 2,", "InitBuffer(in_, 1,")
    single = changed(single, "InitBuffer(out_, 2,", "InitBuffer(out_, 1,")
    call = Call([np.zeros(1 << 20, np.float32)], [((1 << 20,), "float32")])
    double_us = run(twin, small, [call], tmp_path / "double", "time")[1][0].duration_us[0]
    single_us = run(twin, single, [call], tmp_path / "single", "time")[1][0].duration_us[0]
    assert 1.2 < single_us / double_us < 2.5


SCALAR_LOOP = """\
        for (uint64_t k = 0; k < count_; ++k) {
            y_.SetValue(k, expf(x_.GetValue(k)));
        }
        return;
"""


@pytest.mark.parametrize("size", [100, 4096, 1 << 18])
def test_a_scalar_loop_cannot_beat_the_vector_unit(twin: TwinTarget, tmp_path: Path, size: int) -> None:
    process = "        for (uint64_t done = 0; done < count_; done += tile_) {"
    scalar = changed(kernel("exp"), process, SCALAR_LOOP + process)
    scalar = changed(scalar, "using namespace AscendC;\n", "#include <cmath>\nusing namespace AscendC;\n")
    scalar = changed(scalar, "expf(x_.GetValue(k))", "static_cast<T>(expf(static_cast<float>(x_.GetValue(k))))")
    call = Call([values(size, "float32")], [((size,), "float32")])
    _, (vector,) = run(twin, kernel("exp"), [call], tmp_path / "vector", "time")
    (case,), (looped,) = run(twin, scalar, [call], tmp_path / "scalar")
    np.testing.assert_allclose(read_output(case), np.exp(call.inputs[0]), rtol=1e-6)
    if looped.duration_us:
        assert looped.duration_us[0] > 1.1 * vector.duration_us[0]
        assert bottleneck(looped.counters) in ("scalar", "launch")
    else:
        assert "untimed-work" in [one.kind for one in looped.diagnostics]


def test_raw_access_to_device_memory_is_untimed_work(twin: TwinTarget, tmp_path: Path) -> None:
    source = changed(
        kernel("exp"),
        "        count_ = count_ < tiling.per_core",
        "        count_ += static_cast<uint64_t>(*reinterpret_cast<__gm__ T*>(x));\n"
        "        count_ = count_ < tiling.per_core",
    )
    _, (one,) = run(twin, source, [Call([values(100, "float32")], [((100,), "float32")])], tmp_path)
    assert not one.ok and one.duration_us == ()
    (found,) = [found for found in one.diagnostics if found.severity == "error"]
    line = line_of(source, "*reinterpret_cast<__gm__ T*>(x)")
    assert (found.kind, found.file, found.line) == ("untimed-work", "candidate.asc", line)
    assert found.remedy


def test_profile_tree_holds_the_same_numbers(twin: TwinTarget, tmp_path: Path) -> None:
    case = launch_case(Call([values(1 << 20, "float32")], [((1 << 20,), "float32")]), tmp_path / "data", "c")
    built = build(twin, kernel("exp"), tmp_path)
    (one,) = twin.run(built, [case], "time", tmp_path / "t", time_limit_s=60).cases
    tree = twin.profile(built, case, tmp_path / "p", time_limit_s=60)
    assert tree is not None
    (profile,) = read_profiles(tree)
    assert profile.op_name == "exp_kernel<float>" and profile.modelled == "910b2:1"
    assert counters(profile) == pytest.approx(dict(one.counters), rel=1e-4, abs=1e-5)
    assert one.duration_us[0] == pytest.approx(profile.duration_us, abs=1e-6)
    assert one.counters["GM_to_UB_datas(KB)"] == 4096.0
    assert bottleneck(one.counters) == "mte2"


def test_fingerprint_names_chip_compiler_and_runtime(twin: TwinTarget, twin_cache: Path) -> None:
    mine = twin.fingerprint()
    other = TwinTarget(twin_cache, chip="910b4").fingerprint()
    assert (mine.target, mine.hardware, other.hardware) == ("twin", "twin:910b2:1", "twin:910b4:1")
    assert mine.toolchain == other.toolchain
    assert twin.builder.compiler.label in mine.toolchain and twin.builder.source_digest[:16] in mine.toolchain


def test_slower_memory_gives_longer_times(twin: TwinTarget, twin_cache: Path, tmp_path: Path) -> None:
    call = Call([np.zeros(4 << 20, np.float32)], [((4 << 20,), "float32")])
    small = TwinTarget(twin_cache, chip="910b4")
    fast = run(twin, kernel("exp"), [call], tmp_path / "b2", "time")[1][0]
    slow = run(small, kernel("exp"), [call], tmp_path / "b4", "time")[1][0]
    assert 1.9 < (slow.duration_us[0] - 3.0) / (fast.duration_us[0] - 3.0) < 2.5
