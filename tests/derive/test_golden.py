"""The emitted source of each skeleton is what a reviewer read: any change of it shows as a diff of a golden file.

After an intended change: python -m tests.derive.test_golden
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.derive import Schedule, capture_graph, emit, first_kernel
from kope.derive.derivation import NEST_SCHEDULE
from tests.derive.operators import shipped
from tests.derive.patterns import PATTERNS, pattern_source

FOLDER = Path(__file__).with_name("golden")
TUNED_ROWS = Schedule(
    tile=4096,
    buffers=2,
    rows=64,
    reuse=True,
    copy="aligned",
    columns="resident",
    reduction="strips",
    spread="block",
    rewrites=("fold-scalars", "reciprocal-rows"),
    choices=("fused-multiply-add",),
)
TUNED_FLAT = Schedule(tile=8192, buffers=2, reuse=True, rewrites=("fold-scalars", "merge-divisions", "tanh-as-sigmoid"))


def sources() -> dict[str, str]:
    """What each golden file should hold."""
    gelu, layer_norm = shipped("gelu"), shipped("layer_norm")
    return {
        "elementwise_first.asc": first_kernel(gelu)[2],
        "elementwise_tuned.asc": emit(gelu, capture_graph(gelu), TUNED_FLAT),
        "rows_first.asc": first_kernel(layer_norm)[2],
        "rows_tuned.asc": emit(layer_norm, capture_graph(layer_norm), TUNED_ROWS),
        "bytes_first.asc": first_kernel(shipped("dynamic_quant"))[2],
        "nests_reduce_tuned.asc": pattern_source("nests_reduce", NEST_SCHEDULE.with_(split=True, recompute=True)),
        **{f"{name}.asc": pattern_source(name) for name in PATTERNS},
    }


@pytest.mark.parametrize("name", sorted(sources()))
def test_the_source_is_the_one_that_was_reviewed(name: str) -> None:
    assert sources()[name] == (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(sources()))
def test_the_source_is_neat(name: str) -> None:
    lines = sources()[name].splitlines()
    assert max(map(len, lines)) <= 125
    assert not [line for line in lines if line != line.rstrip()]
    assert "\n\n\n" not in sources()[name]


if __name__ == "__main__":
    for name, source in sources().items():
        (FOLDER / name).write_text(source, encoding="utf-8")
