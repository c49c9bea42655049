"""docs/ascend.md: its commands run on a stand-in, and it names every assumption."""

from __future__ import annotations

import re
from pathlib import Path

from kope.target.ascend import vendor
from tests.target.ascend.conftest import Install
from tests.target.ascend.toolkit import NEW_A2
from tests.test_docs_run import run_document

PAGE = Path(__file__).parents[3] / "docs" / "ascend.md"


def test_the_commands_of_the_page_run(install_toolkit: Install, tmp_path: Path) -> None:
    stand_in = install_toolkit(NEW_A2)
    environment = {"ASCEND_HOME_PATH": str(stand_in.home), "KOPE_CACHE": str(tmp_path / "cache")}
    run_document(PAGE, tmp_path, environment)
    assert (tmp_path / "here" / "report.md").read_text().startswith("# KOPE self-test: passed")
    assert "kope_entry" in (tmp_path / "here" / "exp.asc").read_text()


def test_the_page_names_every_assumption_with_its_basis() -> None:
    table = PAGE.read_text("utf-8").partition("## What is taken for granted")[2]
    rows = re.findall(r"^\| (.+) \| (documented|reported|inferred) \|$", table, re.MULTILINE)
    assert rows == [(one.claim, one.basis) for one in vendor.ASSUMPTIONS]
