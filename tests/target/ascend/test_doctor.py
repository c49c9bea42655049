"""`kope doctor` on stand-in programs: what is there, from where, what to do; the self-test and its report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from kope import resources, selftest
from kope.cli import app
from kope.target.ascend import vendor
from kope.target.ascend.health import CONFIRMS
from kope.target.twin import TwinTarget
from tests.target.ascend.toolkit import NEW_A2, OLD_A2, StandIn, install


@pytest.fixture(scope="module")
def stand_in(twin: TwinTarget, twin_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    return install(tmp_path_factory.mktemp("machine") / "cann", NEW_A2, twin, twin_cache, ("OK", "Alarm"))


@pytest.fixture
def machine(stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    use(stand_in, tmp_path, monkeypatch)
    yield stand_in
    stand_in.obey_nothing()


def use(stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(stand_in.home))
    monkeypatch.setenv("KOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))


def ask(*arguments: str, schema: str = "doctor", status: int | None = 0) -> Any:
    done = CliRunner().invoke(app, ["doctor", "--target", "ascend", "--json", *arguments])
    assert status is None or done.exit_code == status, (done.stdout, done.stderr)
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((resources.folder("schema") / f"{schema}.json").read_text("utf-8")))
    return document


def test_it_shows_toolkit_programs_cards_and_chip(machine: StandIn) -> None:
    document = ask()
    found = {entry["name"]: (entry["ok"], entry["value"], entry["remedy"]) for entry in document["ascend"]}
    home = machine.home
    compiler = f"{home}/tools/bisheng_compiler/bin/bisheng"
    assert found == {
        "toolkit": (True, f"CANN 9.0.0 in {home} (ASCEND_HOME_PATH)", ""),
        "compiler": (True, f"clang version 15.0.5 ({compiler}, asc form)", ""),
        "profiler": (True, f"msprof-warm ({home}/bin/msprof); installed: msopprof, msprof", ""),
        "driver": (True, "npu-smi 24.1.1", ""),
        "card 0": (True, "910B2 (NPU 0, chip 0): OK", ""),
        "card 1": (
            False,
            "910B2 (NPU 1, chip 0): Alarm",
            "see `npu-smi info`; reset it (npu-smi set -t reset -i ID) or have it checked",
        ),
        "chip": (
            True,
            "Ascend910B2 (dav-2201), 48 vector cores, 24 cube cores, from the published table; named by npu-smi",
            "",
        ),
    }
    assert document["usable"]


def test_a_card_that_was_taken_out_is_named_with_its_mark(machine: StandIn, tmp_path: Path) -> None:
    mark = tmp_path / "cache" / "ascend" / "cards" / "card-0.out"
    mark.parent.mkdir(parents=True)
    mark.write_text("2026-12-01 00:00:00 a known good kernel failed twice\n")
    (card,) = [entry for entry in ask()["ascend"] if entry["name"] == "card 0"]
    assert (card["ok"], card["remedy"]) == (False, f"reset it and delete {mark}")


def test_a_driver_that_fails_makes_the_machine_unusable(machine: StandIn) -> None:
    machine.tell("npu-smi", stderr="dcmi module initialize failed\n", status=1)
    document = ask(status=1)
    found = {entry["name"]: entry for entry in document["ascend"]}
    assert found["driver"]["value"] == "npu-smi info failed (dcmi module initialize failed)"
    assert found["driver"]["remedy"] == "check the driver, then `kope doctor`"


def test_no_toolkit_at_all_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "nothing"))
    monkeypatch.chdir(tmp_path)
    (only,) = ask(status=1)["ascend"]
    assert (only["name"], only["ok"], only["remedy"]) == ("toolkit", False, "correct it or unset it")


def test_the_self_test_goes_through_every_step_and_its_report_names_nobody(machine: StandIn, tmp_path: Path) -> None:
    document = ask("--selftest", "--output", "report.md", schema="doctor_selftest")
    assert [(step["name"], step["ok"]) for step in document["steps"]] == [
        ("toolchain", True),
        ("compile", True),
        ("run", True),
        ("verify", True),
        ("time with msprof", True),
        ("time with msopprof", True),
        ("A/A control", True),
    ]
    confirmed = {one["key"] for one in document["assumptions"] if one["confirmed"]}
    assert confirmed == {
        "environment", "version", "cards", "soc", "form", "compile", "acl", "confined",
        "msprof", "host-clock", "msopprof",
    }  # fmt: skip
    text = (tmp_path / "report.md").read_text("utf-8")
    assert text.startswith("# KOPE self-test: passed\n")
    assert str(tmp_path) not in text and str(machine.home.parent) not in text
    assert all(one.claim in text for one in vendor.ASSUMPTIONS)


def test_a_step_that_fails_leaves_out_what_follows(machine: StandIn) -> None:
    machine.tell("bisheng", stderr="ld.lld: error: undefined symbol: aclInit\n", status=1)
    document = ask("--selftest", schema="doctor_selftest", status=1)
    assert [step["ok"] for step in document["steps"]] == [True, False, None, None, None, None, None]
    assert (
        "the built-in kernel does not compile: link-error: undefined symbol: aclInit" in document["steps"][1]["detail"]
    )


def test_a_protection_that_stands_in_the_way_is_found(machine: StandIn) -> None:
    machine.tell_acl("init-needs-network", 507899, "")
    document = ask("--selftest", schema="doctor_selftest", status=1)
    step = document["steps"][2]
    assert (step["name"], step["ok"]) == ("run", False)
    assert step["detail"].endswith("; a protection is in the way: set ascend_without to 'filter'")


def test_a_report_that_cannot_be_written_is_one_line(machine: StandIn) -> None:
    machine.tell("bisheng", status=1)
    done = CliRunner().invoke(app, ["doctor", "--target", "ascend", "--selftest", "--output", "no/such/report.md"])
    assert done.exit_code == 1
    assert "Error: no/such/report.md: No such file or directory; give a place that can be written" in done.output
    assert CliRunner().invoke(app, ["doctor", "--output", "report.md"]).exit_code == 2


def test_an_older_toolkit_confirms_the_older_form(
    twin: TwinTarget, twin_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(install(tmp_path / "cann", OLD_A2, twin, twin_cache), tmp_path, monkeypatch)
    document = ask("--selftest", schema="doctor_selftest")
    confirmed = {one["key"] for one in document["assumptions"] if one["confirmed"]}
    assert "cce-form" in confirmed and "form" not in confirmed


def test_every_step_names_assumptions_that_exist() -> None:
    known = {one.key for one in vendor.ASSUMPTIONS}
    assert len(known) == len(vendor.ASSUMPTIONS)
    assert {key for keys in CONFIRMS.values() for key in keys} <= known


def test_names_and_places_are_taken_out_of_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.setattr(selftest.socket, "gethostname", lambda: "node17")
    text = "alice@node17 ran /home/alice/cann/bin/msprof and ./candidate in /home/alice/x/"
    assert selftest.without_names(text) == "<user>@<host> ran <path>/msprof and ./candidate in <path>/"
