"""Compiles small kernel programs against the real runtime and runs them directly, without the driver's sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.target.twin.build import TwinBuilder
from kope.target.twin.cache import BuildCache
from kope.target.twin.compiler import find_compiler

from .programs import Bench


@pytest.fixture(scope="session")
def bench(twin_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(TwinBuilder(find_compiler(), BuildCache(twin_cache)), tmp_path_factory.mktemp("programs"))
