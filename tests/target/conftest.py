"""A twin of almost nothing for tests of the driver, built once per test session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kope.target.twin import TwinTarget
from kope.target.twin.build import TwinBuilder
from kope.target.twin.cache import BuildCache
from kope.target.twin.compiler import find_compiler

HERE = Path(__file__).parent
TWIN = Path(__file__).parents[2] / "kope" / "target" / "twin"


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real harness and control interface over a runtime that only copies bytes."""
    root = tmp_path_factory.mktemp("tiny") / "twin"
    shutil.copytree(HERE / "tiny_twin", root)
    shutil.copytree(TWIN / "harness", root / "harness")
    (root / "include" / "kope_twin").mkdir()
    shutil.copy(TWIN / "include" / "kope_twin" / "control.h", root / "include" / "kope_twin" / "control.h")
    return root


@pytest.fixture(scope="session")
def tiny_cache(tmp_path_factory: pytest.TempPathFactory) -> BuildCache:
    return BuildCache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def tiny(tiny_root: Path, tiny_cache: BuildCache) -> TwinBuilder:
    return TwinBuilder(find_compiler(), tiny_cache, root=tiny_root)


@pytest.fixture(scope="session")
def twin(twin_cache: Path) -> TwinTarget:
    """The real twin of a 910B2."""
    target = TwinTarget(twin_cache)
    target.prepare()
    return target
