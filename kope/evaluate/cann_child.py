"""CANN Bench's rules for inputs and calls, as its own evaluator applies them (framework 1.0.0), in PyTorch.

Runs in the sandboxed process of origin_child.py, beside the suite's own Python. Values, their order from one generator
and the seed are those of the suite's data generator, so that everybody gets the same bytes as from the suite itself.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

DTYPES = {
    name: getattr(torch, name)
    for name in ("float32", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool")
}
_SPECIAL_SHARE = 20
"""A range with an infinite end puts -inf into the first and inf into the last twentieth of a tensor."""


def seed_of(unit: str, case_id: str, seed: int) -> int:
    """Return the seed of a case: the sum of the run's and of a hash of its name, both below 2**31."""
    digest = hashlib.sha256(f"{unit}_{case_id}".encode()).digest()
    return int((seed + int.from_bytes(digest[:8], "big") % 2**31) % 2**31)


def make_inputs(
    row: Mapping[str, Any],
    unit: str,
    case_id: str,
    recipe: Mapping[str, Any],
    seed: int,
    hook: Callable[..., Any] | None,
) -> list[Any]:
    """Return the tensors of a case by position, after the suite's get_input if any: tensor, list of tensors, None."""
    tensors = _generate(row, torch.Generator().manual_seed(seed_of(unit, case_id, seed)))
    if hook is None:
        return tensors
    names = recipe["proto_inputs"]
    given = {name: tensors[k] if k < len(tensors) else None for k, name in enumerate(names)}
    given |= {name: value for name, value in row["attrs"].items() if name not in given}
    given.setdefault("skip2_exist", row["attrs"].get("skip2_exist", True))
    return list(hook(**given))


def _generate(row: Mapping[str, Any], generator: torch.Generator) -> list[Any]:
    shapes = row["input_shape"]
    dtypes = [*row["dtype"], *row["dtype"][-1:] * (len(shapes) - len(row["dtype"]))]
    ranges = row["value_range"]
    if not ranges:
        ranges = [None] * len(shapes)
    elif isinstance(ranges[0], list):
        ranges = [*ranges, *ranges[-1:] * (len(shapes) - len(ranges))]
    else:
        ranges = [ranges] * len(shapes)
    tensors: list[Any] = []
    for k, shape in enumerate(shapes):
        dtype, span = dtypes[k] if k < len(dtypes) else dtypes, ranges[k]
        if shape is None:
            tensors.append(None)
        elif isinstance(shape[0], list):
            tensors.append(_tensor_list(shape, dtype, span, generator))
        else:
            plain = isinstance(span, list) and len(span) == 2 and not isinstance(span[0], list)
            tensors.append(_tensor(shape, _first(dtype), span if plain else None, generator))
    return tensors


def _tensor_list(shapes: list[Any], dtype: Any, span: Any, generator: torch.Generator) -> list[Any]:
    """A range that is one pair of numbers does not reach the members of a list: they get the default range."""
    own = span if isinstance(span, list) and not (len(span) == 2 and isinstance(span[0], int | float)) else None
    members = []
    for k, shape in enumerate(shapes):
        member_dtype = dtype[k] if isinstance(dtype, list) and k < len(dtype) else _first(dtype)
        members.append(_tensor(shape, member_dtype, own[k] if own and k < len(own) else own, generator))
    return members


def _first(dtype: Any) -> str:
    return str(dtype[0] if isinstance(dtype, list) and dtype else dtype)


def _tensor(shape: list[Any], dtype: str, span: Any, generator: torch.Generator) -> Any:
    if None in shape:
        return None
    low, high = _bounds(span, dtype)
    kind = DTYPES[dtype]
    if dtype == "bool":
        return _bools(shape, low, high, generator)
    if not kind.is_floating_point:
        if low == high:
            return torch.full(shape, int(low), dtype=kind)
        return torch.randint(int(low), int(high) + 1, shape, generator=generator, dtype=kind)
    low, high = float(low), float(high)
    if not (math.isfinite(low) and math.isfinite(high)):
        return _special(shape, kind, low, high, generator)
    if low == high:
        return torch.full(shape, low, dtype=kind)
    facts = torch.finfo(kind)
    low, high = max(low, facts.min), min(high, facts.max)
    values = torch.rand(shape, dtype=torch.float64, generator=generator)
    values.mul_(high - low).add_(low).clamp_(facts.min, facts.max)
    return values.to(kind)


def _bounds(span: Any, dtype: str) -> tuple[Any, Any]:
    if span is None:
        return (0.0, 1.0) if DTYPES[dtype].is_floating_point else (0, 100)
    if isinstance(span, list):
        return (span[0], span[1]) if len(span) > 1 else (span[0], span[0])
    return span, span


def _bools(shape: list[int], low: Any, high: Any, generator: torch.Generator) -> Any:
    low, high = sorted(min(1, max(0, int(end))) for end in (low, high))
    if low == high:
        return torch.full(shape, bool(low), dtype=torch.bool)
    return torch.randint(low, high + 1, shape, generator=generator, dtype=torch.int64).to(torch.bool)


