"""The native format: what a folder means, and one clear line for every mistake in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kope.errors import TaskError
from kope.model import Case, CaseInput, OutputDecl, TensorSpec, Tolerance, Values
from kope.task import load_task

TOML = """
text = "y = alpha * x + b"
tags = ["elementwise"]
inputs = { x = { range = [-2, 2] }, mask = { dtype = "uint8" }, b = { optional = true } }
outputs = { y = "same:x" }
attrs = { alpha = 1.0, steps = 3, mode = "up", flag = false }
tolerance = { float16 = { rtol = 1e-2 } }

[[cases]]
dtype = "float32"
shape = [4, 5]

[[cases]]
id = "odd"
dtype = { x = "float16", b = "float32" }
shape = { x = [7], mask = [7] }
range = { x = [0, 1] }
special = { x = "nan" }
attrs = { alpha = 2 }
"""
REFERENCE = "def reference(x, mask, b, *, alpha, steps, mode, flag=False):\n    return x\n"


def folder_with(tmp_path: Path, toml: str = TOML, reference: str = REFERENCE, name: str = "scaled") -> Path:
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    (folder / "task.toml").write_text(toml)
    (folder / "reference.py").write_text(reference)
    return folder


def test_a_folder_is_read_whole(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    task = load_task(folder)
    attrs = {"alpha": 1.0, "steps": 3, "mode": "up", "flag": False}
    assert (task.name, task.text, task.tags, task.folder) == ("scaled", "y = alpha * x + b", ("elementwise",), folder)
    assert (task.inputs, task.outputs, task.attrs) == (("x", "mask", "b"), (OutputDecl("y", "same:x"),), attrs)
    assert (task.reference, task.symbol, task.framework) == (REFERENCE, "reference", "numpy")
    assert task.tolerance["float16"] == Tolerance(rtol=1e-2, atol=2.0**-16)
    assert task.cases == (
        Case(
            "1",
            (
                CaseInput(TensorSpec("x", (4, 5), "float32"), Values(-2.0, 2.0)),
                CaseInput(TensorSpec("mask", (4, 5), "uint8"), Values(0.0, 1.0)),
                CaseInput(TensorSpec("b", (4, 5), "float32"), Values()),
            ),
            attrs,
        ),
        Case(
            "odd",
            (
                CaseInput(TensorSpec("x", (7,), "float16"), Values(0.0, 1.0, "nan")),
                CaseInput(TensorSpec("mask", (7,), "uint8"), Values(0.0, 1.0)),
                None,
            ),
            attrs | {"alpha": 2.0},
        ),
    )


def test_digest_follows_what_decides_a_verdict_and_nothing_else(tmp_path: Path) -> None:
    first = load_task(folder_with(tmp_path)).digest
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert load_task(folder_with(elsewhere, TOML.replace("y = alpha * x + b", "other words"))).digest == first
    changes = [
        (TOML.replace("[7]", "[8]"), REFERENCE),
        (TOML.replace("1e-2", "2e-2"), REFERENCE),
        (TOML.replace('special = { x = "nan" }', ""), REFERENCE),
        (TOML.replace("alpha = 2 ", "alpha = 3 "), REFERENCE),
        (TOML, REFERENCE + "# changed\n"),
    ]
    digests = {load_task(folder_with(tmp_path, *change)).digest for change in changes}
    assert len(digests | {first}) == len(changes) + 1


MISTAKES = [
    (('tags = ["elementwise"]', 'tag = ["elementwise"]'), 'tag: unknown key; did you mean "tags"?'),
    (('dtype = "float32"', 'dtype = "float31"'), "cases[1].dtype: unknown dtype 'float31'; did you mean \"float32\"?"),
    (('dtype = "float32"\n', ""), 'cases[1].dtype: missing for input x; write dtype = "float32"'),
    (("shape = [4, 5]", "shape = [4, 0]"), "cases[1].shape: [4, 0] is not a list of up to 8 positive integers"),
    (("shape = [4, 5]", 'shape = "4x5"'), "cases[1].shape: '4x5' is not a list of up to 8 positive integers"),
    (("{ x = [7], mask = [7] }", "{ x = [7] }"), "cases[2].shape: missing for input mask"),
    (
        ("{ x = [7], mask = [7] }", "{ x = [7], maks = [7] }"),
        'cases[2].shape.maks: no such input; did you mean "mask"?',
    ),
    (("range = { x = [0, 1] }", "range = { x = [1, 0] }"), "cases[2].range: [1, 0] is not a finite range"),
    (("range = { x = [0, 1] }", "range = { x = [0, nan] }"), "cases[2].range: [0, nan] is not a finite range"),
    (("range = { x = [0, 1] }", "range = { mask = [0, 300] }"), "does not fit mask, which is uint8; take [0, 255]"),
    (('special = { x = "nan" }', 'special = { x = "nam" }'), "unknown special value 'nam'; did you mean \"nan\"?"),
    (('special = { x = "nan" }', 'special = { mask = "nan" }'), "mask is uint8 and has no nan"),
    (
        ("attrs = { alpha = 2 }", "attrs = { alhpa = 2 }"),
        'cases[2].attrs.alhpa: not declared in attrs; did you mean "alpha"?',
    ),
    (
        ("attrs = { alpha = 2 }", "attrs = { steps = 2.5 }"),
        "cases[2].attrs.steps: 2.5 is not of the type of its default 3",
    ),
    (('id = "odd"', 'id = "../odd"'), "cases[2].id: '../odd' cannot name a file"),
    (('id = "odd"', 'id = "1"'), 'cases[2].id: "1" is taken by an earlier case'),
    (('y = "same:x"', 'y = "same:z"'), "outputs.y: unknown dtype 'same:z'; did you mean \"same:x\"?"),
    (('y = "same:x"', 'y = "same:b"'), "outputs.y: same:b is an optional input"),
    (("rtol = 1e-2", "rtol = -1"), "tolerance.float16.rtol: -1 is not a finite number of at least 0"),
    (("rtol = 1e-2", "rtoll = 1"), 'tolerance.float16.rtoll: unknown key; did you mean "rtol"?'),
    (("alpha = 1.0,", "alpha = [1],"), "attrs.alpha: [1] is not a number, true/false or text"),
    (("alpha = 1.0,", "x = 1.0,"), "attrs.x: is also an input"),
    (('text = "y = alpha * x + b"', ""), "text: missing; add text = ..."),
    (('text = "y', 'framework = "jax"\ntext = "y'), "framework: unknown framework 'jax'"),
    (('text = "y', 'symbol = "referense"\ntext = "y'), 'no function referense(); did you mean "reference"?'),
    (('text = "y', 'reference = "\\u0000"\ntext = "y'), "'\\x00' is no name of a file; write one"),
    (('text = "y', 'reference = "../r.py"\ntext = "y'), "is outside the task's folder; copy it in"),
    (('text = "y', 'text = "y'[:-2]), "not valid TOML"),
]


@pytest.mark.parametrize(("change", "message"), MISTAKES, ids=[change[1][:40] for change, _ in MISTAKES])
def test_a_mistake_is_one_line_that_names_file_and_key(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in TOML
    folder = folder_with(tmp_path, TOML.replace(*change, 1))
    with pytest.raises(TaskError) as caught:
        load_task(folder)
    text = str(caught.value)
    assert message in text
    assert text.startswith(str(tmp_path))
    assert "\n" not in text


REFERENCE_MISTAKES = [
    ("def reference(x, mask, b, *, alpha, steps, mode):\n    return x\n", "has no parameter flag"),
    ("def reference(x, mask, b, c, **attrs):\n    return x\n", "needs c, which task.toml does not give"),
    ("def reference(x, mask, b, /, **attrs):\n    return x\n", "positional-only"),
    ("def ref(x):\n    return x\n", "no function reference()"),
    ("def reference(x:\n", "reference.py:1:"),
    ("x = 1\0\n", "reference.py"),
]


@pytest.mark.parametrize(("source", "message"), REFERENCE_MISTAKES)
def test_a_reference_that_cannot_be_called_is_refused_unrun(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        load_task(folder_with(tmp_path, reference=source))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there_or_not_text_are_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"nowhere/task.toml: not found; a task is a folder"):
        load_task(tmp_path / "nowhere")
    folder = folder_with(tmp_path)
    (folder / "reference.py").write_bytes(b"# \xff\n")
    with pytest.raises(TaskError, match=r"reference.py: not UTF-8 at byte 2; save it as UTF-8"):
        load_task(folder)
    (folder / "reference.py").unlink()
    with pytest.raises(TaskError, match=r"reference.py: No such file or directory; write the reference there"):
        load_task(folder)
    (folder / "task.toml").write_bytes(b"\xff\n")
    with pytest.raises(TaskError, match=r"task.toml: not UTF-8 at byte 0"):
        load_task(folder)
    with pytest.raises(TaskError, match=r"Bad Name: the folder's name is the task's; rename it"):
        load_task(folder_with(tmp_path, name="Bad Name"))


@pytest.mark.parametrize("name", ["task.toml", "reference.py"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    folder = folder_with(tmp_path)
    (folder / name).unlink()
    make(folder / name)
    with pytest.raises(TaskError, match="not a plain file; replace it by one|Is a directory|outside the task's folder"):
        load_task(folder)


@pytest.mark.parametrize("name", ["task.toml", "reference.py"])
def test_a_file_too_large_to_be_meant_is_refused(tmp_path: Path, name: str) -> None:
    folder = folder_with(tmp_path)
    with open(folder / name, "wb") as large:
        large.truncate(65 << 20)
    with pytest.raises(TaskError, match=f"{name}: larger than 64 MiB; restore the file that belongs there"):
        load_task(folder)
