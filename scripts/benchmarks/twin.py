"""How much of a corpus of public Ascend C the twin compiles unmodified and runs with the right result.

Usage: scripts/bench twin --corpus DIR [--kind kernel|program] [--sample 40] [--seed 1] [--only-compile]. The corpus is
a checkout fetched by the one who runs it. Kernels are `*/op_kernel/*.cpp` of operator projects, run with the tiling
function of their project; programs are `*.asc` with a main, run between their own scripts/gen_data.py and
scripts/verify_result.py. Files with cube, MIX or register code are left out by their text, programs for another chip by
their CMakeLists.txt; what that wants to be told (`if(NOT DEFINED X)` with an error) is 1. Prints a line per file, then
counts.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from twin_references import reference

from kope import config, process
from kope.errors import KopeError
from kope.target.twin import TwinTarget
from kope.target.twin.foreign import Foreign, description
from kope.target.twin.foreign.includes import read_text
from kope.target.twin.foreign.project import Entry, Project, dtype_of_ge, entries, find_project, kind_of

NOT_VECTOR = re.compile(
    r"\b(Mmad|LoadData|Fixpipe|REGIST_MATMUL_OBJ|MatmulImpl|Matmul<|CrossCoreSetFlag|RegTensor|MaskReg|__simd_vf__|__VEC_SCOPE__"
    r"|MicroAPI|asc_vf_call|__cube__|__mix__|KERNEL_TYPE_MIX_AIC|KERNEL_TYPE_AIC|Hccl|simt|SIMT|Te::|tensor_api)\b|\bMatmul\s*<"
)
SHAPE = (48, 256)


@dataclass(frozen=True)
class Line:
    """What became of one file. right: None when its values were not judged."""

    path: Path
    compiled: bool
    ran: bool = False
    right: bool | None = None
    why: str = ""


def main() -> None:
    """Sample, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--kind", choices=("kernel", "program"), default="kernel")
    parser.add_argument("--match", default="", help="only paths that hold this text")
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only-compile", action="store_true")
    asked = parser.parse_args()
    found = [path for path in candidates(asked.corpus, asked.kind) if asked.match in str(path)]
    files = random.Random(asked.seed).sample(found, min(asked.sample, len(found)))
    settings = config.load({})
    target = TwinTarget(settings.cache / "twin", progress=lambda text: print(text, file=sys.stderr))
    lines = []
    for path in sorted(files):
        lines.append(one(target, path, asked.kind, asked.corpus, asked.only_compile))
        print(shown(lines[-1], asked.corpus), flush=True)
    print(summary(lines, len(found)))


def candidates(corpus: Path, kind: str) -> Iterator[Path]:
    """Yield the vector kernels, or programs, of a corpus."""
    pattern = "op_kernel/**/*.cpp" if kind == "kernel" else "*.asc"
    for path in sorted(corpus.rglob(pattern)):
        if re.search(r"_apt\.cpp$|/arch3\d|/arch35|/question/|/build_out/", str(path)):
            continue
        text, build = read_text(path), build_file(path)
        if (chip := re.search(r'CMAKE_ASC_ARCHITECTURES "([\w-]+)"', build)) and chip[1] != "dav-2201":
            continue
        try:
            if kind_of(text) == kind and entries(text) and not NOT_VECTOR.search(text):
                yield path
        except KopeError:
            continue


def build_file(path: Path) -> str:
    """Return the text of the CMakeLists.txt beside a file, "" where there is none."""
    file = path.parent / "CMakeLists.txt"
    return read_text(file) if file.is_file() else ""


def one(target: TwinTarget, path: Path, kind: str, corpus: Path, only_compile: bool) -> Line:
    """Compile a file, and run it where that was asked for and is possible."""
    asked = re.findall(r"if\(NOT DEFINED (\w+)\)\s*message\(FATAL_ERROR", build_file(path))
    foreign = Foreign(target, corpus if kind == "kernel" else None, defines=tuple(f"{name}=1" for name in asked))
    try:
        checked = foreign.check(path)
        if not checked.compiled:
            return Line(path, False, why=next((found.message for found in checked.diagnostics), "?"))
        if only_compile:
            return Line(path, True)
        return run_program(foreign, path) if kind == "program" else run_kernel(foreign, path)
    except KopeError as error:
        return Line(path, True, why=str(error))


