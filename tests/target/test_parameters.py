"""Chip parameter sets: complete, sourced, a bound that no kernel beats, and what a toolkit's platform file changes."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from kope import config, wiring
from kope.errors import ConfigError
from kope.target.twin import TwinTarget, parameters


def test_all_sets_hold_the_same_names() -> None:
    assert parameters.names() == ("910b1", "910b2", "910b2:2", "910b3", "910b4", "910c")
    cached = {"l2_gbps", "l2_write_back_bytes"}
    keys = {name: set(parameters.load(name).values) - cached for name in parameters.names()}
    assert len({frozenset(found) for found in keys.values()}) == 1
    assert cached < set(parameters.load("910b2:2").values)


@pytest.mark.parametrize("name", parameters.names())
def test_every_number_says_where_it_comes_from(name: str) -> None:
    chip = parameters.load(name)
    assert name in (chip.name, chip.label) and chip.label == f"{chip.name}:{chip.version}"
    assert set(chip.origins.values()) <= set(parameters.ORIGINS)
    assert "vector_core_count" not in chip.guesses


def test_bound_is_launch_cost_plus_bytes_over_bandwidth() -> None:
    chip = parameters.load("910b2")
    assert chip.bound_us(0, 0) == chip.values["launch_us"]
    moved = 16 << 20
    assert chip.bound_us(moved, moved) - chip.bound_us(0, 0) == pytest.approx(2 * moved / 1.75e6)


def test_with_a_cache_the_bound_is_what_must_come_from_memory_or_pass_the_cache() -> None:
    known = parameters.load("910b2")
    cache = {"l2_gbps": 7000.0, "l2_write_back_bytes": 8e6}
    chip = parameters.ParameterSet("x", 1, "x", {**known.values, **cache}, {})
    launch_us = chip.values["launch_us"]
    assert chip.bound_us(20_000_000, 8_000_000) == pytest.approx(launch_us + 20 / 1.75)
    assert chip.bound_us(20_000_000, 9_000_000) == pytest.approx(launch_us + 21 / 1.75)
    assert chip.bound_us(0, 8_000_000) == pytest.approx(launch_us + 8 / 7.0)


def test_unknown_set_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="choose one of 910b1, 910b2, 910b2:2, 910b3, 910b4, 910c"):
        parameters.load("950pr")


PLATFORM_FILE = """[version]
SoC_version=Ascend910B2
[SoCInfo]
ai_core_cnt=20
cube_core_cnt=20
vector_core_cnt=40
memory_size=68719476736
l2_size=100663296
[AICoreSpec]
cube_freq=1800
vec_calc_size=128
ub_size=262144
ubblock_size=32
[AICoreMemoryRates]
ddr_rate=32
l2_read_rate=110
"""


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder laid out like an installation, with the platform file of one chip."""
    folder = tmp_path / f"{platform.machine()}-linux" / "data" / "platform_config"
    folder.mkdir(parents=True)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    return folder


def modelled(**flags: str) -> parameters.ParameterSet:
    target = wiring.target(config.load(flags))
    assert isinstance(target, TwinTarget)
    return target.parameters


def test_an_installed_toolkit_describes_its_chip(toolkit: Path) -> None:
    (toolkit / "Ascend910B2.ini").write_text(PLATFORM_FILE)
    shipped, found = parameters.load("910b2"), modelled(chip="910b2")
    changed = {name: value for name, value in found.values.items() if value != shipped.values[name]}
    assert changed == {
        "vector_core_count": 40.0,
        "ub_bytes": 262144.0,
        "ub_kernel_bytes": 188160.0 + 65536,
        "l2_bytes": 100663296.0,
    }
    assert found.label == "910b2:1+l2_bytes=1.00663e+08,ub_bytes=262144,vector_core_count=40"
    assert modelled(chip="910b4") == parameters.load("910b4")


@pytest.mark.parametrize(
    "text",
    [
        PLATFORM_FILE.replace("40", "48").replace("262144", "196608").replace("100663296", "201326592"),
        "",
        "no ini file",
    ],
)
def test_one_that_says_nothing_new_changes_nothing(toolkit: Path, text: str) -> None:
    (toolkit / "Ascend910B2.ini").write_text(text)
    assert modelled(chip="910b2") == parameters.load("910b2")


def test_a_folder_in_the_place_of_a_platform_file_is_none(toolkit: Path) -> None:
    (toolkit / "Ascend910B2.ini").mkdir()
    assert modelled(chip="910b2") == parameters.load("910b2")


@pytest.mark.parametrize(
    "entry", [{}, {"value": "1", "origin": "guess", "source": "x"}, {"value": 1, "origin": "sure", "source": "x"}]
)
def test_entry_without_a_source_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="clock_mhz needs value, origin and source"):
        parameters.parse({"name": "x", "version": 1, "chip": "x", "values": {"clock_mhz": entry}})
