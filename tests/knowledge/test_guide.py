"""The Ascend C guide: every kernel in it is compiled and run on the twin, every type in its tables is tried."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.knowledge import guide
from kope.model import Candidate
from kope.resources import folder
from kope.target.twin import TwinTarget
from tests.target.launching import Call, read_output, run

Array = np.ndarray[Any, Any]
FILES = sorted(folder("guide").glob("*.md"))
_BLOCK = re.compile(r"^```cpp\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_KERNEL = re.compile(r'extern "C" __global__ __aicore__ void (?P<name>\w+)\(GM_ADDR x, GM_ADDR y, uint32_t n\)')
RNG = np.random.default_rng(11)


def softmax(x: Array) -> Array:
    rows = x.reshape(-1, 64).astype(np.float64)
    exps = np.exp(rows - rows.max(1, keepdims=True))
    return (exps / exps.sum(1, keepdims=True)).ravel()


EXPECTED: dict[str, tuple[int, int, Callable[[Array], Array]]] = {
    "blocks_copy": (1_003, 7, lambda x: x),
    "pipeline": (5_001, 3, lambda x: 2 * x),
    "reinterpret_abs": (1_003, 2, np.abs),
    "padded_rows": (40, 1, lambda x: x.reshape(-1, 5).max(1)),
    "atomic_add": (8 * 48, 48, lambda x: x.reshape(48, 8).astype(np.float64).sum(0)),
    "flags": (512, 1, lambda x: 3 * x),
    "scalar_from_vector": (1_024, 1, lambda x: x / x.astype(np.float64).sum()),
    "repeat_stride": (64 * 9, 1, lambda x: (x.reshape(-1, 64) + x[:64]).ravel()),
    "silu": (1_000, 1, lambda x: x / (1 + np.exp(-x.astype(np.float64)))),
    "softmax64": (64 * 21, 1, softmax),
    "through_half": (1_008, 1, lambda x: x.astype(np.float16).astype(np.float32)),
    "threshold": (640, 1, lambda x: np.where(x > 0.5, x, 0)),
    "shares": (100_003, 48, lambda x: x + 1),
}
"""Kernel -> elements of x, blocks, what y has to be."""


def kernels() -> dict[str, str]:
    found = {}
    for file in FILES:
        for block in _BLOCK.finditer(file.read_text("utf-8")):
            named = _KERNEL.search(block["code"])
            assert named, f"{file.name}: a code block without a kernel that can be run:\n{block['code']}"
            assert named["name"] not in found
            found[named["name"]] = block["code"]
    return found


@pytest.fixture(scope="module")
def twin(twin_cache: Path) -> TwinTarget:
    target = TwinTarget(twin_cache)
    target.prepare()
    return target


def candidate(sources: dict[str, str]) -> str:
    """Return one candidate that launches the kernel whose name is the attribute `which`."""
    launches = "".join(
        f'    if (!strcmp(which, "{name}")) {{ {name}<<<blocks, nullptr, call->stream>>>(x, y, n); return 0; }}\n'
        for name in sources
    )
    return (
        '#include "kernel_operator.h"\n#include "kope_candidate.h"\n'
        + "\n".join(sources.values())
        + 'extern "C" int kope_entry(const KopeCall* call)\n{\n'
        + '    const char* which = kope_attr_s(call, "which", "");\n'
        + '    const uint32_t blocks = static_cast<uint32_t>(kope_attr_i(call, "blocks", 1));\n'
        + "    const uint32_t n = static_cast<uint32_t>(call->inputs[0].numel);\n"
        + "    GM_ADDR x = static_cast<GM_ADDR>(call->inputs[0].data);\n"
        + "    GM_ADDR y = static_cast<GM_ADDR>(call->outputs[0].data);\n"
        + launches
        + "    return 1;\n}\n"
    )


def test_every_kernel_of_the_guide_is_run() -> None:
    assert set(kernels()) == set(EXPECTED) and len(EXPECTED) > 10


def test_kernels_of_the_guide_are_right_and_without_findings(twin: TwinTarget, tmp_path: Path) -> None:
    sources = kernels()
    calls, wants = [], []
    for name, (count, blocks, expected) in EXPECTED.items():
        x = RNG.uniform(-2, 2, count).astype(np.float32)
        if name in ("padded_rows", "atomic_add"):  # -1 is the padding; sums in any order stay near each other
            x = np.abs(x)
        wants.append(expected(x))
        calls.append(Call([x], [((wants[-1].size,), "float32")], {"which": name, "blocks": blocks}))
    cases, runs = run(twin, candidate(sources), calls, tmp_path)
    found = {name: one.diagnostics for name, one in zip(EXPECTED, runs, strict=True)}
    assert {name: said for name, said in found.items() if said} == {}
    for name, case, want in zip(EXPECTED, cases, wants, strict=True):
        np.testing.assert_allclose(read_output(case), want, rtol=1e-5, atol=1e-6, err_msg=name)


# --- tables: every type that is named compiles, every other is refused ------------------------------------------------

TYPES = ("half", "float", "bfloat16_t", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t")
ONE = {"Relu", "Not", "Abs", "Exp", "Ln", "Sqrt", "Rsqrt", "Reciprocal"}
SCALAR = {"Adds", "Muls", "Maxs", "Mins", "LeakyRelu", "ShiftLeft", "ShiftRight", "Axpy"}
TWO = {"Add", "Sub", "Mul", "Max", "Min", "Div", "And", "Or", "AddRelu", "SubRelu", "FusedMulAdd", "MulAddDst"}


def table_types() -> dict[str, set[str]]:
    """Return function -> types of the arithmetic tables."""
    text = (folder("guide") / "vector.md").read_text("utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| [^|]* \| ([^|]*) \|$", text, re.MULTILINE)
    found = {}
    for names, types in rows:
        known = {word for word in re.findall(r"\w+", types.partition(", or half")[0]) if word in TYPES}
        found |= {name: known for name in re.findall(r"`(\w+)`", names)}
    return found


def call_of(name: str, dtype: str) -> str:
    tensors = f"LocalTensor<{dtype}> d, a, b;"
    operands = {"one": "d, a", "scalar": f"d, a, static_cast<{dtype}>(1)", "two": "d, a, b"}
    kind = "one" if name in ONE else "scalar" if name in SCALAR else "two"
    return f"{tensors} {name}({operands[kind]}, 8);"


def with_calls(calls: list[tuple[str, str]]) -> str:
    """Return a candidate with one function a line for each call, from line 4 on."""
    lines = [f"__aicore__ inline void f{at}() {{ {call_of(*call)} }}" for at, call in enumerate(calls)]
    used = "".join(f"f{at}();" for at in range(len(calls)))
    head = '#include "kernel_operator.h"\n#include "kope_candidate.h"\nusing namespace AscendC;\n'
    tail = f'\nextern "C" __global__ __aicore__ void k(GM_ADDR x) {{ if (x == nullptr) {{ {used} }} }}\n'
    return head + "\n".join(lines) + tail + 'extern "C" int kope_entry(const KopeCall* call) { return 1; }\n'


def test_tables_name_every_arithmetic_function() -> None:
    assert set(table_types()) == ONE | SCALAR | TWO


def test_types_of_the_tables_are_taken(twin: TwinTarget, tmp_path: Path) -> None:
    named = [(name, dtype) for name, types in table_types().items() for dtype in sorted(types)]
    built = twin.build(Candidate.of(with_calls(named)), tmp_path)
    assert built.executable is not None, built.log


def test_types_that_the_tables_leave_out_are_refused(twin: TwinTarget, tmp_path: Path) -> None:
    """One type of each function, a few in a file: a compiler's log is cut when it is long."""
    others = []
    for at, (name, types) in enumerate(table_types().items()):
        left_out = [dtype for dtype in TYPES if dtype not in types]
        others.append((name, left_out[at % len(left_out)]))
    accepted = []
    for start in range(0, len(others), 5):
        calls = others[start : start + 5]
        log = twin.build(Candidate.of(with_calls(calls)), tmp_path / str(start)).log
        refused = {int(line) for line in re.findall(r"\.asc:(\d+):", log)}
        accepted += [call for at, call in enumerate(calls) if at + 4 not in refused]
    assert accepted == []


# --- as a library ---------------------------------------------------------------------------------------------------


def test_guide_is_cut_into_passages_that_fit_prompts() -> None:
    documents = guide()
    assert len(documents) == len(FILES) >= 10
    for document in documents:
        assert document.name.startswith("Ascend C guide/")
        for section in document.sections:
            assert section.heading and len(section.text) < 4_500
            assert section.text.count("```") % 2 == 0


def test_guide_says_no_word_of_one_machine_or_of_how_it_was_made() -> None:
    text = "".join(file.read_text("utf-8") for file in FILES)
    assert not re.search(r"\bissue\b|/home/|http", text)
