"""The launch description: which kernel of a foreign source is run, on what, with which tiling. See schema/launch.json.

It is read and checked here, and its tensors become files of raw data. What is done with it is `glue`'s and `run`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kope.errors import LaunchError
from kope.model import AttrValue, TensorFile, TensorSpec
from kope.target.twin.foreign.project import GE_TYPES

_KNOWN = frozenset(
    [
        "kernel",
        "blocks",
        "tiling_key",
        "tiling",
        "tiling_struct",
        "template",
        "workspace_bytes",
        "defines",
        "arguments",
        "inputs",
        "outputs",
        "attrs",
    ]
)
_TENSOR = frozenset(["name", "shape", "dtype", "file", "fill", "seed", "omitted", "list", "expected", "rtol", "atol"])
_CARRIED = {"uint16": "int16", "uint32": "int32", "uint64": "int64", "float64": "int64"}
"""Types the call interface has no name for travel as others of their size; the kernel sees its own type."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a launch. parts: it is a list of tensors. expected: what an output is compared with."""

    name: str
    dtype: str = "float32"
    shape: tuple[int, ...] = ()
    file: Path | None = None
    fill: str | float = "normal"
    seed: int = 0
    omitted: bool = False
    parts: tuple[Tensor, ...] = ()
    expected: Path | None = None
    rtol: float = 1e-3
    atol: float = 1e-3

    @property
    def flat(self) -> tuple[Tensor, ...]:
        """The tensor, or those of the list."""
        return self.parts or (self,)


@dataclass(frozen=True, slots=True)
class Description:
    """A launch. blocks, tiling_key, tiling, workspace_bytes: None where the project's tiling function is asked."""

    kernel: str | None = None
    blocks: int | None = None
    tiling_key: int | None = None
    tiling: Mapping[str, Any] | Path | None = None
    tiling_struct: str | None = None
    template: tuple[str, ...] | None = None
    workspace_bytes: int | None = None
    defines: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)


