"""The settings of one run, each with where its value comes from. The only reader of the environment.

Precedence: flag > environment > kope.toml > default. kope.toml is looked for in the working folder and its parents; a
relative path in it is relative to it.
"""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kope.errors import ConfigError

FILE_NAME = "kope.toml"
PREFIX = "KOPE_"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from. kind: flag, environment, file or default. place: variable, or file and key, or ""."""

    kind: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.place}".strip()


def _setting(default: Any, read: Callable[[Any], Any], about: str, *, is_path: bool = False) -> Any:
    """Declare a setting. read: turns text or a TOML value into the setting's type, raises ValueError."""
    meta = {"read": read, "about": about, "is_path": is_path}
    if callable(default):
        return field(default_factory=default, metadata=meta)
    return field(default=default, metadata=meta)


def _path(value: Any) -> Path:
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value:
        raise ValueError("a path is needed")
    return _in_home(value)


def _in_home(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as homeless:
        raise ConfigError(f"{text} cannot be resolved: this user has no home folder; set HOME") from homeless


def _paths(value: Any) -> tuple[Path, ...]:
    parts = value.split(os.pathsep) if isinstance(value, str) else value
    if not isinstance(parts, list):
        raise ValueError("a list of paths is needed")
    return tuple(_path(part) for part in parts if part)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a text is needed")
    return value


def _words(value: Any) -> tuple[str, ...]:
    import shlex

    parts = shlex.split(value) if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ValueError("a command line or a list of texts is needed")
    return tuple(parts)


LAYERS = ("user", "root", "mounts", "landlock", "filter")
"""Protections around a program that can be left out, as the sandbox calls them."""


def _layers(value: Any) -> tuple[str, ...]:
    words = _words(value)
    if not set(words) <= set(LAYERS):
        raise ValueError(f"words of {', '.join(LAYERS)} are needed")
    return words


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a whole number is needed")
    number = int(value)
    if number < 1:
        raise ValueError("a whole number from 1 on is needed")
    return number


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str) or int(value) < 0:
        raise ValueError("a whole number from 0 on is needed")
    return int(value)


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a number of seconds is needed")
    number = float(value)
    if not 0 < number < float("inf"):
        raise ValueError("a positive number of seconds is needed")
    return number


def _optional_number(value: Any) -> float | None:
    if value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a number is needed")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a finite number is needed")
    return number


def _number(value: Any) -> float:
    number = _optional_number(value)
    if number is None or number < 0:
        raise ValueError("a number from 0 on is needed")
    return number


def _numbers(value: Any) -> tuple[float, ...]:
    parts = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(parts, list):
        raise ValueError("numbers are needed")
    return tuple(_number(part) for part in parts)


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)} is needed")
        return str(value)

    return read


