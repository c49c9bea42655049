"""The target ascend on stand-in programs: built, run and timed by the code that hardware would see; how it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kope.errors import MachineError, ToolError
from kope.model import Built, Candidate, CaseRun, LaunchCase, RunMode, TensorFile, TensorSpec, TimeKind
from kope.target.ascend.target import AscendTarget, Choice
from kope.target.twin import TwinTarget
from tests.target.ascend.conftest import Install, Target
from tests.target.ascend.toolkit import NEW_A2, NEW_A3, OLD_A2, Generation, StandIn, install
from tests.target.launching import Call, changed, kernel, launch_case, read_output

X = np.linspace(-3, 3, 5001, dtype=np.float32)
EXP = Call([X], [((5001,), "float32")])


@pytest.mark.parametrize("generation", [NEW_A3, OLD_A2], ids=["9.1 on A3", "8.3 on 910B4"])
def test_a_kernel_is_built_run_and_timed(
    generation: Generation, install_toolkit: Install, target_on: Target, tmp_path: Path
) -> None:
    target = target_on(install_toolkit(generation))
    built = target.build(Candidate.of(kernel("exp")), tmp_path / "build")
    assert built.executable is not None, (built.diagnostics, built.log)
    case = launch_case(EXP, tmp_path / "data", "c0")
    ran = target.run(built, [case], "verify", tmp_path / "verify", time_limit_s=60.0)
    assert [(one.case_id, one.ok, one.diagnostics) for one in ran.cases] == [("c0", True, ())], ran.log
    assert np.allclose(read_output(case), np.exp(X), rtol=1e-5)
    timed = target.run(built, [case], "time", tmp_path / "time", time_limit_s=60.0)
    (one,) = timed.cases
    assert one.ok and len(one.duration_us) == 10, (one, timed.log)
    assert one.counters["aiv_mte2_ratio"] > 0.0
    assert target.time_kind is TimeKind.MEASURED


# --- one machine with two cards, and a kernel that is right on it ---------------------------------------------------


@pytest.fixture(scope="module")
def stand_in(twin: TwinTarget, twin_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    return install(tmp_path_factory.mktemp("machine") / "cann", NEW_A2, twin, twin_cache, ("OK", "OK"))


@pytest.fixture(scope="module")
def built(stand_in: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    made = AscendTarget(stand_in.home.parent / "cache", Choice(inherited=stand_in.inherited)).build(
        Candidate.of(kernel("exp")), folder / "build"
    )
    assert made.executable is not None, made.log
    return made


@pytest.fixture
def machine(stand_in: StandIn) -> Iterator[StandIn]:
    """The machine, obedient again when the test is over."""
    yield stand_in
    stand_in.obey_nothing()


def run(
    target: AscendTarget, built: Built, folder: Path, mode: RunMode = "verify", *, limit_s: float = 60.0, count: int = 1
) -> tuple[list[CaseRun], list[LaunchCase]]:
    cases = [launch_case(EXP, folder / "data", f"c{number}") for number in range(count)]
    ran = target.run(built, cases, mode, folder / mode, time_limit_s=limit_s)
    return list(ran.cases), cases


UB_FAULT = "EZ9999 The extend info: errorStr: VEC instruction error: the ub address out of bounds. blk:2, sublk:0"


def test_a_kernel_that_fails_twice_is_blamed_and_the_runtimes_words_name_the_kind(
    machine: StandIn, built: Built, target_on: Target, tmp_path: Path
) -> None:
    machine.tell_acl("sync", 507035, UB_FAULT)
    (failed,), _ = run(target_on(machine), built, tmp_path, count=2)
    assert (failed.case_id, failed.ok) == ("c0", False)
    (found,) = failed.diagnostics
    assert (found.kind, found.severity, found.case_id) == ("ub-oob", "error", "c0")
    assert "the ub address out of bounds in block 2" in found.message and found.remedy


def test_the_runtimes_log_is_read_and_what_a_candidate_prints_is_not(
    machine: StandIn, target_on: Target, tmp_path: Path
) -> None:
    target = target_on(machine)
    entry = 'extern "C" int kope_entry(const KopeCall* call)\n{'
    source = "#include <cstdio>\n" + kernel("exp").replace(entry, entry + ' printf("errorStr: L2 ECC error.\\n");')
    made = target.build(Candidate.of(source), tmp_path / "build")
    assert made.executable is not None, made.log
    machine.tell_acl("sync-and-log", 507035, UB_FAULT)
    (failed,), _ = run(target, made, tmp_path)
    assert [found.kind for found in failed.diagnostics] == ["ub-oob"]


def test_a_kernel_that_fails_once_is_run_again_before_it_is_blamed(
    machine: StandIn, built: Built, target_on: Target, tmp_path: Path
) -> None:
    machine.tell_acl("sync-once", 507035, UB_FAULT)
    runs, cases = run(target_on(machine), built, tmp_path, count=2)
    assert [(one.case_id, one.ok) for one in runs] == [("c0", True), ("c1", True)]
    assert [found.kind for found in runs[0].diagnostics] == ["transient"] and runs[1].diagnostics == ()
    assert np.allclose(read_output(cases[1]), np.exp(X), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("device", 107001, "no NPU is visible"),
        ("malloc", 207001, "device memory allocation failed"),
        ("sync", 507054, "ECC error"),
        ("init", 507899, "internal error of the driver"),
    ],
)
def test_environment_and_hardware_never_count_against_a_kernel(
    call: str, code: int, words: str, machine: StandIn, built: Built, target_on: Target, tmp_path: Path
) -> None:
    machine.tell_acl(call, code, "")
    with pytest.raises(MachineError, match=words):
        run(target_on(machine), built, tmp_path)


def test_a_hang_of_the_kernel_alone_is_its_fault_and_costs_no_card(
    machine: StandIn, built: Built, target_on: Target, tmp_path: Path
) -> None:
    target = target_on(machine, environment={"ASCEND_RT_VISIBLE_DEVICES": "1"})
    machine.tell_acl("sync", 507034, "aivec timeout")
    hanging = run(target, built, tmp_path / "first")[0] if target._runner._probe(1) else []
    assert [(one.ok, [found.kind for found in one.diagnostics]) for one in hanging] in (
        [(False, ["device-timeout"])],
        [],
    )


def test_a_card_on_which_a_good_kernel_hangs_is_taken_out_and_another_is_used(
    machine: StandIn, built: Built, target_on: Target, tmp_path: Path
) -> None:
    target = target_on(machine, tmp_path / "cache", probe_limit_s=3.0)
    assert target._runner._probe(0)
    machine.tell_acl("hang-0", 1, "")
    (one,), _ = run(target, built, tmp_path, limit_s=3.0)
    assert one.ok
    assert list(target.pool.taken_out()) == [0]
    machine.tell_acl("hang", 1, "")
    with pytest.raises(MachineError, match="every card hung twice.*reset it"):
        run(target, built, tmp_path / "again", limit_s=3.0)


def test_only_visible_cards_are_used(machine: StandIn, target_on: Target) -> None:
    target = target_on(machine, environment={"ASCEND_RT_VISIBLE_DEVICES": "1"})
    assert target.pool.usable() == (1,)
    with target.pool.card() as card:
        assert card == 1


def test_a_write_behind_an_output_and_what_is_never_written_are_found(
    machine: StandIn, target_on: Target, tmp_path: Path
) -> None:
    target = target_on(machine)
    source = changed(kernel("exp"), "DataCopyPad(y_[offset], y, copy);", "DataCopyPad(y_[offset + 8], y, copy);")
    made = target.build(Candidate.of(source), tmp_path / "build")
    (one,), _ = run(target, made, tmp_path)
    assert not one.ok
    found = {finding.kind: finding.message for finding in one.diagnostics}
    assert set(found) == {"gm-oob", "unwritten-output"}
    assert found["gm-oob"] == "32 bytes behind output y0 were overwritten, the first 0 bytes past its end"
    assert found["unwritten-output"].startswith(
        "output y0: 8 of 5001 elements never written, the first has flat index 0"
    )


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("return 7;", "entry-refused"),
        ("abort();", "crash"),
        ("for (;;) {}", "timeout"),
    ],
)
def test_host_code_that_refuses_dies_or_hangs_is_told_apart(
    body: str, kind: str, machine: StandIn, target_on: Target, tmp_path: Path
) -> None:
    target = target_on(machine)
    source = kernel("exp").replace(
        'extern "C" int kope_entry(const KopeCall* call)\n{',
        f'extern "C" int kope_entry(const KopeCall* call)\n{{ {body}',
    )
    made = target.build(Candidate.of("#include <cstdlib>\n" + source), tmp_path / "build")
    assert made.executable is not None, made.log
    (one,), _ = run(target, made, tmp_path, limit_s=3.0)
    assert (one.ok, [found.kind for found in one.diagnostics]) == (False, [kind])


def test_a_call_carries_shapes_dtypes_attributes_and_the_chip(
    machine: StandIn, target_on: Target, tmp_path: Path
) -> None:
    prints = """
    const KopeTensor& a = call->inputs[0];
    printf("%d %d [%ld %ld] %d|%s|", call->input_count, a.rank, a.shape[0], a.shape[1], a.dtype,
           call->inputs[1].data ? "there" : "omitted");
    printf("%.17g %ld %ld <%s>|", kope_attr_f(call, "eps", 0), kope_attr_i(call, "axis", 7),
           kope_attr_i(call, "flag", 7), kope_attr_s(call, "mode", "?"));
    printf("%d %ld %.17g|", kope_attr_count(call, "pads"), kope_attr_list_i(call, "pads", 1, 7),
           kope_attr_list_f(call, "pads", 2, 7));
    printf("%u %u %zu", call->vector_core_count, call->ub_bytes, call->workspace_bytes);
    return 0;
