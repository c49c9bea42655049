"""`kope eval` on the twin: tables for people, a document for programs, and an exit status that says verified."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from kope import resources
from kope.cli import app

KERNEL = Path(__file__).parents[1] / "target" / "kernels" / "exp.asc"
TOML = """
text = "y = e ** x"
inputs = { x = {} }
outputs = { y = "same:x" }
cases = [{ dtype = "float32", shape = [1025] }, { dtype = "float16", shape = [40, 33] }]
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, twin_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "exp").mkdir()
    (tmp_path / "exp" / "task.toml").write_text(TOML)
    (tmp_path / "exp" / "reference.py").write_text("import numpy as np\n\n\ndef reference(x):\n    return np.exp(x)\n")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "twin").symlink_to(twin_cache)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def kope(*argv: str, status: int = 0, stdin: str | None = None) -> str:
    result = CliRunner().invoke(app, argv, input=stdin)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result.output


def test_a_right_kernel_ends_with_status_0() -> None:
    text = kope("eval", "./exp", str(KERNEL))
    assert "exp: times modelled (twin:910b2:1)" in text
    assert "x [40, 33] float16" in text
    assert text.rstrip().splitlines()[-1].startswith("verified: 2/2 cases passed, ")
    parsed = json.loads(kope("eval", "./exp", "-", "--json", stdin=KERNEL.read_text()))
    jsonschema.validate(parsed, json.loads((resources.folder("schema") / "eval.json").read_text()))
    assert (parsed["verdict"], parsed["cases_passed"], parsed["case_count"]) == ("verified", 2, 2)
    assert {step["step"] for step in parsed["steps"]} >= {"compile", "small cases", "time", "challenge"}
    assert {"source", "task", "inputs", "reference", "challenge", "log", "evaluator"} <= set(parsed["evidence"])


def test_a_wrong_kernel_ends_with_status_1_and_says_where(own_folder: Path) -> None:
    wrong = own_folder / "wrong.asc"
    wrong.write_text(KERNEL.read_text().replace("Exp(y, x, n);", "Adds(y, x, 1.0f, n);"))
    text = kope("eval", "./exp", str(wrong), status=1)
    assert re.search(r"error: \d+ of 1025 elements wrong of output y in case 1: \[\d+\] got ", text)
    assert text.rstrip().splitlines()[-1] == "failed at verify: 1/2 cases passed"
    parsed = json.loads(kope("eval", "./exp", str(wrong), "--json", status=1))
    jsonschema.validate(parsed, json.loads((resources.folder("schema") / "eval.json").read_text()))
    assert (parsed["verdict"], parsed["stage"], parsed["diagnostics"][0]["kind"]) == ("failed", "verify", "wrong-value")


def test_every_case_is_judged_on_demand(own_folder: Path) -> None:
    wrong = own_folder / "wrong.asc"
    wrong.write_text(KERNEL.read_text().replace("            Cast(y, wide,", "            Cast(y, wide[8],"))
    parsed = json.loads(kope("eval", "./exp", str(wrong), "--json", "--every", status=1))
    jsonschema.validate(parsed, json.loads((resources.folder("schema") / "eval.json").read_text()))
    assert [case["passed"] for case in parsed["cases"]] == [True, False]
    assert (parsed["verdict"], parsed["cases_passed"]) == ("failed", 1)
    assert [case["time_us"] is None for case in parsed["cases"]] == [False, True]


def test_a_compile_error_is_shown_with_file_and_line(own_folder: Path) -> None:
    broken = own_folder / "broken.asc"
    broken.write_text(KERNEL.read_text().replace("Exp(y, x, n);", "Expp(y, x, n);"))
    line = broken.read_text().splitlines().index("            Expp(y, x, n);") + 1
    text = kope("eval", "./exp", str(broken), status=1)
    assert f":{line}: error: " in text
    assert text.rstrip().splitlines()[-1] == "failed at compile: 0/2 cases passed"


def test_a_source_that_is_no_text_or_not_there_is_one_line(own_folder: Path) -> None:
    endless = kope("eval", "./exp", "/dev/zero", status=1)
    assert endless == "Error: /dev/zero: longer than 4 MiB; give the file that holds the source\n"
    (own_folder / "binary.asc").write_bytes(b"// \xff\n")
    assert kope("eval", "./exp", "binary.asc", status=1) == (
        "Error: binary.asc: not UTF-8 at byte 3; save the source as UTF-8\n"
    )
    assert "absent.asc: No such file or directory" in kope("eval", "./exp", "absent.asc", status=1)


def test_a_cache_that_cannot_be_used_is_one_line(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_folder / "file").touch()
    monkeypatch.setenv("KOPE_CACHE", str(own_folder / "file"))
    text = kope("eval", "./exp", str(KERNEL), status=1)
    assert text == f"Error: {own_folder}/file/work: Not a directory; set another cache folder (KOPE_CACHE)\n"


def test_a_case_too_large_for_memory_is_one_line(own_folder: Path) -> None:
    (own_folder / "exp" / "task.toml").write_text(TOML.replace("[1025]", "[1000000, 1000000]"))
    text = kope("eval", "./exp", str(KERNEL), status=1)
    assert text.startswith("Error: case 1 of exp needs about ")
    assert len(text.splitlines()) == 1
