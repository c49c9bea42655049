"""Finds out how an operator's output shapes and dtypes follow from its inputs: a short Python expression for each.

A submission has to allocate its outputs before it launches, for any input, and a suite says how only through its
reference. So expressions that are usual for operators are tried, the simplest first, until one holds in every case
known. What none of them says is refused: a table of the public cases would be no operator.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kope.errors import TaskError
from kope.model import Case, Parameter, Task, TensorSpec

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """What an expression may ask of an input."""

    shape: Shape
    dtype: str


@dataclass(frozen=True, slots=True)
class OutputRule:
    """One output as expressions over the reference's parameters. many: both give a list, one entry per tensor."""

    shape: str
    dtype: str
    many: bool = False


def broadcast(*shapes: Sequence[int]) -> Shape:
    """Return the shape that shapes broadcast to."""
    columns = itertools.zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return tuple(reversed([max(column) if 0 not in column else 0 for column in columns]))


def without(shape: Sequence[int], axis: int) -> Shape:
    """Return a shape with an axis left out."""
    at = axis % len(shape)
    return (*shape[:at], *shape[at + 1 :])


def resized(shape: Sequence[int], axis: int, extent: int) -> Shape:
    """Return a shape with another extent along an axis."""
    at = axis % len(shape)
    return (*shape[:at], extent, *shape[at + 1 :])


def reduced(shape: Sequence[int], axis: int, keep: bool) -> Shape:
    """Return the shape of a reduction along an axis."""
    return resized(shape, axis, 1) if keep else without(shape, axis)


