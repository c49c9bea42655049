"""Reads a reference's parameters from its source, so that a task is checked without running anybody's code."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from kope.errors import TaskError
from kope.task.fields import nearest


def check_signature(source: str, file: Path, symbol: str, inputs: Sequence[str], attrs: Sequence[str]) -> None:
    """Raise TaskError unless `symbol` takes every input and attribute by keyword and needs nothing else."""
    function = _find(source, file, symbol)
    arguments = function.args
    if arguments.posonlyargs:
        raise TaskError(f"{file}: {symbol}() has positional-only parameters; it is called by keyword, remove the `/`")
    names = [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]
    given = [*inputs, *attrs]
    if arguments.kwarg is None:
        for name in given:
            if name not in names:
                raise TaskError(f"{file}: {symbol}() has no parameter {name}; add it, or {nearest(name, names)}")
    required = _required(arguments)
    for name in required:
        if name not in given:
            raise TaskError(
                f"{file}: {symbol}() needs {name}, which task.toml does not give; add it to inputs or attrs"
            )


def _find(source: str, file: Path, symbol: str) -> ast.FunctionDef:
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise TaskError(f"{file}:{error.lineno}: {error.msg}; correct the Python") from error
    except ValueError as error:  # NUL bytes
        raise TaskError(f"{file}: {error}; save it as plain UTF-8 text") from error
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if symbol not in functions:
        raise TaskError(f"{file}: no function {symbol}(); {nearest(symbol, functions)} (key `symbol` in task.toml)")
    return functions[symbol]


def _required(arguments: ast.arguments) -> list[str]:
    positional = arguments.args[: len(arguments.args) - len(arguments.defaults)]
    keyword = [arg for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is None]
    return [argument.arg for argument in (*positional, *keyword)]
