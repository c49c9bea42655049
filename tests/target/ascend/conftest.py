"""Stand-in toolkits, installed once per session and generation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kope.target.ascend.target import AscendTarget, Choice
from kope.target.twin import TwinTarget
from tests.target.ascend.toolkit import Generation, StandIn, install

Install = Callable[..., StandIn]


@pytest.fixture
def install_toolkit(twin: TwinTarget, twin_cache: Path, tmp_path: Path) -> Iterator[Install]:
    """Install stand-ins of a generation below the test's folder."""

    def make(generation: Generation, cards: tuple[str, ...] = ("OK",)) -> StandIn:
        return install(tmp_path / "cann", generation, twin, twin_cache, cards)

    yield make


Target = Callable[..., AscendTarget]


@pytest.fixture
def target_on() -> Target:
    """Return the target on a stand-in; what it has built itself and its locks lie beside the stand-in."""

    def make(stand_in: StandIn, cache: Path | None = None, **choice: object) -> AscendTarget:
        inherited = {**stand_in.inherited, **choice.pop("environment", {})}  # type: ignore[dict-item]
        place = cache or stand_in.home.parent / "cache"
        return AscendTarget(place, Choice(inherited=inherited, **choice))  # type: ignore[arg-type]

    return make