def halved(shape: Sequence[int], axis: int) -> Shape:
    """Return a shape with half the extent along an axis."""
    return resized(shape, axis, shape[axis] // 2)


def window(extent: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    """Return how often a window fits. pad: elements added on both sides together."""
    return (extent + pad - dilation * (kernel - 1) - 1) // stride + 1


FUNCTIONS = {
    "broadcast": broadcast,
    "without": without,
    "resized": resized,
    "reduced": reduced,
    "halved": halved,
    "window": window,
}
"""What expressions may call; a submission carries them along."""


def arguments(task: Task, case: Case) -> dict[str, Any]:
    """Return a case's parameters as expressions see them: tensors with shape and dtype, lists of them, attributes."""
    assert task.origin is not None
    given = {item.spec.name: Tensor(item.spec.shape, item.spec.dtype) for item in case.inputs if item is not None}
    values: dict[str, Any] = {}
    for parameter in task.origin.parameters:
        members = [given[name] for name in parameter.inputs if name in given]
        if parameter.kind == "attr":
            values[parameter.name] = case.attrs.get(parameter.name)
        elif parameter.kind == "list":
            values[parameter.name] = members
        else:
            values[parameter.name] = members[0] if members else None
    return values


def output_rules(task: Task, known: Sequence[tuple[Case, Sequence[TensorSpec]]]) -> list[OutputRule]:
    """Return a rule per declared output that holds in every case known. Raises TaskError where there is none.

    An input that an output is named after (key, key_out) is tried first.
    """
    assert task.origin is not None
    parameters = task.origin.parameters
    cases = [arguments(task, case) for case, _ in known]
    outputs = [list(specs) for _, specs in known]
    if any(output.many for output in task.outputs):
        return [_list_rule(task, parameters, cases, outputs)]
    if len({len(specs) for specs in outputs}) != 1:
        raise TaskError(f"{task.name}: returns more outputs in some cases than in others; no rule for that")
    rules = []
    for at, first in enumerate(outputs[0]):
        likely = sorted(parameters, key=lambda parameter: not first.name.startswith(parameter.name))
        shapes, dtypes = [specs[at].shape for specs in outputs], [specs[at].dtype for specs in outputs]
        shape = _first(task, _shapes(likely, cases, shapes), cases, shapes, "shape")
        rules.append(OutputRule(shape, _first(task, _dtypes(likely, dtypes), cases, dtypes, "dtype")))
    return rules


def evaluate(expression: str, values: Mapping[str, Any]) -> Any:
    """Return what an expression says for a case; None where it does not apply."""
    try:
        # The expressions are this module's own; a task gives only names, which are identifiers.
        return eval(expression, {"__builtins__": {}, **FUNCTIONS, **values})
    except (TypeError, IndexError, AttributeError, ZeroDivisionError, KeyError):
        return None


def _first(
    task: Task, expressions: Iterator[str], cases: Sequence[Mapping[str, Any]], wanted: Sequence[Any], what: str
) -> str:
    for expression in expressions:
        if all(_plain(evaluate(expression, case)) == want for case, want in zip(cases, wanted, strict=True)):
            return expression
    raise TaskError(f"{task.name}: no rule found for the {what} of an output; it cannot be handed in")


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


def _list_rule(
    task: Task,
    parameters: Sequence[Parameter],
    cases: Sequence[Mapping[str, Any]],
    outputs: Sequence[Sequence[TensorSpec]],
) -> OutputRule:
    """A list of outputs follows a list of inputs, member by member."""
    shapes = [tuple(spec.shape for spec in specs) for specs in outputs]
    dtypes = [tuple(spec.dtype for spec in specs) for specs in outputs]
    lists = [parameter.name for parameter in parameters if parameter.kind == "list"]
    shape_texts = (text for name in lists for text in (f"[one.shape for one in {name}]", f"[() for one in {name}]"))
    dtype_texts = (f"[one.dtype for one in {name}]" for name in lists)
    return OutputRule(
        _first(task, shape_texts, cases, shapes, "shape"), _first(task, dtype_texts, cases, dtypes, "dtype"), many=True
    )


def _dtypes(parameters: Sequence[Parameter], dtypes: Sequence[str]) -> Iterator[str]:
    for parameter in parameters:
        if parameter.kind == "tensor":
            yield f"{parameter.name}.dtype"
        elif parameter.kind == "list":
            yield f"{parameter.name}[0].dtype"
    yield repr(dtypes[0])
    for parameter in parameters:
        if parameter.kind == "attr":
            yield parameter.name


def _shapes(
    parameters: Sequence[Parameter], cases: Sequence[Mapping[str, Any]], wanted: Sequence[Shape]
) -> Iterator[str]:
    """Yield expressions from simple to involved."""
    tensors = [parameter.name for parameter in parameters if parameter.kind == "tensor"]
    whole = [name for name in tensors if all(case[name] is not None for case in cases)]
    attrs = [parameter.name for parameter in parameters if parameter.kind == "attr"]
    axes = [name for name in attrs if all(type(case[name]) is int for case in cases)]
    flags = [name for name in attrs if all(type(case[name]) is bool for case in cases)]
    lists = [name for name in attrs if all(isinstance(case[name], tuple) for case in cases)]
    for name in whole:
        yield f"{name}.shape"
    for one, two in itertools.permutations(whole, 2):
        yield f"broadcast({one}.shape, {two}.shape)"
    for name in whole:
        yield f"{name}.shape[:-1]"
        yield f"(*{name}.shape[:-1], 1)"
        yield f"halved({name}.shape, -1)"
        for axis in axes:
            yield f"halved({name}.shape, {axis})"
            yield f"without({name}.shape, {axis})"
            yield f"resized({name}.shape, {axis}, 1)"
            yield from (f"reduced({name}.shape, {axis}, {flag})" for flag in flags)
            yield from (f"resized({name}.shape, {axis}, {extent})" for extent in axes if extent != axis)
            yield f"({axis}, *{name}.shape[1:])"
            yield f"(*{name}.shape[:-1], {axis})"
        for values in lists:
            yield f"[{name}.shape[k] for k in {values}]"
            yield f"(*{name}.shape[:2], *{values})"
    for one, two in itertools.permutations(whole, 2):
        yield f"(*{one}.shape[:-1], {two}.shape[-1])"
        yield f"(*{one}.shape[:-1], *{two}.shape[-1:])"
    yield "()"
    yield from _windows(whole, lists, wanted)
    if len({len(shape) for shape in wanted}) == 1:
        yield from _by_extent(whole, axes, lists, cases, wanted)


def _windows(tensors: Sequence[str], lists: Sequence[str], wanted: Sequence[Shape]) -> Iterator[str]:
    """Yield the shapes of a convolution over two axes: padding at each end, or the same at both."""
    if {len(shape) for shape in wanted} != {4}:
        return
    for x, w in itertools.permutations(tensors, 2):
        for strides, pads, dilations in itertools.permutations(lists, 3):
            for ends in (f"{pads}[0] + {pads}[1]", f"{pads}[2] + {pads}[3]"), (f"2 * {pads}[0]", f"2 * {pads}[1]"):
                extents = [
                    f"window({x}.shape[{k + 2}], {w}.shape[{k + 2}], {strides}[{k}], {pad}, {dilations}[{k}])"
                    for k, pad in enumerate(ends)
                ]
                yield f"({x}.shape[0], {w}.shape[0], {', '.join(extents)})"


def _by_extent(
    tensors: Sequence[str],
    axes: Sequence[str],
    lists: Sequence[str],
    cases: Sequence[Mapping[str, Any]],
    wanted: Sequence[Shape],
) -> Iterator[str]:
    """Yield the shape put together extent by extent, each an extent of an input, an attribute, or a constant."""
    atoms = [f"{name}.shape[{k}]" for name in tensors for k in (*range(4), -1, -2, -3)]
    atoms += [*axes, *(f"{name}[{k}]" for name in lists for k in range(6))]
    atoms += [f"{one} * {two}" for one, two in itertools.combinations(atoms[: 4 * len(tensors)], 2)]
    extents = []
    for at in range(len(wanted[0])):
        column = [shape[at] for shape in wanted]
        found = next(
            (
                atom
                for atom in atoms
                if all(evaluate(atom, case) == extent for case, extent in zip(cases, column, strict=True))
            ),
            None,
        )
        if found is None and len(set(column)) == 1:
            found = str(column[0])
        if found is None:
            return
        extents.append(found)
    yield f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
