"""How much of each input a case's result depends on: what every correct kernel has to read, for the floor of its time.

Found by asking the reference: elements are changed one at a time, and those that change no output need not be read.
Asked only where a time lies below the floor of whole inputs. What follows from a floor is times.py's business.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from kope.evaluate.dtypes import FLOATS, file_dtype
from kope.evaluate.prepared import CaseLibrary, PreparedCase, sha256_of
from kope.model import Task, TensorFile, TensorSpec

NEEDED_RULES = 1
_PROBES = 16
_COPIES_BYTES = 1 << 30
"""Changed copies of one input that may lie on disk at a time; large inputs are asked about fewer elements."""
_SURE = 0.05


def needed_inputs(task: Task, item: PreparedCase, library: CaseLibrary) -> tuple[TensorFile | None, ...]:
    """Return the inputs of a case, flat, each cut to as many elements as are surely needed: only bytes mean anything.

    An input whose asked elements all matter counts whole. Otherwise it counts with the share that is exceeded with
    probability 95% (Clopper and Pearson), so that a kernel that reads what it needs is not refused.
    """
    key = sha256_of([item.keys[1], "needed", NEEDED_RULES])
    shares = library.remembered(key, lambda: [_share(task, item, k, library) for k in range(len(item.inputs))])
    cut = []
    for given, share in zip(item.inputs, shares, strict=True):
        if given is None or share == 1.0:
            cut.append(given)
        else:
            spec = TensorSpec(given.spec.name, (int(share * given.spec.numel),), given.spec.dtype)
            cut.append(TensorFile(spec, given.path))
    return tuple(cut)


def needed_share(mattered: int, asked: int) -> float:
    """Return which share of an input surely matters when `mattered` of `asked` elements did."""
    from scipy.stats import beta

    if not mattered:
        return 0.0
    return 1.0 if mattered == asked else float(beta.ppf(_SURE, mattered, asked - mattered + 1))


def _share(task: Task, item: PreparedCase, number: int, library: CaseLibrary) -> float:
    if item.inputs[number] is None:
        return 0.0
    asked = 0

    def changed(folder: Path) -> Iterator[tuple[TensorFile | None, ...]]:
        nonlocal asked
        for copy in _copies(item, number, folder):
            asked += 1
            yield (*item.inputs[:number], copy, *item.inputs[number + 1 :])

    mattered = sum(found != item.want_hash for found in library.answer_hashes(task, item, changed))
    return needed_share(mattered, asked)


def _copies(item: PreparedCase, number: int, folder: Path) -> Iterator[TensorFile]:
    """Yield copies of an input with one element changed each: the first, the last (a slice leaves out one of them), and
    one of each of equal stretches, drawn from what the input holds."""
    given = item.inputs[number]
    assert given is not None and given.path is not None
    data = np.fromfile(given.path, file_dtype(given.spec.dtype))
    digest = hashlib.sha256(f"{item.input_hash}\0{number}".encode()).digest()
    random = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    for count, place in enumerate(_places(data.size, max(2, _COPIES_BYTES // max(1, data.nbytes)), random)):
        kept = data[place].copy()
        if given.spec.dtype in FLOATS:
            data[place] = 1.0 if kept != kept else np.nan
        else:  # a value the input holds elsewhere, so that an index stays an index
            others = data[random.integers(0, data.size, 64)]
            others = others[others != kept]
            data[place] = others[0] if others.size else kept
        path = folder / f"{number}-{count}.bin"
        data.tofile(path)
        data[place] = kept
        yield replace(given, path=path)


def _places(size: int, most: int, random: np.random.Generator) -> list[int]:
    if size <= min(_PROBES, most):
        return list(range(size))
    edges = np.linspace(0, size, max(1, min(_PROBES, most) - 2) + 1).astype(np.int64)
    inner = random.integers(edges[:-1], np.maximum(edges[1:], edges[:-1] + 1))
    return [0, size - 1, *(int(place) for place in inner)][: max(2, min(_PROBES, most))]
