"""The words between driver and harness: the launch description it reads, the JSON lines it answers with.

Both are plain text. It starts no program; `runner` does.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kope.model import AttrValue, Diagnostic, LaunchCase, RunMode, TensorFile
from kope.target.twin import debugline
from kope.target.twin.source import SOURCE_NAME

DTYPE_BYTES = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "int64": 8,
    "bool": 1,
    "int16": 2,
}
"""Element size of every dtype a candidate can be called with; the order is that of KopeDtype."""


def tensor_bytes(tensor: TensorFile) -> int:
    """Size of a tensor's data."""
    return tensor.spec.numel * DTYPE_BYTES[tensor.spec.dtype]


def case_bytes(case: LaunchCase) -> int:
    """Bytes that must cross the memory bus at least once: inputs read, outputs written."""
    return sum(case_traffic(case))


def case_traffic(case: LaunchCase) -> tuple[int, int]:
    """Bytes that must be read and bytes that must be written at least once."""
    read, written = (
        sum(tensor_bytes(tensor) for tensor in tensors if tensor is not None) for tensors in (case.inputs, case.outputs)
    )
    return read, written


def describe(
    cases: Sequence[tuple[int, LaunchCase]],
    *,
    mode: RunMode,
    nonce: str,
    parameters: Mapping[str, float],
    words: Mapping[str, str] = {},
) -> str:
    """Return the launch description of some cases, each with the number it has among all.

    parameters: the runtime's, and ub_kernel_bytes, which only kope_entry is told. words: `checks` (strict, adversarial,
    off) and `chip`, its name for host code that asks.
    """
    lines = ["kope-launch 1", f"nonce {nonce}", f"mode {mode}", *(f"{key} {word}" for key, word in words.items())]
    for name, value in sorted(parameters.items()):
        lines.append(f"ub {int(value)}" if name == "ub_kernel_bytes" else f"param {name} {value!r}")
    for number, case in cases:
        lines.append(f"case {number} {block_order(case.case_id)}")
        lines += [_tensor("input", tensor) for tensor in case.inputs]
        lines += [_tensor("output", tensor) for tensor in case.outputs]
        lines += [_attr(name, value) for name, value in case.attrs.items()]
        lines.append("run")
    return "\n".join(lines) + "\n"


def block_order(case_id: str) -> int:
    """Return the order in which the blocks of a case run: 0 forward, 1 reverse, else the seed of a permutation.

    Each case has its own, always the same, so that cores that depend on each other without SyncAll show somewhere.
    """
    return zlib.crc32(case_id.encode("utf-8", "replace"))


def _tensor(role: str, tensor: TensorFile | None) -> str:
    if tensor is None or tensor.path is None:
        return f"{role} - omitted float32 0"
    spec = tensor.spec
    shape = " ".join(str(extent) for extent in (len(spec.shape), *spec.shape))
    return f"{role} {_escape(str(tensor.path))} {_escape(spec.name)} {spec.dtype} {shape}"


def _attr(name: str, value: AttrValue) -> str:
    if isinstance(value, bool):
        return f"attr {_escape(name)} bool {int(value)}"
    if isinstance(value, int):
        return f"attr {_escape(name)} int {value}"
    if isinstance(value, float):
        return f"attr {_escape(name)} float {_exact(value)}"
    if isinstance(value, tuple):
        return f"attr {_escape(name)} list {_escape(','.join(map(_exact, value)))}"
    return f"attr {_escape(name)} string {_escape(value)}"


def _exact(value: float) -> str:
    """Return a number as text that means exactly it: integers in decimal, floats in hexadecimal."""
    if isinstance(value, int):
        return str(value)
    return value.hex() if value - value == 0.0 else str(value)


def _escape(text: str) -> str:
    """Percent-encode everything that would end a word, so that one word stays one word."""
    kept = "".join(
        chr(byte) if 0x21 <= byte < 0x7F and byte != 0x25 else f"%{byte:02x}"
        for byte in text.encode("utf-8", "surrogateescape")
    )
    return kept or "%"


@dataclass(slots=True)
class Answer:
    """What the harness said about one case. state: "not-run", "begun" or "ended"."""

    state: str = "not-run"
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def duration_us(self) -> float:
        """Modelled time of the call."""
        return float(self.fields.get("duration_us", 0.0))

    @property
    def control_flow(self) -> str:
        """Hash of the path taken."""
        return str(self.fields.get("control_flow", ""))


def read_answers(data: bytes, nonce: str, numbers: Iterable[int]) -> dict[int, Answer]:
    """Return what the harness wrote, by case number. Lines without the nonce are not the harness's and are skipped."""
    answers = {number: Answer() for number in numbers}
    for line in data.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # cut off by the end of the process
        if not isinstance(entry, dict) or entry.get("nonce") != nonce or entry.get("case") not in answers:
            continue
        answer = answers[entry["case"]]
        answer.state = "begun" if entry.get("event") == "begin" else "ended"
        answer.fields.update(entry)
    return answers


_ADDRESS = re.compile(r"line @([0-9a-f]+)")
"""Where an earlier call stands that knows no line."""


def _line_at(executable: Path, address: int, sources: Collection[str]) -> str:
    return f"line {debugline.place_of(executable, address, sources)[1] or '?'}"


def diagnostics(
    answer: Answer, case_id: str, executable: Path | None = None, sources: Collection[str] = (SOURCE_NAME,)
) -> tuple[Diagnostic, ...]:
    """Return the harness's findings as diagnostics of one case.

    A fault carries the address of its instruction, and so do calls that do not know their line; the line in one of
    `sources` is looked up in the executable.
    """
    return tuple(_diagnostic(found, case_id, executable, sources) for found in answer.fields.get("findings", ()))


def _diagnostic(
    found: Mapping[str, Any], case_id: str, executable: Path | None, sources: Collection[str]
) -> Diagnostic:
    file, line = Path(str(found.get("file", ""))).name, int(found.get("line", 0))
    message = str(found["message"])
    if executable and found.get("address"):
        exact = debugline.place_of(executable, int(found["address"]), sources)
        file, line = exact if exact[1] else (file, line)
    if executable and "line @" in message:
        message = _ADDRESS.sub(lambda match: _line_at(executable, int(match.group(1), 16), sources), message)
    return Diagnostic(
        kind=str(found["kind"]),
        message=message,
        severity=str(found.get("severity", "error")),
        remedy=str(found.get("remedy", "")),
        file=file,
        line=line,
        case_id=case_id,
        count=int(found.get("count", 1)),
    )
