"""docs/candidate.md shows the kernel that is tested, and names what is allowed."""

from __future__ import annotations

import re
from pathlib import Path

from kope.target.twin.refusals import ALLOWED_HEADERS

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "candidate.md").read_text("utf-8")


def test_example_is_the_tested_kernel() -> None:
    example = re.findall(r"```cpp file=exp.asc\n(// y = exp.*?)```", DOC, re.DOTALL)
    assert example == [(ROOT / "tests" / "target" / "kernels" / "exp.asc").read_text("utf-8")]


def test_allowed_headers_are_listed() -> None:
    assert {name for name in ALLOWED_HEADERS if not re.search(r"[./]", name)} <= set(re.findall(r"`(\w+)`", DOC))


def kinds_in_sources() -> set[str]:
    """Kinds of diagnostics that the twin's sources create."""
    twin = ROOT / "kope" / "target" / "twin"
    cpp = "".join(path.read_text("utf-8") for path in [*twin.glob("src/*.cpp"), *twin.glob("harness/*.cpp")])
    python = "".join(path.read_text("utf-8") for path in twin.glob("*.py"))
    found = re.findall(r'\bnote\(\s*"([a-z-]+)"|\bfinding\(\s*"([a-z-]+)"|SYS_\w+, "\w+", "([a-z-]+)"', cpp)
    found += re.findall(r'\bDiagnostic\(\s*"([a-z-]+)"()()|\brefuse\(\s*"([a-z-]+)"', python)
    return {word for words in found for word in words if word}


def test_every_kind_of_diagnostic_is_explained() -> None:
    shown = set(re.findall(r"`([a-z-]+)`", DOC + (ROOT / "docs" / "twin.md").read_text("utf-8")))
    kinds = kinds_in_sources()
    assert len(kinds) > 45
    assert kinds - shown == set()