def _special(shape: list[int], kind: torch.dtype, low: float, high: float, generator: torch.Generator) -> Any:
    """Half of the elements NaN for a NaN range; else infinities at both ends of the flattened tensor."""
    tensor = torch.rand(shape, dtype=torch.float32, generator=generator).mul_(2).sub_(1).to(kind)
    if math.isnan(low) and math.isnan(high):
        tensor[torch.rand(shape, dtype=torch.float32, generator=generator) < 0.5] = float("nan")
        return tensor
    if low == -math.inf or high == math.inf:
        flat = tensor.flatten()
        count = max(1, flat.numel() // _SPECIAL_SHARE)
        flat[:count] = -math.inf
        flat[-count:] = math.inf
    return tensor


def arguments(
    parameters: Sequence[Mapping[str, Any]], tensors: Sequence[Any], attrs: Mapping[str, Any], *, hooked: bool
) -> dict[str, Any]:
    """Return the keyword arguments of a call. Tensors go by position to tensor parameters; an absent one is left out.

    hooked: inputs came from get_input; then attributes are passed as they stand, else text that is a number is one.
    """
    call: dict[str, Any] = {}
    position = 0
    for parameter in parameters:
        name = parameter["name"]
        if parameter["kind"] != "attr":
            if position < len(tensors):
                call[name] = tensors[position]
            elif hooked:
                call[name] = None
            position += 1
        elif name in attrs:
            call[name] = attrs[name] if hooked else _number(attrs[name])
    return call


def _number(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def widened(value: Any) -> Any:
    """Return a tensor, list or None with its floats as float64."""
    if isinstance(value, list):
        return [widened(member) for member in value]
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


class Suite:
    """One operator: its hooks, and how cases are filled and called."""

    def __init__(self, request: Mapping[str, Any], module: Any) -> None:
        self.unit: str = request["unit"]
        self.seed: int = request["seed"]
        self.recipe: Mapping[str, Any] = request["recipe"]
        self.parameters: Sequence[Mapping[str, Any]] = request["parameters"]
        self.outputs: Sequence[Mapping[str, Any]] = request["outputs"]
        self.hook = getattr(module, "get_input", None) if self.recipe["get_input"] else None
        self._oracle = getattr(module, self.recipe["oracle"])
        self._native = getattr(module, self.recipe["same_precision"])

    def inputs(self, case: Mapping[str, Any]) -> list[Any]:
        """Return the case's tensors in the order of the task's inputs, None for those omitted."""
        made = make_inputs(case["row"], self.unit, case["id"], self.recipe, self.seed, self.hook)
        flat: list[Any] = []
        position = 0
        for parameter in self.parameters:
            if parameter["kind"] == "attr":
                continue
            value = made[position] if position < len(made) else None
            position += 1
            members = value if isinstance(value, list | tuple) else [value]
            room = len(parameter["inputs"])
            if len(members) > room:
                raise ValueError(f"{parameter['name']} got {len(members)} tensors, its cases declare {room}")
            flat += [*members, *[None] * (room - len(members))]
        return flat

    def oracle(self, case: Mapping[str, Any], given: Sequence[Any]) -> list[Any]:
        """Return the outputs computed from float64 inputs."""
        return _flat(self._oracle(**self._call(case, [widened(tensor) for tensor in given])))

    def native(self, case: Mapping[str, Any], given: Sequence[Any]) -> list[Any]:
        """Return the outputs computed in the case's own dtypes."""
        return _flat(self._native(**self._call(case, given)))

    def _call(self, case: Mapping[str, Any], given: Sequence[Any]) -> dict[str, Any]:
        """Regroup the task's inputs into the reference's parameters."""
        tensors = iter(given)
        by_position: list[Any] = []
        count = len(given) if self.hook is not None else len(case["row"]["input_shape"])
        for parameter in self.parameters:
            if parameter["kind"] == "attr":
                continue
            members = [next(tensors) for _ in parameter["inputs"]]
            by_position.append(_grouped(parameter, members))
        return arguments(self.parameters, by_position[:count], case["row"]["attrs"], hooked=self.hook is not None)

    def output_names(self, returned: Sequence[Any]) -> list[str]:
        """Return names for returned tensors: as declared, numbered where the one declared output is a list."""
        names = [output["name"] for output in self.outputs]
        if len(names) == 1 and (self.outputs[0]["many"] or len(returned) != 1):
            return [f"{names[0]}_{k}" for k in range(len(returned))]
        if len(returned) > len(names):
            raise ValueError(f"returned {len(returned)} values, {len(names)} are declared")
        return names[: len(returned)]


def _grouped(parameter: Mapping[str, Any], members: list[Any]) -> Any:
    """A list shorter than the longest of any case ends early; the suite passes an omitted one as [None]."""
    if parameter["kind"] == "tensor":
        return members[0]
    return [member for member in members if member is not None] or [None]


def _flat(returned: Any) -> list[Any]:
    """Return what a reference returned as a flat list of tensors, as the suite flattens it."""
    if isinstance(returned, torch.Tensor):
        return [returned]
    flat: list[Any] = []
    for value in returned if isinstance(returned, list | tuple) else [returned]:
        if isinstance(value, list | tuple):
            flat += _flat(value)
        elif isinstance(value, torch.Tensor):
            flat.append(value)
        else:
            raise TypeError(f"returned {type(value).__name__} where a tensor is declared")
    return flat
