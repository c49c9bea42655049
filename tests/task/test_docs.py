"""What docs/tasks.md shows is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kope.evaluate.compare import INTEGER_MEAN_SHARE, MEAN_SHARE
from kope.task import load_task
from kope.task.cases import DTYPES, SPECIALS
from kope.task.native import DEFAULT_TOLERANCE

DOC = Path(__file__).parents[2] / "docs" / "tasks.md"


@pytest.fixture(scope="module")
def text() -> str:
    return DOC.read_text(encoding="utf-8")


def test_the_example_loads_as_it_is_shown(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "rms_norm"
    folder.mkdir()
    for language, file in (("toml", "task.toml"), ("python", "reference.py")):
        blocks = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        assert len(blocks) == 1
        (folder / file).write_text(blocks[0])
    task = load_task(folder)
    assert (task.inputs, len(task.cases), task.cases[2].attrs) == (("x", "gamma"), 4, {"eps": 1e-5})


def test_tolerances_are_those_of_the_table(text: str) -> None:
    rows = re.findall(r"^\| (float\w+|bfloat16) \| (\S+) \| (\S+) \|", text, re.MULTILINE)
    shown = {dtype: tuple(float(eval(cell.replace("^", "**"))) for cell in cells) for dtype, *cells in rows}
    assert shown == {
        dtype: (DEFAULT_TOLERANCE[dtype].rtol, DEFAULT_TOLERANCE[dtype].atol)
        for dtype in ("float32", "float16", "bfloat16")
    }
    assert all((rule.rtol, rule.atol) == (0, 0) for name, rule in DEFAULT_TOLERANCE.items() if "float" not in name)
    assert f"below\n{MEAN_SHARE} ({INTEGER_MEAN_SHARE} for integers)" in text


def test_every_dtype_and_special_value_is_documented(text: str) -> None:
    assert all(f"`{dtype}`" in text for dtype in DTYPES)
    assert all(f'`"{special}"`' in text for special in SPECIALS)
