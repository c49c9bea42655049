"""Storage types of a kernel: which tensors share a dtype in every case, and what the host dispatches on."""

from __future__ import annotations

from dataclasses import dataclass

from kope.derive.graph import Graph
from kope.errors import DeriveError
from kope.model import Case, Task

CPP_TYPES = {
    "float32": "float",
    "float16": "half",
    "bfloat16": "bfloat16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "uint8_t",
    "int32": "int32_t",
}
KOPE_TYPES = {
    "float32": "KOPE_FLOAT32",
    "float16": "KOPE_FLOAT16",
    "bfloat16": "KOPE_BFLOAT16",
    "int8": "KOPE_INT8",
    "uint8": "KOPE_UINT8",
    "bool": "KOPE_BOOL",
    "int32": "KOPE_INT32",
}
SIZE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1, "int32": 4}
_PARAMETERS = ("T", "U", "V", "W")


@dataclass(frozen=True, slots=True)
class Storage:
    """Types of inputs (by position in the graph) and outputs: a C++ type, or a template parameter.

    parameters: template parameters in order. combinations: dtypes of the parameters, one tuple per combination of the
    task's cases, in order of appearance. dtypes_of: for each parameter the positions of the inputs that have it.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    combinations: tuple[tuple[str, ...], ...]
    representative: tuple[int, ...]

    def resolve(self, name: str, combination: tuple[str, ...]) -> str:
        """The dtype a type name stands for in a combination."""
        if name in self.parameters:
            return combination[self.parameters.index(name)]
        return name

    def size_bytes(self, name: str, combination: tuple[str, ...]) -> int:
        """Bytes of one element."""
        return SIZE_BYTES[self.resolve(name, combination)]


def storage_of(task: Task, graph: Graph) -> Storage:
    """Group tensors by the dtypes they have over the cases. Raises DeriveError for a dtype without a vector path."""
    columns = [tuple(_dtype(case, item.position) for case in task.cases) for item in graph.inputs]
    varying = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
    if len(varying) > len(_PARAMETERS):
        raise DeriveError(
            f"{len(varying)} tensors of {task.name} vary in dtype independently; at most {len(_PARAMETERS)} may"
        )
    parameters = _PARAMETERS[: len(varying)]
    names = {column: parameters[k] for k, column in enumerate(varying)}
    inputs = tuple(names.get(column, column[0]) for column in columns)
    outputs = tuple(_output_type(graph, inputs, task, dtype) for dtype in (o.dtype for o in graph.outputs))
    representative = tuple(columns.index(column) for column in varying)
    combinations = tuple(dict.fromkeys(zip(*varying, strict=True))) if varying else ((),)
    for dtype in {d for column in columns for d in column} | {o for o in outputs if o not in parameters}:
        if dtype not in CPP_TYPES:
            raise DeriveError(f"dtype {dtype} has no vector path on this chip; {task.name} cannot be derived")
    return Storage(inputs, outputs, parameters, combinations, representative)


def _dtype(case: Case, position: int) -> str:
    item = case.inputs[position]
    return item.spec.dtype if item is not None else ""


def _output_type(graph: Graph, inputs: tuple[str, ...], task: Task, dtype: str) -> str:
    if not dtype.startswith("same:"):
        return dtype
    name = dtype.removeprefix("same:")
    for item, kind in zip(graph.inputs, inputs, strict=True):
        if item.name == name:
            return kind
    raise DeriveError(
        f"an output of {task.name} has the dtype of {name}, which the reference does not read; declare its dtype"
    )


def cpp_type(name: str) -> str:
    """The C++ spelling of a type name; template parameters stand for themselves."""
    return CPP_TYPES.get(name, name)
