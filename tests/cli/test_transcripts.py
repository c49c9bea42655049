"""What docs/agents.md shows of an agent's work can be handed in again."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kope.cli import app
from tests.documents import parsed

TRANSCRIPTS = Path(__file__).parents[2] / "docs" / "transcripts"


def test_reply_of_the_transcripts_is_right(tmp_path: Path, twin_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KOPE_CACHE", str(twin_cache.parent))
    task = str(TRANSCRIPTS / "tasks" / "l2_normalize")
    done = CliRunner().invoke(app, ["tell", task, str(TRANSCRIPTS / "l2_normalize-many-rows.md"), "--json"])
    assert done.exit_code == 0, done.output
    attempt = parsed(done.stdout, "tell")["attempt"]
    assert (attempt["verdict"], attempt["cases_passed"], attempt["move"]) == ("verified", 5, "draft-many-rows")