def _default_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if home.startswith("/") else _in_home("~/.cache")) / "kope"


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting. `origins` says for each by name where it comes from."""

    db: Path = _setting(Path("kope.db"), _path, "the one file that holds all experience", is_path=True)
    cache: Path = _setting(_default_cache, _path, "build products and reference outputs; can be deleted", is_path=True)
    task_path: tuple[Path, ...] = _setting(
        (Path("tasks"),), _paths, "folders searched for tasks by name, before the shipped ones", is_path=True
    )
    target: str = _setting("twin", _one_of("twin", "ascend"), "what kernels run on")
    chip: str = _setting("910b2", _text, "the chip the twin models; target ascend without a card: the one simulated")
    compiler: str = _setting("auto", _text, "C++ compiler of the twin: auto, zig, a program or a path")
    ascend_home: Path | None = _setting(
        None, _path, "where CANN is installed; empty: ASCEND_HOME_PATH, else the usual places", is_path=True
    )
    ascend_profiler: str = _setting(
        "auto", _one_of("auto", "msprof", "msopprof", "simulator"), "what takes the times of target ascend"
    )
    ascend_prefix: tuple[str, ...] = _setting(
        (),
        _words,
        "command that reaches the machine with CANN: ssh HOST, docker exec -i NAME, srun ...; empty: this one",
    )
    ascend_folder: str = _setting("/tmp", _text, "where files lie behind ascend_prefix while a program runs there")
    ascend_without: tuple[str, ...] = _setting(
        (), _layers, "protections left out around programs on an NPU: user, root, mounts, landlock, filter"
    )
    jobs: int = _setting(lambda: max(1, min(os.cpu_count() or 1, 8)), _count, "programs run at once")
    embedder: str = _setting(
        "default", _text, "vectors of experiences: default, none, or any sentence-transformers model by name or folder"
    )
    templates: Path | None = _setting(None, _path, "folder of templates that replace shipped ones", is_path=True)
    command: tuple[str, ...] = _setting((), _words, "program of the proposer `command`: prompt in, candidate out")
    command_timeout_s: float = _setting(600.0, _seconds, "time the proposer's program gets")
    llm_base_url: str = _setting("", _text, "address of an OpenAI-compatible endpoint, for the proposer `llm`")
    llm_model: str = _setting("", _text, "name of the model there")
    llm_api_key_env: str = _setting("", _text, "name of the environment variable that holds the endpoint's key")
    llm_key_file: Path | None = _setting(None, _path, "file that holds the endpoint's key", is_path=True)
    llm_max_tokens: int = _setting(8192, _count, "longest reply asked for")
    llm_temperature: float | None = _setting(None, _optional_number, "sampling temperature; empty: the endpoint's own")
    llm_temperatures: tuple[float, ...] = _setting(
        (), _numbers, "temperatures of several proposals, in turn; the last also for exploring; empty: llm_temperature"
    )
    llm_prices: tuple[str, ...] = _setting(
        (), _words, "MODEL=PROMPT/REPLY, cost per million tokens; * for any model; for --cost and for several models"
    )
    llm_cost_weight: float = _setting(0.5, _number, "how much cost counts in choosing among several models; 0: nothing")
    llm_timeout_s: float = _setting(1200.0, _seconds, "time one call gets")
    window: int = _setting(32_768, _count, "tokens of the model's window: prompt and reply together")
    warm_tokens: int = _setting(6_000, _size, "the most that recalled experience may take of a prompt")
    cold_tokens: int = _setting(3_000, _size, "the most that documentation and distant experience may take of a prompt")
    reserve_tokens: int = _setting(0, _size, "tokens of the window kept free for what follows a prompt")
    signers: Path | None = _setting(
        None, _path, "file that lists whose SSH keys sign exports, in the form of git's allowed signers", is_path=True
    )
    tokenizer: Path | None = _setting(None, _path, "the model's tokenizer.json, to count tokens exactly", is_path=True)
    repairs: int = _setting(2, _size, "prompts in a row that repair one failed kernel")
    mcp_token_env: str = _setting("", _text, "name of the environment variable that holds the token of kope mcp --http")
    explore_after: int = _setting(4, _size, "attempts without a better kernel before another is started from; 0: never")
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False)

    def inherited(self, variables: Sequence[str]) -> dict[str, str]:
        """Return those of some environment variables that are set."""
        return {name: os.environ[name] for name in variables if os.environ.get(name)}

    def secret(self, variable: str) -> str:
        """Return the value of an environment variable that holds a key; "" when it is not set."""
        return os.environ.get(variable, "")


NAMES = tuple(entry.name for entry in fields(Settings) if entry.name != "origins")


def about(name: str) -> str:
    """Return one line on what a setting is for."""
    return str(next(entry for entry in fields(Settings) if entry.name == name).metadata["about"])


def load(flags: Mapping[str, Any] | None = None, *, cwd: Path | None = None) -> Settings:
    """Resolve every setting. flags: by name, None for one that was not given.

    Raises ConfigError for an unknown key of the file, naming the nearest, and for a value that cannot be used.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    file = find_file(cwd or _working_folder())
    table = _read(file) if file else {}
    _refuse_unknown(file, table)
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for entry in fields(Settings):
        name, variable = entry.name, PREFIX + entry.name.upper()
        if name == "origins":
            continue
        read = entry.metadata["read"]
        if name in given:
            flag = "--" + name.replace("_", "-")
            values[name], origins[name] = _value(read, given[name], flag), Origin("flag", flag)
        elif variable in os.environ and os.environ[variable] != "":
            values[name] = _value(read, os.environ[variable], variable)
            origins[name] = Origin("environment", variable)
        elif name in table and file:
            value = _value(read, table[name], f"{name} in {file}")
            values[name] = _beside(file, value) if entry.metadata["is_path"] else value
            origins[name] = Origin("file", f"{file}: {name}")
        else:
            origins[name] = Origin("default")
    return Settings(**values, origins=origins)


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as gone:
        raise ConfigError("the working folder does not exist any more; change into one that does") from gone


def find_file(folder: Path) -> Path | None:
    """Return the nearest kope.toml in a folder or above it."""
    folder = folder.absolute()
    for place in (folder, *folder.parents):
        candidate = place / FILE_NAME
        if candidate.is_file():
            return candidate
    return None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise ConfigError(f"{file}: {broken}; correct the file or delete it") from broken
    except OSError as failed:
        raise ConfigError(f"{file}: {failed.strerror}; make it readable") from failed


def _refuse_unknown(file: Path | None, table: Mapping[str, Any]) -> None:
    for key in table:
        if key not in NAMES:
            raise ConfigError(f"{file}: unknown setting {key!r}{_nearest(key, NAMES)}")


def unknown_variables() -> dict[str, str]:
    """Return environment variables that look like a setting and are none, each with the nearest one that is."""
    known = tuple(PREFIX + name.upper() for name in NAMES)
    return {
        name: difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
        for name in sorted(os.environ)
        if name.startswith(PREFIX) and name not in known
    }


def _nearest(word: str, words: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.0)
    return f"; did you mean {near[0]}?" if near else ""


def _value(read: Callable[[Any], Any], raw: Any, place: str) -> Any:
    try:
        return read(raw)
    except (ValueError, TypeError) as unusable:
        raise ConfigError(f"{place} is {raw!r}: {unusable}") from unusable


def _beside(file: Path, value: Path | tuple[Path, ...]) -> Path | tuple[Path, ...]:
    """Resolve relative paths against the folder of kope.toml."""
    return tuple(file.parent / part for part in value) if isinstance(value, tuple) else file.parent / value
