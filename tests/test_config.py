"""Settings: which source wins, and what an unusable one says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from kope import config
from kope.config import Origin
from kope.errors import ConfigError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("KOPE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (config.load().jobs, config.load().origins["jobs"].kind) == (min(os.cpu_count() or 1, 8), "default")
    (tmp_path / "kope.toml").write_text("jobs = 3\n")
    assert config.load().jobs == 3
    assert config.load().origins["jobs"] == Origin("file", f"{tmp_path / 'kope.toml'}: jobs")
    monkeypatch.setenv("KOPE_JOBS", "4")
    assert (config.load().jobs, config.load().origins["jobs"]) == (4, Origin("environment", "KOPE_JOBS"))
    assert (config.load({"jobs": 5}).jobs, config.load({"jobs": 5}).origins["jobs"]) == (5, Origin("flag", "--jobs"))
    assert config.load({"jobs": None}).jobs == 4


def test_file_is_found_from_a_folder_below_and_paths_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "kope.toml").write_text('db = "all.db"\ntask_path = ["ops", "/shared/ops"]\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    settings = config.load(cwd=below)
    assert settings.db == tmp_path / "all.db"
    assert settings.task_path == (tmp_path / "ops", Path("/shared/ops"))


def test_lists_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOPE_TASK_PATH", "one:two")
    monkeypatch.setenv("KOPE_COMMAND", "claude -p 'write it'")
    settings = config.load()
    assert settings.task_path == (Path("one"), Path("two"))
    assert settings.command == ("claude", "-p", "write it")


def test_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert config.load().cache == Path("/somewhere/kope")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert config.load().cache == Path("/home/me/.cache/kope")


def test_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "kope.toml").write_text("job = 2\n")
    with pytest.raises(ConfigError, match=r"kope.toml: unknown setting 'job'; did you mean jobs\?"):
        config.load()


def test_variable_that_is_no_setting_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOPE_JOB", "2")
    assert config.unknown_variables() == {"KOPE_JOB": "KOPE_JOBS"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jobs = 0", "jobs in .*kope.toml is 0: a whole number from 1 on is needed"),
        ("jobs = true", "a whole number is needed"),
        ("target = 'npu'", "one of twin, ascend is needed"),
        ("ascend_profiler = 'perf'", "one of auto, msprof, msopprof, simulator is needed"),
        ("ascend_without = ['filters']", "words of user, root, mounts, landlock, filter are needed"),
        ("db = 3", "a path is needed"),
        ("command_timeout_s = -1", "a positive number of seconds is needed"),
        ("jobs = [", "kope.toml: .*; correct the file or delete it"),
        ("llm_temperature = nan", "a finite number is needed"),
        ("llm_cost_weight = inf", "a finite number is needed"),
        ("db = '\\xff'", "kope.toml: .*; correct the file or delete it"),
    ],
)
def test_unusable_value_says_where_and_what(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "kope.toml").write_bytes(text.encode("latin-1").replace(b"\\xff", b"\xff"))
    with pytest.raises(ConfigError, match=message):
        config.load()


def test_unusable_variable_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOPE_JOBS", "many")
    with pytest.raises(ConfigError, match="KOPE_JOBS is 'many'"):
        config.load()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("target", "npu", "--target is 'npu': one of twin, ascend is needed"),
        ("jobs", 0, "--jobs is 0: a whole number from 1 on is needed"),
        ("command", [1], "--command is .*: a command line or a list of texts is needed"),
    ],
)
def test_a_flag_is_checked_like_any_other_value(name: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.load({name: value})


def test_a_working_folder_that_is_gone_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(ConfigError, match="working folder does not exist"):
        config.load()


def test_every_setting_is_read() -> None:
    package = Path(config.__file__).parent
    code = "\n".join(path.read_text("utf-8") for path in package.rglob("*.py") if path.name != "config.py")
    unread = [name for name in config.NAMES if not re.search(rf"(settings|given|load\(.*\))\.{name}\b", code)]
    assert unread == []


def test_every_setting_is_documented() -> None:
    text = (Path(__file__).parents[1] / "docs" / "settings.md").read_text("utf-8")
    missing = [name for name in config.NAMES if f"`{name}`" not in text or f"`KOPE_{name.upper()}`" not in text]
    assert missing == []


def test_keys_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "hunter2")
    monkeypatch.setenv("KOPE_LLM_API_KEY_ENV", "MY_KEY")
    settings = config.load()
    assert settings.secret(settings.llm_api_key_env) == "hunter2"
    assert "hunter2" not in repr(settings)
