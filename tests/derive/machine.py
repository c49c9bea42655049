"""A register machine for tests: runs a lowered program with the registers it was given, so that a value overwritten
too early shows as a wrong number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kope.derive.kernel_plan import Plan
from kope.derive.program import Program, Step
from kope.derive.registers import Allocation, Section

_UNARY = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "abs": np.abs, "reciprocal": np.reciprocal, "rint": np.rint}
_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}
_REDUCE = {"sum": np.sum, "amax": np.max, "amin": np.min}
_COMPARE = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}


def run_section(
    plan: Plan,
    part: Section,
    allocation: Allocation,
    loads: Mapping[int, Any],
    numbers: Mapping[str, float],
    *,
    wide: bool,
) -> dict[int, Any]:
    """Outputs by step. wide: loads and outputs live in the wide slots, as for types that are not the compute type."""
    memory: dict[str, Any] = {}
    rows: dict[int, Any] = {}
    stored: dict[int, Any] = {}

    def cell(step: int) -> str:
        name = allocation.register[step]
        return f"wide{allocation.wide[name]}" if wide and name in allocation.wide else name

    for index in part.steps:
        step = plan.program.steps[index]
        args = [rows[a] if plan.program.steps[a].space == "row" else memory[cell(a)] for a in step.args]
        value = loads[index] if step.op == "load" else _apply(step, args, numbers)
        if step.space == "row":
            rows[index] = value
        else:
            operands = {arg: cell(arg) for arg in step.args if arg in allocation.register}
            _assert_read_once(plan.program, index, operands, cell(index))
            memory[cell(index)] = value
        if index in part.stored:
            stored[index] = np.array(value)
    return stored | {k: v for k, v in rows.items() if any(o.node == k for o in plan.program.outputs)}


def _assert_read_once(program: Program, index: int, operands: Mapping[int, str], target: str) -> None:
    """A column value is read again for every row, so the instruction must not write where one lies."""
    for arg, place in operands.items():
        assert place != target or program.steps[arg].space == program.steps[index].space


def _apply(step: Step, args: list[Any], numbers: Mapping[str, float]) -> Any:
    scalar = step.scalar.evaluate(numbers, numbers) if step.scalar is not None else None
    if step.op in _REDUCE:
        return _REDUCE[step.op](args[0], axis=-1, keepdims=True)
    if step.op in _BINARY:
        return _BINARY[step.op](*args)
    if step.op.removesuffix("s") in _BINARY:
        return _BINARY[{"adds": "add", "muls": "mul", "maxs": "max", "mins": "min"}[step.op]](args[0], scalar)
    if step.op in _UNARY:
        return _UNARY[step.op](args[0])
    if step.op == "fill":
        return np.full((1, 1), scalar)
    if step.op == "axpy":
        return args[0] + args[1] * scalar
    if step.op == "fused-multiply-add":
        return args[0] * args[1] + args[2]
    if step.op in ("compare", "compares"):
        return _COMPARE[step.mode](args[0], args[1] if step.op == "compare" else scalar)
    if step.op in ("select", "selects"):
        return np.where(args[0], args[1], args[2] if step.op == "select" else scalar)
    raise KeyError(step.op)


def loads_of(program: Program, arrays: Mapping[str, Any]) -> dict[int, Any]:
    """What each load of a program reads, in [rows, columns] form."""
    positions = {item.position: item for item in program.inputs}
    found = {}
    for at, step in enumerate(program.steps):
        if step.op != "load":
            continue
        item = positions[step.input]
        array = np.asarray(arrays[item.name], dtype=np.float64)
        if step.space == "col":
            found[at] = array.reshape(1, -1)
        elif step.space == "row":
            found[at] = array.reshape(-1, 1)
        else:
            array = array.reshape(-1, array.shape[-1])
            width = array.shape[1] // item.parts
            found[at] = array[:, step.part * width : (step.part + 1) * width]
    return found
