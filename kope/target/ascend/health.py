"""What `kope doctor` says about CANN and the cards: each thing with where it was found, or with the fix.

Looking only; programs are asked for their version, nothing is compiled or run on a card.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kope.errors import KopeError
from kope.target.ascend import profilers, vendor
from kope.target.ascend.host import devices
from kope.target.ascend.target import AscendTarget, compiler_version


class Fact(NamedTuple):
    """One thing looked at. value: what was found; remedy: what to do when it is not as it must be."""

    name: str
    ok: bool
    value: str
    remedy: str = ""


def facts(target: AscendTarget) -> Iterator[Fact]:
    """Yield what there is, in the order in which it is needed; without a toolkit nothing else is looked at."""
    try:
        found = target.toolkit
    except KopeError as missing:
        yield _failed("toolkit", missing)
        return
    yield Fact("toolkit", True, f"{found.label} in {found.home} ({found.origin})", found.problem)
    yield _try("compiler", lambda: f"{compiler_version(found, target.host)} ({found.compiler}, {found.form} form)")
    yield _try("profiler", lambda: _profilers(target))
    yield from _cards(target)
    yield _try("chip", lambda: _chip(target))


def _cards(target: AscendTarget) -> Iterator[Fact]:
    try:
        report, usable = target.report, {card.id for card in target.cards}
    except KopeError as failed:
        yield _failed("driver", failed)
        return
    if not report.cards:
        remedy = "install the driver, or keep to the simulator (ascend_profiler = simulator)"
        yield Fact("driver", False, f"npu-smi {report.driver or 'not found'}: no card", remedy)
        return
    yield Fact("driver", True, f"npu-smi {report.driver}")
    out = target.pool.taken_out() if usable else {}
    for card in report.cards:
        name, value = f"card {card.id}", f"{card.name} (NPU {card.npu}, chip {card.chip}): {card.health}"
        if not card.healthy:
            yield Fact(
                name, False, value, "see `npu-smi info`; reset it (npu-smi set -t reset -i ID) or have it checked"
            )
        elif card.id not in usable:
            yield Fact(name, False, f"{value}, left out by {vendor.VISIBLE}", f"unset {vendor.VISIBLE} to use it")
        elif card.id in out:
            mark, reason = out[card.id]
            yield Fact(name, False, f"{value}, taken out: {reason}", f"reset it and delete {mark}")
        else:
            closed = [path for path in devices(card.id) if path.exists() and not os.access(path, os.R_OK | os.W_OK)]
            yield _node(name, value, closed)


def _node(name: str, value: str, closed: list[Path]) -> Fact:
    if not closed:
        return Fact(name, True, value)
    return Fact(
        name, False, f"{value}, but {closed[0]} is closed to you", "join its group: usermod -aG HwHiAiUser $USER"
    )


def _profilers(target: AscendTarget) -> str:
    found = [name for name in ("msopprof", "msprof") if target.toolkit.program(name)]
    chosen = target.profiler
    return f"{chosen.name} ({chosen.argv(['PROGRAM'], Path('OUT'))[0]}); installed: {', '.join(found) or 'none'}"


def _chip(target: AscendTarget) -> str:
    chip = target.chip
    cores = f"{chip.vector_cores} vector cores, {chip.cube_cores} cube cores"
    return f"{chip.soc} ({chip.arch}), {cores}, from the {chip.origin}; {_named_by(target)}"


def _named_by(target: AscendTarget) -> str:
    return "named by npu-smi" if target.cards else "named by the setting chip"


def _try(name: str, look: Callable[[], str]) -> Fact:
    try:
        return Fact(name, True, look())
    except KopeError as failed:
        return _failed(name, failed)


def _failed(name: str, error: KopeError) -> Fact:
    message, _, step = str(error).rpartition("; ")
    return Fact(name, False, message or str(error), step if message else "")


def usable_profilers(target: AscendTarget) -> tuple[profilers.Choice, ...]:
    """Return the profilers that this machine has, the one in use first; the simulator alone without a card."""
    if target.profiler.simulated:
        return ("simulator",)
    found: list[profilers.Choice] = ["msprof"] if target.toolkit.program("msprof") else []
    found += ["msopprof"] if target.toolkit.program("msopprof") or found else []
    return tuple(sorted(found, key=lambda name: not target.profiler.name.startswith(name)))


CONFIRMS = {
    "toolchain": ("environment", "version", "cards", "soc"),
    "compile": ("form", "compile"),
    "run": ("acl",),
    "time with msprof": ("msprof", "host-clock"),
    "time with msopprof": ("msopprof",),
    "time with simulator": ("simulator", "trace"),
}
"""Step of the self-test -> the assumptions that it shows to hold when it ends well. No step shows the others."""


def confirmed_by_steps(target: AscendTarget) -> dict[str, tuple[str, ...]]:
    """Return what each step of the self-test shows here: less without a card, without confinement, in the old form."""
    found = {name: list(keys) for name, keys in CONFIRMS.items()}
    if target.toolkit.form == "cce":
        found["compile"] = ["cce-form"]
    if target.toolkit.problem:
        found["toolchain"].remove("environment")
    if not target.toolkit.version:
        found["toolchain"].remove("version")
    if not target.cards:
        found["toolchain"] = [key for key in found["toolchain"] if key not in ("cards", "soc")]
    elif not target.unconfined:
        found["run"].append("confined")
    if target.cards and target.cards[0].id:
        found["run"].append("visible")
    return {name: tuple(keys) for name, keys in found.items()}