def run_program(foreign: Foreign, path: Path) -> Line:
    """Run a program in a copy of its folder, between the scripts that make its data and judge its result."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / path.parent.name
        shutil.copytree(path.parent, folder)
        for name in ("input", "output"):
            (folder / name).mkdir(exist_ok=True)
        made = script(folder, "gen_data.py")
        if made is None or made.returncode != 0:
            return Line(path, True, why="no data: it has no gen_data.py that runs here")
        run = foreign.run(folder / path.name, None, folder=folder, time_limit_s=60.0)
        if not run.ok:
            why = next(
                (found.message for found in run.diagnostics if found.severity == "error"), f"status {run.returncode}"
            )
            return Line(path, True, False, False, why)
        judged = script(folder, "verify_result.py", "output/output.bin", "output/golden.bin")
        right = None if judged is None else judged.returncode == 0 and "pass" in judged.stdout.lower()
        return Line(path, True, True, right)


def script(folder: Path, name: str, *arguments: str) -> Any:
    """Run one of an example's own scripts, None when it has none of that name."""
    if not (folder / "scripts" / name).is_file():
        return None
    return process.run([sys.executable, f"scripts/{name}", *arguments], cwd=folder, timeout_s=60.0)


def run_kernel(foreign: Foreign, path: Path) -> Line:
    """Run a kernel with its project's tiling function on small tensors, and judge it where a reference is known."""
    entry = entries(read_text(path))[0]
    given = launch_of(entry, find_project(path, foreign.root), path.stem.startswith("foreach_"))
    with tempfile.TemporaryDirectory() as scratch:
        run = foreign.run(path, given, output=Path(scratch), time_limit_s=60.0)
        if not run.ok:
            errors = [f"{found.kind}: {found.message}" for found in run.diagnostics if found.severity == "error"]
            return Line(path, True, why=(errors or [run.log[-200:] or "?"])[0])
        return Line(path, True, True, judged(path.stem, given, Path(scratch)))


def launch_of(entry: Entry, project: Project, lists: bool) -> description.Description:
    """Return small tensors for every input and output: as the operator's definition lists them, else the parameters."""
    params = [(param.role, param.name, dtype_of_ge(param.dtypes[0])) for param in project.params]
    if not params:
        names = [
            one.name for one in entry.parameters if one.pointer and not re.search(r"(?i)workspace|tiling|^ws", one.name)
        ]
        params = [("input", name, "float16") for name in names[:-1]] + [("output", names[-1], "float16")]

    def tensor(name: str, dtype: str) -> dict[str, Any]:
        if lists and re.search(r"(?i)scalar|alpha|weight", name):
            return {"name": name, "shape": [2], "dtype": dtype, "fill": 2.0}
        whole = {"shape": list(SHAPE), "dtype": dtype, "fill": "uniform"}
        return {"name": name, "dtype": dtype, "list": [whole, whole]} if lists else {"name": name, **whole}

    sides = {
        side: [tensor(name, dtype) for role, name, dtype in params if role == side] for side in ("input", "output")
    }
    return description.parse({"inputs": sides["input"], "outputs": sides["output"]}, Path())


def judged(stem: str, given: description.Description, folder: Path) -> bool | None:
    """Hold the first output against NumPy, None when nobody has written down what the operator computes."""
    function = reference(stem, len(given.inputs))
    if function is None or not given.outputs:
        return None
    inputs = [description.values(tensor.flat[0]).astype(np.float64) for tensor in given.inputs]
    inputs = [array[0] if array.shape == (2,) else array for array in inputs]
    output = given.outputs[0].flat[0]
    got = np.load(folder / f"{output.name}.npy").astype(np.float64)
    with np.errstate(all="ignore"):
        want = np.asarray(function(*inputs), np.float64)
    tolerance = 5e-3 if output.dtype in ("float16", "bfloat16") else 1e-4
    return got.shape == want.shape and bool(np.allclose(got, want, tolerance, tolerance, equal_nan=True))


def shown(line: Line, corpus: Path) -> str:
    """Return one file as a line."""
    state = (
        "does not compile" if not line.compiled else "right" if line.right else "wrong" if line.right is False else ""
    )
    state = state or ("ran, not judged" if line.ran else "compiled")
    why = f"  {' '.join(line.why.split())[:160]}" if line.why else ""
    return f"{state:<17}{line.path.relative_to(corpus)}{why}"


def summary(lines: list[Line], found: int) -> str:
    """Return the counts."""
    total = len(lines)
    compiled, ran = sum(line.compiled for line in lines), sum(line.ran for line in lines)
    right, judged_count = sum(line.right is True for line in lines), sum(line.right is not None for line in lines)
    return (
        f"{total} of {found} vector files: {compiled} compile unmodified ({compiled / total:.0%}),"
        f" {ran} run without a defect, {judged_count} judged, {right} right ({right / total:.0%} of all)"
    )


if __name__ == "__main__":
    main()
