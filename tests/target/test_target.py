"""TwinTarget over a tiny runtime: what becomes of deaths, floors and cases that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.errors import ConfigError, MachineError, ToolMissing
from kope.model import Candidate, LaunchCase, TensorFile, TensorSpec, TimeKind
from kope.target.twin import TwinTarget
from kope.target.twin.build import TwinBuilder

from .test_build import COPY, entry
from .test_runner import CALL, COPIER, make_case


@pytest.fixture
def target(tiny: TwinBuilder, tmp_path: Path) -> TwinTarget:
    made = TwinTarget(tmp_path / "cache", jobs=1, memory_bytes=64 << 20)
    made.__dict__["builder"] = tiny
    return made


def test_case_that_ended_has_time_bound_and_counters(target: TwinTarget, tmp_path: Path) -> None:
    built = target.build(Candidate.of(COPY), tmp_path)
    ran = target.run(built, [make_case(tmp_path, "c")], "verify", tmp_path, time_limit_s=20)
    (one,) = ran.cases
    assert (one.case_id, one.ok, one.diagnostics, one.duration_us) == ("c", True, (), (100.0,))
    assert one.bound_us == target.parameters.bound_us(40, 40)
    assert one.counters["Task Duration(us)"] == 100.0 and one.counters["aiv_mte2_time(us)"] == 60.5
    assert len(one.control_flow) == 16
    assert [step["returncode"] for step in ran.steps] == [0]
    assert target.time_kind is TimeKind.MODELLED


def test_death_is_an_error_of_its_case_and_what_follows_is_a_note(target: TwinTarget, tmp_path: Path) -> None:
    body = "    while (call->inputs[0].numel == 8) { std::fflush(stdout); }\n"
    body += f"    {CALL.format(bytes='call->inputs[0].numel * 4')}\n    return 0;"
    built = target.build(Candidate.of(entry(body, COPIER)), tmp_path)
    cases = [make_case(tmp_path, f"c{n}", n) for n in (7, 8, 9)]
    first, second, third = target.run(built, cases, "verify", tmp_path, time_limit_s=1.0).cases
    assert first.ok and first.duration_us
    assert [(one.kind, one.severity, one.case_id) for one in second.diagnostics] == [("timeout", "error", "c8")]
    assert [(one.kind, one.severity, one.case_id) for one in third.diagnostics] == [("not-run", "note", "c9")]
    assert not second.ok and not third.ok and third.duration_us == ()


def test_a_time_below_the_bound_is_given_with_it(target: TwinTarget, tmp_path: Path) -> None:
    built = target.build(Candidate.of(COPY), tmp_path)
    spec = TensorSpec("x", (50 << 20,), "float32")
    big = LaunchCase("big", (TensorFile(spec, tmp_path / "none"),), (TensorFile(spec, tmp_path / "out"),), {})
    (one,) = target.run(built, [big], "time", tmp_path, time_limit_s=20).cases
    assert (one.ok, one.diagnostics, one.duration_us) == (True, (), (100.0,))
    assert one.bound_us == pytest.approx(242.675, abs=1e-3)


def test_case_that_does_not_fit_is_an_error_of_the_machine(target: TwinTarget, tmp_path: Path) -> None:
    built = target.build(Candidate.of(COPY), tmp_path)
    spec = TensorSpec("x", (50 << 20,), "float32")
    big = LaunchCase("big", (TensorFile(spec, tmp_path / "none"),), (TensorFile(spec, tmp_path / "out"),), {})
    with pytest.raises(MachineError, match="case big needs 400 MiB, a process may use 64 MiB; make the case smaller"):
        target.run(built, [big], "verify", tmp_path, time_limit_s=20)


def test_no_cases_no_runs(target: TwinTarget, tmp_path: Path) -> None:
    assert target.run(target.build(Candidate.of(COPY), tmp_path), [], "time", tmp_path, time_limit_s=20).cases == ()


def test_source_that_is_refused_starts_no_compiler(target: TwinTarget, tmp_path: Path) -> None:
    built = target.build(Candidate.of("int x;"), tmp_path / "w")
    assert [found.kind for found in built.diagnostics] == ["missing-include", "missing-include", "no-entry"]
    assert built.steps == () and not (tmp_path / "w").exists()


def test_wrong_settings_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no parameter set 'x'"):
        TwinTarget(tmp_path, chip="x")
    with pytest.raises(ToolMissing, match="compiler '/no/such/g\\+\\+' cannot be used"):
        TwinTarget(tmp_path, compiler="/no/such/g++").fingerprint()
