"""Reads the signature of a suite's reference from its source: which parameters take tensors, lists of them, attributes.

Nothing is executed. What fills a parameter is the importer's business.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kope.errors import TaskError
from kope.task.fields import nearest

NO_DEFAULT: Any = object()


@dataclass(frozen=True, slots=True)
class Signature:
    """A reference's parameters in order. kinds: name -> "tensor", "list" or "attr"; defaults: of those that have one.

    functions: every function the file defines at its top.
    """

    kinds: Mapping[str, str]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    functions: frozenset[str] = frozenset()


def read_signature(source: str, file: Path, symbol: str) -> Signature:
    """Return the signature of `symbol`. An annotation that speaks of Tensor makes a tensor, List[...Tensor] a list.

    Raises TaskError when the file is no Python, has no such function, or a default that is no plain value.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise TaskError(f"{file}: {error}; restore the file as its suite published it") from error
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if symbol not in functions:
        raise TaskError(f"{file}: no function {symbol}(); {nearest(symbol, functions)}")
    arguments = functions[symbol].args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return Signature(
        {argument.arg: _kind(argument.annotation) for argument in named},
        _defaults(arguments, file),
        frozenset(functions),
    )


def _kind(annotation: ast.expr | None) -> str:
    text = ast.unparse(annotation) if annotation is not None else ""
    if "Tensor" not in text:
        return "attr"
    return "list" if "List[" in text else "tensor"


def _defaults(arguments: ast.arguments, file: Path) -> dict[str, Any]:
    positional = [*arguments.posonlyargs, *arguments.args]
    given: list[tuple[ast.arg, ast.expr | None]] = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    values = {}
    for argument, node in given:
        if node is not None:
            try:
                values[argument.arg] = ast.literal_eval(node)
            except ValueError as error:
                raise TaskError(f"{file}:{node.lineno}: the default of {argument.arg} is no plain value") from error
    return values
