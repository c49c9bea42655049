"""Chip parameter sets: complete, sourced, and a bound that is launch cost plus bytes over bandwidth."""

from __future__ import annotations

import pytest

from kope.errors import ConfigError
from kope.target.twin import parameters


def test_all_sets_hold_the_same_names() -> None:
    assert parameters.names() == ("910b1", "910b2", "910b3", "910b4")
    keys = {name: set(parameters.load(name).values) for name in parameters.names()}
    assert len({frozenset(found) for found in keys.values()}) == 1


@pytest.mark.parametrize("name", parameters.names())
def test_every_number_says_where_it_comes_from(name: str) -> None:
    chip = parameters.load(name)
    assert chip.name == name and chip.label == f"{name}:{chip.version}"
    assert set(chip.origins.values()) <= set(parameters.ORIGINS)
    assert "clock_mhz" not in chip.guesses and "vector_core_count" not in chip.guesses


def test_bound_is_launch_cost_plus_bytes_over_bandwidth() -> None:
    chip = parameters.load("910b2")
    assert chip.bound_us(0) == chip.values["launch_us"]
    moved = 32 << 20
    assert chip.bound_us(moved) - chip.bound_us(0) == pytest.approx(moved / 1.75e6)


def test_unknown_set_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="choose one of 910b1, 910b2, 910b3, 910b4"):
        parameters.load("910c")


@pytest.mark.parametrize(
    "entry", [{}, {"value": "1", "origin": "guess", "source": "x"}, {"value": 1, "origin": "sure", "source": "x"}]
)
def test_entry_without_a_source_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="clock_mhz needs value, origin and source"):
        parameters.parse({"name": "x", "version": 1, "chip": "x", "values": {"clock_mhz": entry}})