"""
    entry = 'extern "C" int kope_entry(const KopeCall* call)\n{'
    workspace = (
        '\nextern "C" size_t kope_workspace_bytes(const KopeCall* call) { return call->inputs[0].numel * 100; }\n'
    )
    source = "#include <cstdio>\n" + kernel("exp").replace(entry, entry + prints) + workspace
    target = target_on(machine)
    made = target.build(Candidate.of(source), tmp_path / "build")
    assert made.executable is not None, made.log
    np.zeros((2, 3), np.float16).tofile(tmp_path / "a")
    (tmp_path / "out").mkdir()
    case = LaunchCase(
        "c",
        (TensorFile(TensorSpec("a", (2, 3), "float16"), tmp_path / "a"), None),
        (TensorFile(TensorSpec("y", (2,), "float32"), tmp_path / "out" / "y"),),
        {"eps": 0.1, "axis": -1, "flag": True, "mode": "a b%c\né", "pads": (0, -(2**62) - 1, 0.1)},
    )
    ran = target.run(made, [case], "verify", tmp_path / "run", time_limit_s=60.0)
    seen = "2 2 [2 3] 1|omitted|0.10000000000000001 -1 1 <a b%c\né>|3 -4611686018427387905 0.10000000000000001|"
    assert ran.log == seen + "48 188160 600"
    assert [found.kind for found in ran.cases[0].diagnostics] == ["unwritten-output"]


# --- compiling ------------------------------------------------------------------------------------------------------


def test_a_compiler_error_is_data_with_its_line(machine: StandIn, target_on: Target, tmp_path: Path) -> None:
    source = changed(kernel("exp"), "Exp(wide, wide, n);", "Exq(wide, wide, n);")
    made = target_on(machine).build(Candidate.of(source), tmp_path / "build")
    assert made.executable is None
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "Exq" in text)
    assert {(found.file, found.line) for found in made.diagnostics} == {("candidate.asc", line)}
    assert "Exq" in made.log


@pytest.mark.parametrize(
    ("orders", "kind"),
    [
        (
            {"stderr": "error: stack frame size (16024) exceeds limit (16000) in function 'f'\n", "status": 1},
            "stack-size",
        ),
        ({"stderr": "ld.lld: error: undefined symbol: helper\n", "status": 1}, "link-error"),
        ({"stderr": "", "status": 254}, "compiler-crash"),
    ],
)
def test_a_compiler_that_gives_up_says_why(
    orders: dict[str, object], kind: str, machine: StandIn, target_on: Target, tmp_path: Path
) -> None:
    target = target_on(machine)
    assert target._known_good.known_good()
    machine.tell("bisheng", **orders)
    made = target.build(Candidate.of(kernel("exp")), tmp_path / "build")
    assert [found.kind for found in made.diagnostics] == [kind]


@pytest.mark.parametrize(
    ("header", "call", "words"),
    [
        ("cstdio", 'fclose(fopen("profile/op_summary_0.csv", "w"));', "fopen: files are not available"),
        ("cstdlib", 'system("true");', "system: processes and signals are not available"),
        ("cstdlib", 'getenv("HOME");', "getenv: the environment are not available"),
    ],
)
def test_what_no_kernel_needs_is_refused_by_its_symbol(
    header: str, call: str, words: str, machine: StandIn, target_on: Target, tmp_path: Path
) -> None:
    entry = 'extern "C" int kope_entry(const KopeCall* call)\n{'
    source = f"#include <{header}>\n" + kernel("exp").replace(entry, f"{entry} {call}")
    made = target_on(machine).build(Candidate.of(source), tmp_path / "build")
    assert made.executable is None
    assert any(words in found.message for found in made.diagnostics), made.diagnostics
    assert {found.kind for found in made.diagnostics} == {"forbidden-symbol"}


def test_a_broken_installation_is_no_outcome(machine: StandIn, target_on: Target, tmp_path: Path) -> None:
    machine.tell("bisheng", stderr="main.cpp:3:10: fatal error: 'acl/acl.h' file not found\n", status=1)
    with pytest.raises(ToolError, match="a header of the toolkit is missing"):
        target_on(machine).build(Candidate.of(kernel("exp")), tmp_path / "build")


@pytest.mark.parametrize("generation", [NEW_A2, OLD_A2], ids=["asc", "cce"])
def test_a_candidate_can_be_exported_as_a_library(
    generation: Generation, install_toolkit: Install, target_on: Target, tmp_path: Path
) -> None:
    target = target_on(install_toolkit(generation))
    made = target.build_library(Candidate.of(kernel("exp")), tmp_path / "build")
    assert made.executable is not None, made.log
    assert b"kope_entry" in made.executable.read_bytes()


# --- profiling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("profiler", "calls"), [("msprof", 10), ("msopprof", 5), ("simulator", 1)])
def test_every_profiler_gives_a_time_per_call(
    profiler: str, calls: int, machine: StandIn, target_on: Target, tmp_path: Path
) -> None:
    target = target_on(machine, profiler=profiler)
    made = target.build(Candidate.of(kernel("exp")), tmp_path / "build")
    runs, _ = run(target, made, tmp_path, "time", count=2)
    assert [(one.ok, len(one.duration_us), one.counters["Task Duration(us)"] > 0.0) for one in runs] == [
        (True, calls, True)
    ] * 2
    assert target.fingerprint().hardware.startswith("ascend:Ascend910B2:" + profiler)
    assert (target.time_kind is TimeKind.MODELLED) == (profiler == "simulator")


def test_a_profiler_that_writes_no_table_is_no_outcome(
    machine: StandIn, built: Built, target_on: Target, tmp_path: Path
) -> None:
    machine.tell("msprof", no_table=True)
    with pytest.raises(ToolError, match="msprof wrote no op_summary table"):
        run(target_on(machine), built, tmp_path, "time")


def test_a_profiler_that_refuses_says_its_last_words(
    machine: StandIn, built: Built, target_on: Target, tmp_path: Path
) -> None:
    machine.tell("msprof", stderr="[ERROR] drvDevOpen failed\n", status=2)
    with pytest.raises((ToolError, MachineError), match="drvDevOpen failed|status 2"):
        run(target_on(machine), built, tmp_path, "time")


def test_a_clock_below_its_rated_value_is_pointed_out(
    machine: StandIn, built: Built, target_on: Target, tmp_path: Path
) -> None:
    machine.tell("msopprof", throttled=True)
    (one,), _ = run(target_on(machine, profiler="msopprof"), built, tmp_path, "time")
    assert one.ok and [(found.kind, found.severity) for found in one.diagnostics] == [("throttled", "warning")]


def test_calls_that_launch_nothing_get_no_time(machine: StandIn, target_on: Target, tmp_path: Path) -> None:
    source = kernel("exp").replace(
        'extern "C" int kope_entry(const KopeCall* call)\n{',
        'extern "C" int kope_entry(const KopeCall* call)\n{ static int calls = 0; if (calls++ > LIMIT) return 0;',
    )
    for limit, profiler, kind in (
        ("5", "msprof", "uneven-calls"),
        ("-1", "msprof", "no-kernel"),
        ("-1", "msopprof", "no-kernel"),
    ):
        target = target_on(machine, profiler=profiler)
        made = target.build(Candidate.of(source.replace("LIMIT", limit)), tmp_path / f"build{limit}{profiler}")
        (one,), _ = run(target, made, tmp_path / f"{limit}{profiler}", "time")
        assert (one.ok, one.duration_us, [found.kind for found in one.diagnostics]) == (False, (), [kind])


# --- cards ----------------------------------------------------------------------------------------------------------


def test_a_driver_that_does_not_answer_is_one_line(machine: StandIn, target_on: Target) -> None:
    machine.tell("npu-smi", stderr="dcmi module initialize failed. ret is -8005\n", status=1)
    with pytest.raises(MachineError, match="npu-smi info failed .*-8005.*check the driver"):
        target_on(machine).fingerprint()


def test_without_a_healthy_card_the_simulator_is_used_and_a_profiler_refused(
    install_toolkit: Install, target_on: Target
) -> None:
    stand_in = install_toolkit(NEW_A2, ("Alarm", "Critical"))
    assert target_on(stand_in).fingerprint().hardware == "ascend:Ascend910B2:simulator"
    with pytest.raises(MachineError, match="msprof-warm needs a card and no healthy one is visible"):
        target_on(stand_in, profiler="msprof").fingerprint()


def test_told_orders_reach_the_stand_ins(machine: StandIn) -> None:
    machine.tell("msprof", no_table=True)
    assert json.loads((machine.home / "standin" / "told.json").read_text()) == {"msprof": {"no_table": True}}
    machine.obey_nothing()
    assert not (machine.home / "standin" / "told.json").exists()
