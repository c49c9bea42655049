"""Running candidates: tensors and attributes arrive, outputs come back, every way to die is told apart."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from kope import sandbox
from kope.errors import ToolError
from kope.model import AttrValue, LaunchCase, TensorFile, TensorSpec
from kope.target.twin import launch
from kope.target.twin.build import TwinBuilder
from kope.target.twin.runner import Reports, RunLimits, death, run_cases, spread

from .test_build import COPY, entry

PARAMETERS = {"vector_core_count": 40.0, "ub_kernel_bytes": 1000.0}
COPIER = "__global__ __aicore__ void k(GM_ADDR y, GM_ADDR x, uint64_t n) { AscendC::Copy(y, x, n); }"
CALL = "k<<<1, nullptr, call->stream>>>((GM_ADDR)call->outputs[0].data, (GM_ADDR)call->inputs[0].data, {bytes});"


def make_case(folder: Path, name: str, numel: int = 10, attrs: Mapping[str, AttrValue] | None = None) -> LaunchCase:
    folder.mkdir(parents=True, exist_ok=True)
    spec = TensorSpec("x", (numel,), "float32")
    path = folder / f"{name} input%.bin"
    np.arange(numel, dtype=np.float32).tofile(path)
    output = TensorFile(TensorSpec("y", (numel,), "float32"), folder / f"{name}.out")
    return LaunchCase(name, (TensorFile(spec, path),), (output,), attrs or {})


def run(
    tiny: TwinBuilder, text: str, cases: list[LaunchCase], folder: Path, *, limit_s: float = 20.0, jobs: int = 1
) -> Reports:
    built = tiny.build(text, folder / "build")
    assert built.executable, built.log
    return run_cases(
        built.executable,
        cases,
        "verify",
        folder / "run",
        parameters=PARAMETERS,
        limits=RunLimits(memory_bytes=512 << 20, jobs=jobs),
        time_limit_s=limit_s,
    )


def kinds(reports: Reports) -> list[str]:
    """Per case: "ok", the kinds of its findings, what it died of, or "not-run"."""
    words = []
    for report in reports.cases.values():
        found = [one.kind for one in launch.diagnostics(report.answer, "")]
        if report.death:
            found.append(report.death.kind)
        words.append(" ".join(found) or ("ok" if report.answer.state == "ended" else "not-run"))
    return words


def test_data_goes_in_and_comes_out(tiny: TwinBuilder, tmp_path: Path) -> None:
    cases = [make_case(tmp_path, f"case{n}", n) for n in (1, 7, 300, 0)]
    reports = run(tiny, COPY, cases, tmp_path, jobs=3)
    assert kinds(reports) == ["ok"] * 4
    for case in cases:
        assert case.inputs[0] is not None
        assert case.outputs[0].path.read_bytes() == case.inputs[0].path.read_bytes()  # type: ignore[union-attr]
    assert len(reports.steps) == 3
    assert reports.cases[0].answer.duration_us == 100.0
    assert reports.cases[0].answer.fields["launches"][0]["kernel"] == "copy_kernel"


def test_call_carries_shapes_dtypes_attributes_and_the_chip(tiny: TwinBuilder, tmp_path: Path) -> None:
    body = """\
    const KopeTensor& a = call->inputs[0];
    std::printf("%d %d [%ld %ld] %ld %d|", call->input_count, a.rank, a.shape[0], a.shape[1], a.numel, a.dtype);
    std::printf("%s %ld|", call->inputs[1].data ? "there" : "omitted", call->inputs[1].numel);
    std::printf("%d %d %ld|", call->inputs[2].rank, call->inputs[2].dtype, call->inputs[2].numel);
    std::printf("%.17g %ld %ld <%s> <%s> %g|", kope_attr_f(call, "eps", 0), kope_attr_i(call, "axis", 7),
                kope_attr_i(call, "flag", 7), kope_attr_s(call, "mode", "?"), kope_attr_s(call, "empty", "?"),
                kope_attr_f(call, "none", 2.5));
    std::printf("%d %ld %.17g %ld|", kope_attr_count(call, "pads"), kope_attr_list_i(call, "pads", 1, 7),
                kope_attr_list_f(call, "pads", 2, 7), kope_attr_list_i(call, "pads", 3, 7));
    std::printf("%u %u %zu", call->vector_core_count, call->ub_bytes, call->workspace_bytes);
    return 0;"""
    files = {"a": np.zeros((2, 3), np.float16), "s": np.zeros((), np.int64)}
    for name, values in files.items():
        values.tofile(tmp_path / name)
    case = LaunchCase(
        "c",
        (
            TensorFile(TensorSpec("a", (2, 3), "float16"), tmp_path / "a"),
            None,
            TensorFile(TensorSpec("s", (), "int64"), tmp_path / "s"),
        ),
        (TensorFile(TensorSpec("y", (2,), "float32"), tmp_path / "y"),),
        {"eps": 0.1, "axis": -1, "flag": True, "mode": "a b%c\né", "empty": "", "pads": (0, -(2**62) - 1, 0.1)},
    )
    workspace = 'extern "C" size_t kope_workspace_bytes(const KopeCall* call) { return call->inputs[0].numel * 100; }'
    reports = run(tiny, entry(body, workspace), [case], tmp_path)
    seen = "3 2 [2 3] 6 1|omitted 0|0 6 1|0.10000000000000001 -1 1 <a b%c\né> <> 2.5|"
    assert reports.log == seen + "3 -4611686018427387905 0.10000000000000001 7|40 1000 600"
    assert kinds(reports) == ["unwritten-output no-launch"]


def test_part_of_the_output_never_written(tiny: TwinBuilder, tmp_path: Path) -> None:
    text = entry("    " + CALL.format(bytes="7 * 4") + "\n    return 0;", COPIER)
    reports = run(tiny, text, [make_case(tmp_path, "c")], tmp_path)
    (found,) = launch.diagnostics(reports.cases[0].answer, "c")
    assert (found.kind, found.message) == (
        "unwritten-output",
        "output y: 3 of 10 elements never written, the first at [7]",
    )


def test_refused_entry_shows_its_code(tiny: TwinBuilder, tmp_path: Path) -> None:
    reports = run(tiny, entry("    return 17;"), [make_case(tmp_path, "c")], tmp_path)
    (found,) = launch.diagnostics(reports.cases[0].answer, "c")
    assert (found.kind, found.message) == ("entry-refused", "kope_entry returned 17")


def test_a_crash_stops_its_own_case_only(tiny: TwinBuilder, tmp_path: Path) -> None:
    body = f"""\
    if (call->inputs[0].numel == 8) {{ volatile int* p = nullptr; *p = 1; }}
    if (call->inputs[0].numel == 9) {{ volatile int zero = 0; return 5 / zero; }}
    if (call->inputs[0].numel == 11) {{ std::abort(); }}
    {CALL.format(bytes="call->inputs[0].numel * 4")}
    return 0;"""
    cases = [make_case(tmp_path, f"c{n}", n) for n in (7, 8, 9, 10, 11, 12)]
    reports = run(tiny, entry(body, "#include <cstdlib>\n" + COPIER), cases, tmp_path)
    assert kinds(reports) == ["ok", "crash", "crash", "ok", "crash", "ok"]
    deaths = [report.death.message for report in reports.cases.values() if report.death]
    assert deaths == [
        "the candidate touched memory that is not its own (SIGSEGV)",
        "the candidate divided an integer by zero (SIGFPE)",
        "the candidate called abort (SIGABRT)",
    ]


def test_a_hang_ends_at_the_limit_and_later_cases_are_not_run(tiny: TwinBuilder, tmp_path: Path) -> None:
    body = f"""\
    while (call->inputs[0].numel == 8) {{ }}
    {CALL.format(bytes="call->inputs[0].numel * 4")}
    return 0;"""
    cases = [make_case(tmp_path, f"c{n}", n) for n in (7, 8, 9)]
    began = time.monotonic()
    reports = run(tiny, entry(body.replace("{ }", "{ std::fflush(stdout); }"), COPIER), cases, tmp_path, limit_s=1.0)
    assert kinds(reports) == ["ok", "timeout", "not-run"]
    assert "1 s" in reports.cases[1].death.message  # type: ignore[union-attr]
    assert time.monotonic() - began < 30.0


def test_what_does_not_work_either_ends_by_the_clock(
    tiny: TwinBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "PATIENCE", 0.1)
    body = "    volatile long turns = 0;\n    while (true) { turns = turns + 1; }"
    reports = run(tiny, entry(body), [make_case(tmp_path, "c")], tmp_path, limit_s=10.0)
    assert [report.death and report.death.message for report in reports.cases.values()] == [
        "the candidate did not end within 1 s by the clock"
    ]


def test_processes_behind_a_death_share_one_limit(tiny: TwinBuilder, tmp_path: Path) -> None:
    body = """    volatile long turns = 0;
    while (call->inputs[0].numel == 9) { turns = turns + 1; }
    if (call->inputs[0].numel == 7) { while (turns < 400000000) { turns = turns + 1; } std::abort(); }
    return 0;"""
    cases = [make_case(tmp_path, f"c{n}", n) for n in (7, 9)]
    text = entry(body, "#include <cstdlib>")
    tiny.build(text, tmp_path / "build")  # what is measured below is running alone
    before_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    reports = run(tiny, text, cases, tmp_path, limit_s=2.0)
    assert kinds(reports) == ["crash", "timeout"]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before_s < 4.0


def test_a_printed_flood_is_stopped(tiny: TwinBuilder, tmp_path: Path) -> None:
    body = '    for (long k = 0; k < (1L << 30) / 33; ++k) { std::puts("0123456789abcdef0123456789abcdef"); }'
    reports = run(tiny, entry(body + "\n    return 0;"), [make_case(tmp_path, "c")], tmp_path)
    assert kinds(reports) == ["output-flood"]
    assert len(reports.log) < 1 << 20


def test_endless_memory_is_stopped(tiny: TwinBuilder, tmp_path: Path) -> None:
    body = "    static void* volatile kept;\n    for (;;) { kept = std::malloc(9999); std::memset(kept, 1, 9999); }"
    reports = run(tiny, entry(body, "#include <cstdlib>"), [make_case(tmp_path, "c")], tmp_path)
    assert kinds(reports) in (["memory-limit"], ["crash"])


def test_a_candidate_cannot_answer_for_the_harness(tiny: TwinBuilder, tmp_path: Path) -> None:
    body = '    std::puts("{\\"event\\":\\"end\\",\\"case\\":0,\\"duration_us\\":0.1}"); std::fflush(stdout); return 3;'
    reports = run(tiny, entry(body), [make_case(tmp_path, "c")], tmp_path)
    assert kinds(reports) == ["entry-refused"]
    assert reports.cases[0].answer.duration_us == 0.0


def test_answers_without_the_nonce_or_cut_short_are_ignored() -> None:
    data = b'{"nonce":"n","event":"begin","case":0}\n'
    data += b'{"nonce":"x","event":"end","case":0}\n[1]\n{"nonce":"n","event":"end","ca'
    answers = launch.read_answers(data, "n", [0, 1])
    assert [answer.state for answer in answers.values()] == ["begun", "not-run"]


def test_input_that_is_not_what_it_says_is_an_error_of_kope(tiny: TwinBuilder, tmp_path: Path) -> None:
    case = make_case(tmp_path, "c")
    os.truncate(case.inputs[0].path, 12)  # type: ignore[union-attr,arg-type]
    with pytest.raises(ToolError, match="has 12 bytes, 40 expected"):
        run(tiny, COPY, [case], tmp_path)


def test_unknown_parameter_is_an_error_of_kope(tiny: TwinBuilder, tmp_path: Path) -> None:
    built = tiny.build(COPY, tmp_path / "b")
    assert built.executable
    with pytest.raises(ToolError, match="no parameter unknown"):
        run_cases(
            built.executable,
            [make_case(tmp_path, "c")],
            "verify",
            tmp_path / "run",
            parameters={"unknown": 1.0},
            limits=RunLimits(),
            time_limit_s=20.0,
        )


def test_cases_are_spread_by_size_and_keep_their_order(tmp_path: Path) -> None:
    sizes = [4 << 20, 1, 2 << 20, 2 << 20, 1 << 19]
    spec = [TensorFile(TensorSpec("x", (size,), "float32"), None) for size in sizes]
    cases = [(n, LaunchCase(str(n), (), (one,), {})) for n, one in enumerate(spec)]
    assert [[n for n, _ in group] for group in spread(cases, 2)] == [[0, 4], [1, 2, 3]]
    assert [[n for n, _ in group] for group in spread(cases, 1)] == [[0, 1, 2, 3, 4]]
    assert len(spread(cases, 9)) == 5
    assert spread([], 4) == []


@pytest.mark.parametrize(
    ("returncode", "stopped", "begun", "kind", "words"),
    [
        (-9, "timeout", True, "timeout", "did not end within 24 s by the clock"),
        (-9, "cpu", True, "timeout", "did not end within 3 s of processor time"),
        (-9, "memory", False, "memory-limit", "more than 64 MiB before the first case"),
        (-25, "file-size", True, "output-flood", "wrote without end"),
        (-9, "processes", True, "fork-attempt", "started processes"),
        (-31, "", True, "forbidden-call", "SIGSYS"),
        (-11, "", False, "crash", "before the first case (a static initialiser?) (SIGSEGV)"),
        (-77, "", True, "crash", "signal 77"),
        (3, "", True, "crash", "ended with status 3"),
    ],
)
def test_deaths_are_told_apart(returncode: int, stopped: str, begun: bool, kind: str, words: str) -> None:
    found = death(returncode, stopped, limit_s=3.0, memory_bytes=64 << 20, begun=begun)
    assert found.kind == kind and words in found.message
    assert found.remedy
