"""Chip parameter sets of the timing model: numbers with where they come from, in params/<name>.json.

What the numbers mean to the model is the runtime's business; here they are read, checked and named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from kope.errors import ConfigError

ORIGINS = ("documented", "derived", "guess")
"""documented: printed by the vendor. derived: from documented numbers or public measurements. guess: neither."""


@dataclass(frozen=True, slots=True)
class ParameterSet:
    """One chip as the model sees it. values: the runtime's parameter names, units in the names."""

    name: str
    version: int
    chip: str
    values: Mapping[str, float]
    origins: Mapping[str, str]

    @property
    def label(self) -> str:
        """Name and version, as it stands in fingerprints and profiles, e.g. "910b2:1"."""
        return f"{self.name}:{self.version}"

    @property
    def guesses(self) -> tuple[str, ...]:
        """Names of the values nobody has published."""
        return tuple(sorted(name for name, origin in self.origins.items() if origin == "guess"))

    def bound_us(self, moved_bytes: int) -> float:
        """Launch cost plus the time `moved_bytes` take at peak bandwidth: no kernel of one launch can be faster."""
        return self.values["launch_us"] + moved_bytes / (self.values["gm_bandwidth_gbps"] * 1e3)


def names() -> tuple[str, ...]:
    """Return the names of the parameter sets that are shipped."""
    return tuple(sorted(entry.name[:-5] for entry in _folder().iterdir() if entry.name.endswith(".json")))


@cache
def load(name: str) -> ParameterSet:
    """Read a parameter set. Raises ConfigError when there is no such set or it is malformed."""
    if name not in names():
        raise ConfigError(f"no parameter set {name!r} for the twin; choose one of {', '.join(names())}")
    data = json.loads((_folder() / f"{name}.json").read_text("utf-8"))
    return parse(data)


def parse(data: Mapping[str, Any]) -> ParameterSet:
    """Turn the JSON of a set into values. Raises ConfigError when an entry has no number, origin or source."""
    values: dict[str, float] = {}
    origins: dict[str, str] = {}
    for key, entry in data["values"].items():
        if (
            not isinstance(entry.get("value"), (int, float))
            or entry.get("origin") not in ORIGINS
            or not entry.get("source")
        ):
            raise ConfigError(
                f"parameter set {data.get('name')!r}: {key} needs value, origin and source; fix its entry"
            )
        values[key] = float(entry["value"])
        origins[key] = str(entry["origin"])
    return ParameterSet(str(data["name"]), int(data["version"]), str(data["chip"]), values, origins)


def _folder() -> Any:
    return files("kope.target.twin") / "params"