def read(path: Path) -> Description:
    """Read a launch description. Raises LaunchError when it is unreadable or says something that has no meaning."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise LaunchError(
            f"the launch description {path} cannot be read ({error}); write JSON as in docs/twin.md"
        ) from None
    return parse(data, path.parent)


def parse(data: Any, folder: Path) -> Description:
    """Turn JSON into a description; files are relative to folder. Raises LaunchError."""
    if not isinstance(data, dict):
        raise LaunchError("a launch description is a JSON object; see docs/twin.md")
    _only(data, _KNOWN, "the launch description")
    tiling = data.get("tiling")
    template = data.get("template")
    return Description(
        kernel=data.get("kernel"),
        blocks=_count(data, "blocks"),
        tiling_key=_count(data, "tiling_key"),
        tiling=folder / tiling if isinstance(tiling, str) else tiling,
        tiling_struct=data.get("tiling_struct"),
        template=tuple(_literal(value) for value in template) if template is not None else None,
        workspace_bytes=_count(data, "workspace_bytes"),
        defines={str(name): str(value) for name, value in data.get("defines", {}).items()},
        arguments=dict(data.get("arguments", {})),
        inputs=tuple(_tensor(entry, folder) for entry in data.get("inputs", ())),
        outputs=tuple(_tensor(entry, folder) for entry in data.get("outputs", ())),
        attrs=dict(data.get("attrs", {})),
    )


def _only(data: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    unknown = sorted(set(data) - known)
    if unknown:
        raise LaunchError(f"{where} has no field {unknown[0]!r}; its fields are {', '.join(sorted(known))}")


def _count(data: Mapping[str, Any], name: str) -> int | None:
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise LaunchError(f"{name} is {value!r} in the launch description; give a whole number from 0")
    return value


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tensor(entry: Any, folder: Path) -> Tensor:
    if not isinstance(entry, dict) or "name" not in entry:
        raise LaunchError(f"a tensor of the launch description needs a name: {json.dumps(entry)[:80]}")
    _only(entry, _TENSOR, f"tensor {entry['name']}")
    dtype = str(entry.get("dtype", "float32"))
    if dtype not in GE_TYPES:
        raise LaunchError(f"tensor {entry['name']} has dtype {dtype!r}; choose one of {', '.join(GE_TYPES)}")
    parts = tuple(
        _tensor({"name": f"{entry['name']}{k}", **part}, folder) for k, part in enumerate(entry.get("list", ()))
    )
    return Tensor(
        str(entry["name"]),
        dtype,
        tuple(int(extent) for extent in entry.get("shape", ())),
        folder / entry["file"] if "file" in entry else None,
        entry.get("fill", "normal"),
        int(entry.get("seed", 0)),
        bool(entry.get("omitted", False)),
        parts,
        folder / entry["expected"] if "expected" in entry else None,
        float(entry.get("rtol", 1e-3)),
        float(entry.get("atol", 1e-3)),
    )


def input_files(tensors: Sequence[Tensor], folder: Path) -> tuple[TensorFile | None, ...]:
    """Write the data of inputs as raw files; None for one that is left out. Raises LaunchError."""
    return tuple(_input_file(tensor, folder) for tensor in tensors)


def output_files(tensors: Sequence[Tensor], folder: Path) -> tuple[TensorFile, ...]:
    """Name the raw files outputs will be in."""
    return tuple(
        TensorFile(
            TensorSpec(tensor.name, tensor.shape, _CARRIED.get(tensor.dtype, tensor.dtype)),
            folder / f"{tensor.name}.out",
        )
        for tensor in tensors
    )


def _input_file(tensor: Tensor, folder: Path) -> TensorFile | None:
    if tensor.omitted:
        return None
    array = values(tensor)
    path = folder / f"{tensor.name}.in"
    array.tofile(path)
    return TensorFile(TensorSpec(tensor.name, tuple(array.shape), _CARRIED.get(tensor.dtype, tensor.dtype)), path)


def values(tensor: Tensor) -> Any:
    """Return the data of an input, as its file or its filling says. Raises LaunchError."""
    import numpy as np

    dtype = numpy_dtype(tensor.dtype)
    if tensor.file is not None:
        array = load(tensor.file, tensor.dtype, tensor.shape)
        return array if array.dtype == dtype else array.astype(dtype)
    rng = np.random.default_rng([tensor.seed, *tensor.name.encode()])
    if isinstance(tensor.fill, (int, float)):
        return np.full(tensor.shape, tensor.fill).astype(dtype)
    if tensor.fill == "arange":
        return np.arange(int(np.prod(tensor.shape))).reshape(tensor.shape).astype(dtype)
    if tensor.fill not in ("normal", "uniform"):
        raise LaunchError(f"tensor {tensor.name} has fill {tensor.fill!r}; use normal, uniform, arange or a number")
    if np.dtype(dtype).kind in "iub":
        return rng.integers(0, 2 if tensor.dtype == "bool" else 10, tensor.shape).astype(dtype)
    wide = rng.standard_normal(tensor.shape) if tensor.fill == "normal" else rng.uniform(-1, 1, tensor.shape)
    return wide.astype(np.float32).astype(dtype)


def load(path: Path, dtype: str, shape: tuple[int, ...]) -> Any:
    """Read a tensor from .npy, or from raw data of the given type and shape. Raises LaunchError."""
    import numpy as np

    wanted = numpy_dtype(dtype)
    try:
        array = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.fromfile(path, wanted)
        if array.dtype.kind == "V" or (dtype == "bfloat16" and array.dtype == np.uint16):
            array = array.view(wanted)
        return array.reshape(shape) if shape else array
    except (OSError, ValueError) as error:
        raise LaunchError(f"{path} cannot be read as {dtype} of shape {list(shape)} ({error})") from None


def numpy_dtype(name: str) -> Any:
    """Return NumPy's type for a dtype name."""
    if name == "bfloat16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    return name
