"""Chip parameter sets of the timing model: numbers with where they come from, in params/<chip>[.<version>].json.

What the numbers mean to the model is the runtime's business; here they are read, checked and named. A set that names
another one in "from" is that one with some values changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from kope.errors import ConfigError

ORIGINS = ("documented", "derived", "guess")
"""documented: printed by the vendor. derived: from documented numbers or public measurements. guess: neither."""


@dataclass(frozen=True, slots=True)
class ParameterSet:
    """One chip as the model sees it. values: the runtime's parameter names, units in the names.

    variant: what of it a platform file has changed, "" for nothing.
    """

    name: str
    version: int
    chip: str
    values: Mapping[str, float]
    origins: Mapping[str, str]
    variant: str = ""

    @property
    def label(self) -> str:
        """Name and version, as it stands in fingerprints and profiles, e.g. "910b2:1"."""
        return f"{self.name}:{self.version}{self.variant}"

    @property
    def guesses(self) -> tuple[str, ...]:
        """Names of the values nobody has published."""
        return tuple(sorted(name for name, origin in self.origins.items() if origin == "guess"))

    def bound_us(self, read_bytes: int, written_bytes: int) -> float:
        """Launch cost plus the least time these bytes take: no kernel of one launch can be faster.

        Everything read comes from device memory at least once; what is written may stay in the cache as far as the
        model lets it, and everything passes the cache. Without a cache all bytes pass the device memory.
        """
        memory_gbps, cache_gbps = self.values["gm_bandwidth_gbps"], self.values.get("l2_gbps", 0.0)
        if not cache_gbps:
            return self.values["launch_us"] + (read_bytes + written_bytes) / (memory_gbps * 1e3)
        reaching = read_bytes + max(0.0, written_bytes - self.values["l2_write_back_bytes"])
        moving_us = max(reaching / memory_gbps, (read_bytes + written_bytes) / cache_gbps) / 1e3
        return self.values["launch_us"] + moving_us

    def on_platform(self, numbers: Mapping[str, float]) -> ParameterSet:
        """Return the set with what a toolkit's platform file says of the chip: cores, unified buffer, L2 cache.

        A set that differs from the shipped one for it says so in its label, since its times do.
        """
        listed = {name: numbers[key] for key, name in _PLATFORM_KEYS.items() if numbers.get(key, 0.0) > 0.0}
        changed = {name: value for name, value in listed.items() if value != self.values.get(name)}
        if not changed:
            return self
        values, origins = {**self.values, **changed}, {**self.origins, **dict.fromkeys(changed, "documented")}
        if "ub_bytes" in changed:
            values["ub_kernel_bytes"] += values["ub_bytes"] - self.values["ub_bytes"]
        changes = ",".join(f"{name}={value:g}" for name, value in sorted(changed.items()))
        return replace(self, values=values, origins=origins, variant=f"+{changes}")


_PLATFORM_KEYS = {"vector_core_cnt": "vector_core_count", "ub_size": "ub_bytes", "l2_size": "l2_bytes"}


def names() -> tuple[str, ...]:
    """Return what load knows: a chip ("910b2"), or a version of its set beside the usual one ("910b2:2")."""
    files = (entry.name for entry in _folder().iterdir() if entry.name.endswith(".json"))
    return tuple(sorted(name.removesuffix(".json").replace(".", ":") for name in files))


@cache
def load(name: str) -> ParameterSet:
    """Read a parameter set. Raises ConfigError when there is no such set or it is malformed."""
    return parse(_read(name))


def _read(name: str) -> Mapping[str, Any]:
    if name not in names():
        raise ConfigError(f"no parameter set {name!r} for the twin; choose one of {', '.join(names())}")
    data: dict[str, Any] = json.loads((_folder() / f"{name.replace(':', '.')}.json").read_text("utf-8"))
    if "from" in data:
        data["values"] = {**_read(data["from"])["values"], **data["values"]}
    return data


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
