"""docs/candidate.md shows the kernel that is tested, and names what is allowed."""

from __future__ import annotations

import re
from pathlib import Path

from kope.target.twin.refusals import ALLOWED_HEADERS

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "candidate.md").read_text("utf-8")


def test_example_is_the_tested_kernel() -> None:
    example = re.findall(r"```cpp\n(// y = exp.*?)```", DOC, re.DOTALL)
    assert example == [(ROOT / "tests" / "target" / "kernels" / "exp.asc").read_text("utf-8")]


def test_allowed_headers_are_listed() -> None:
    assert {name for name in ALLOWED_HEADERS if not re.search(r"[./]", name)} <= set(re.findall(r"`(\w+)`", DOC))
