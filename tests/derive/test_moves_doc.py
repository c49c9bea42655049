"""docs/search.md lists the moves that exist, in the default order, and the fields a schedule has."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from kope.derive.moves import MOVES
from kope.derive.nest_moves import NEST_MOVES
from kope.derive.schedule import Schedule

DOC = (Path(__file__).resolve().parents[2] / "docs" / "search.md").read_text(encoding="utf-8")


def test_the_moves_of_the_document_are_the_moves_of_the_code() -> None:
    for mark, moves in (("moves", MOVES), ("nest moves", NEST_MOVES)):
        table = DOC.split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0]
        rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
        assert rows == [(move.name, ", ".join(f"`{name}`" for name in move.fields), move.why) for move in moves]


def test_the_fields_of_the_document_are_the_fields_of_a_schedule() -> None:
    table = DOC.split("## Schedule")[1].split("## Moves")[0]
    assert re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE) == [field.name for field in fields(Schedule)]
