"""The macros that a CMakeLists.txt defines, at their defaults: what a program was written to be compiled with.

The file is read, never run: conditions are ignored, the first value of a variable counts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

NAME = "CMakeLists.txt"
_MOST_BYTES = 1 << 20
_COMMAND = re.compile(r'\b(\w+)\s*\(((?:"(?:[^"\\]|\\.)*"|[^()"])*)\)')
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_DEFINITION = re.compile(r"(?:-D)?([A-Za-z_]\w*(?:=.*)?)")
_SCOPES = ("PRIVATE", "PUBLIC", "INTERFACE")


def definitions(folder: Path) -> tuple[str, ...]:
    """Return what the CMakeLists.txt of a folder defines, as NAME or NAME=VALUE; () where there is none to read."""
    try:
        with open(folder / NAME, "rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    commands = list(_commands(text))
    values: dict[str, str] = {}
    for name, words in commands:
        if name in ("set", "option") and len(words) > 1:
            value = words[1] if name == "set" else words[-1]
            values.setdefault(words[0], _filled(value, values))
    found: dict[str, None] = {}
    for name, words in commands:
        for word in _defined(name, words):
            made = _DEFINITION.fullmatch(_filled(word, values))
            if made and "$" not in made[1]:
                found[made[1]] = None
    return tuple(found)


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    for command in _COMMAND.finditer(re.sub(r"(?m)#.*$", "", text)):
        try:
            yield command[1].lower(), shlex.split(command[2])
        except ValueError:
            continue  # quotes that CMake would read otherwise


def _defined(command: str, words: list[str]) -> list[str]:
    """Return the words of a command that define macros."""
    if command in ("add_definitions", "add_compile_options"):
        return [word for word in words if word.startswith("-D")]
    if command == "target_compile_options":
        return [word for word in words[1:] if word.startswith("-D")]
    if command == "add_compile_definitions":
        return words
    if command == "target_compile_definitions":
        return [word for word in words[1:] if word not in _SCOPES]
    return []


def _filled(word: str, values: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda name: values.get(name[1], name[0]), word)
