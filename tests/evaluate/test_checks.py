"""The table of checks is whole, and shown as it is."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from typer.testing import CliRunner

from kope.cli import app
from kope.evaluate import evaluator_fingerprint
from kope.evaluate.checks import CHECKS, TARGETS

ROOT = Path(__file__).parents[2]


def test_every_check_has_its_own_name_and_says_what_it_holds() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        assert check.what
        assert set(check.missing) <= set(TARGETS)
        assert check.kinds or check.missing


def test_every_check_stands_in_the_document() -> None:
    text = (ROOT / "docs" / "evaluation.md").read_text("utf-8")
    for check in CHECKS:
        assert f"| `{check.name}` |" in text


def test_doctor_shows_each_check_for_each_target() -> None:
    shown = CliRunner().invoke(app, ["doctor", "--evaluator", "--json"])
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    jsonschema.validate(document, json.loads((ROOT / "schema" / "doctor_evaluator.json").read_text("utf-8")))
    assert document["evaluator"] == evaluator_fingerprint()
    assert [row["check"] for row in document["checks"]] == [check.name for check in CHECKS]
    for target, without in (("twin", {"timed-calls", "new-addresses"}), ("ascend", {"new-addresses", "two-runs"})):
        status = {row["check"]: row["targets"][target] for row in document["checks"]}
        assert {name for name, word in status.items() if word != "enforced"} == without


def test_doctor_prints_the_table() -> None:
    shown = CliRunner().invoke(app, ["doctor", "--evaluator"])
    assert shown.exit_code == 0
    for check in CHECKS:
        assert check.name in shown.stdout
