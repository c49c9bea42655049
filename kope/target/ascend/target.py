"""The target `ascend`: candidates compiled by CANN, run on an NPU, timed by the vendor's profiler.

It puts toolkit, chip, cards, compiler, runner and profiler together. Judging values is the evaluator's. Nothing here
has run on hardware so far; what it takes for granted is listed in `vendor`.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self, cast

from kope import sandbox
from kope.config import Settings
from kope.errors import MachineError, ToolError
from kope.model import Built, Candidate, CaseRun, Fingerprint, LaunchCase, Ran, RunMode, TimeKind
from kope.target.ascend import cards as card_tables
from kope.target.ascend import chip as chips
from kope.target.ascend import compile as compiling
from kope.target.ascend import probe, profilers, session, vendor
from kope.target.ascend.cards import CardReport
from kope.target.ascend.chip import Chip
from kope.target.ascend.compile import Calls
from kope.target.ascend.host import Host, Job, LocalHost
from kope.target.ascend.pool import CardPool
from kope.target.ascend.profilers import Profiler, Timing
from kope.target.ascend.remote import RemoteHost
from kope.target.ascend.runner import CardRunner
from kope.target.ascend.session import Session
from kope.target.ascend.toolkit import Toolkit
from kope.target.twin.launch import tensor_bytes

EVALUATOR = "1"
"""Version of what this target refuses and reports; part of every fingerprint."""
CARD_LIMIT_S = 60.0
SIMULATED_LIMIT_S = 1800.0
_QUESTION_S = 60.0
_PROFILER_EXTRA_S = 240.0
"""What a profiler may take for itself: starting, replaying, writing its tables."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the toolchain is chosen: by settings and by the environment KOPE runs in.

    home: of the toolkit, None: find it. profiler: auto, msprof, msopprof or simulator. chip: used where no card says
    what it is. without: protections to leave out. inherited: variables of the environment (vendor.INHERITED).
    probe_limit_s: what a known good kernel may take on a card before the card counts as hanging. prefix: a command that
    reaches another machine, () for this one; folder: where files lie there meanwhile.
    """

    home: Path | None = None
    profiler: profilers.Choice = "auto"
    chip: str = "910b2"
    without: tuple[str, ...] = ()
    inherited: Mapping[str, str] = field(default_factory=dict)
    probe_limit_s: float = probe.LIMIT_S
    prefix: tuple[str, ...] = ()
    folder: str = "/tmp"


class AscendTarget:
    """CANN and an NPU. cache: folder for locks of cards and the probe's executable, shared by a user's projects."""

    name = "ascend"

    def __init__(self, cache: Path, choice: Choice | None = None) -> None:
        self._cache = cache
        self._choice = choice or Choice()
        self.host: Host = LocalHost(self._choice.inherited, self._choice.without)
        if self._choice.prefix:
            self.host = RemoteHost(self._choice.prefix, self._choice.folder)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the target as settings and environment describe it."""
        choice = Choice(
            home=settings.ascend_home,
            profiler=cast(profilers.Choice, settings.ascend_profiler),
            chip=settings.chip,
            without=settings.ascend_without,
            inherited=settings.inherited(vendor.INHERITED),
            prefix=settings.ascend_prefix,
            folder=settings.ascend_folder,
        )
        return cls(settings.cache / "ascend", choice)

    @cached_property
    def time_kind(self) -> TimeKind:
        """Measured on a card; the simulator's times are a model's."""
        return TimeKind.MODELLED if self.profiler.simulated else TimeKind.MEASURED

    @cached_property
    def toolkit(self) -> Toolkit:
        """The installation in use. Raises ToolMissing when there is none."""
        return self.host.find(self._choice.home)

    @cached_property
    def report(self) -> CardReport:
        """What npu-smi says; no cards where it is not installed. Raises MachineError when it fails."""
        return read_cards(self.toolkit, self.host)

    @cached_property
    def cards(self) -> tuple[card_tables.Card, ...]:
        """The cards that may be used: visible and not known to be ill."""
        return tuple(card for card in card_tables.visible(self.report.cards, self.host.inherited) if card.healthy)

    @cached_property
    def chip(self) -> Chip:
        """The chip of the cards, else the one of the settings."""
        named = soc_of(self.cards[0], self.toolkit, self.host) if self.cards else chips.soc_name(self._choice.chip)
        return chips.describe(named, platform_text(self.toolkit, named, self.host))

    @cached_property
    def calls(self) -> Calls:
        """How the compiler is called."""
        return Calls(self.toolkit, self.chip, self.host)

    @cached_property
    def profiler(self) -> Profiler:
        """What takes times. Raises ToolMissing when it is not installed, MachineError when it needs a card."""
        chosen = profilers.choose(self._choice.profiler, self.toolkit, self.chip, has_card=bool(self.cards))
        if not chosen.simulated and not self.cards:
            raise MachineError(f"{chosen.name} needs a card and no healthy one is visible; see `kope doctor`")
        return chosen

    @cached_property
    def pool(self) -> CardPool:
        """Who uses which card."""
        return CardPool([card.id for card in self.cards], self._cache / "cards")

    @cached_property
    def _known_good(self) -> probe.Probe:
        """The built-in kernel, which shows whether a card works and what the compiler's objects need."""
        return probe.Probe(self._cache / "probe", self.calls, limit_s=self._choice.probe_limit_s)

    @cached_property
    def _runner(self) -> CardRunner:
        return CardRunner(None if self.profiler.simulated else self.pool, self._known_good)

    @cached_property
    def environment(self) -> dict[str, str]:
        """What programs are started with beside the toolkit's own: under the simulator its libraries come first."""
        if not self.profiler.simulated:
            return {}
        libraries = [
            simulator_libraries(self.toolkit, self.chip, self.host),
            self.toolkit.environment.get("LD_LIBRARY_PATH", ""),
        ]
        return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries))}

    @cached_property
    def _fingerprint(self) -> Fingerprint:
        driver = f"; driver {self.report.driver}" if self.report.driver else ""
        calls = "{repeats:.0f} calls after {warm_up:.0f}".format_map(self.profiler.parameters)
        versions = f"{self.toolkit.label}; {compiler_version(self.toolkit, self.host)}{driver}; {calls}"
        return Fingerprint("ascend", f"ascend:{self.chip.soc}:{self.profiler.name}", versions, EVALUATOR)

    def fingerprint(self) -> Fingerprint:
        """Return what times and verdicts depend on. Raises ToolMissing when the toolchain is not there."""
        return self._fingerprint

    @property
    def unconfined(self) -> tuple[str, ...]:
        """The protections that are left out around programs."""
        return self._choice.without

    @property
    def jobs(self) -> int:
        """How many programs may run at once: one on each card, one without."""
        return max(1, len(self.cards))

    @property
    def time_limit_s(self) -> float:
        """Wall limit of a run of small cases: opening a device takes seconds, the simulator minutes."""
        return SIMULATED_LIMIT_S if self.profiler.simulated else CARD_LIMIT_S

    def briefing(self) -> tuple[str, dict[str, float]]:
        """Return what a prompt says of the target, and the chip's limits as numbers with units in their names."""
        chip = self.chip
        how = "simulated by the toolkit" if self.profiler.simulated else f"measured with {self.profiler.name}"
        facts = {
            "vector_core_count": chip.vector_cores,
            "ub_kernel_bytes": chip.ub_kernel_bytes,
            "gm_bandwidth_gbps": chip.gm_gbps,
            "l2_bytes": chip.l2_bytes,
            "clock_mhz": chip.clock_mhz,
        }
        said = f"{chip.soc} ({chip.arch}), {self.toolkit.label}; times are {how}"
        return said, {name: float(value) for name, value in facts.items() if value}

    def bound_us(self, case: LaunchCase) -> float | None:
        """Return the least time moving inputs and outputs takes; None where no bandwidth is published."""
        read_bytes = sum(tensor_bytes(tensor) for tensor in case.inputs if tensor is not None)
        return self.chip.bound_us(read_bytes, sum(tensor_bytes(tensor) for tensor in case.outputs))

    def build(self, candidate: Candidate, workdir: Path) -> Built:
        """Compile a candidate; what is wrong with it is data. Raises ToolError when the installation is at fault."""
        known_good = None if candidate.source == probe.source() else self._known_good.known_good()
        simulated = self.profiler.simulated
        return compiling.build(candidate.source, workdir, self.calls, simulated=simulated, known_good=known_good)

    def build_library(self, candidate: Candidate, workdir: Path) -> Built:
        """Compile a candidate into a shared library for a host program of one's own. Raises as `build` does."""
        return compiling.build_library(candidate.source, workdir, self.calls)

    def run(
        self, built: Built, cases: Sequence[LaunchCase], mode: RunMode, workdir: Path, *, time_limit_s: float
    ) -> Ran:
        """Run cases up to the first that fails. Crash, hang and defect are data in `Ran`.

        When timing, the outputs are those of one of the timed calls, drawn anew for every process.

        Raises MachineError when environment or hardware is at fault, ToolError when the profiler is.
        """
        if built.executable is None:
            raise ValueError("this candidate was not built")
        run = _Run(self, built.executable, mode, workdir, time_limit_s)
        profiled = mode == "time" and self.profiler.per_case
        groups = [[case] for case in cases] if profiled else [list(cases)]
        runs: list[CaseRun] = []
        log, steps = "", []
        for group in groups:
            record = self._runner.run(group, run.attempt, same=mode == "time")
            log += record.log
            steps += record.steps
            runs += [self._finished(case_run, run, case) for case_run, case in zip(record.runs, group, strict=False)]
            if len(record.runs) < len(group) or not runs[-1].ok:
                break
        return Ran(tuple(runs), log, tuple(steps))

    def _finished(self, found: CaseRun, run: _Run, case: LaunchCase) -> CaseRun:
        """Put times to a run."""
        timing = run.timings.get(found.case_id, Timing())
        findings = (*found.diagnostics, *timing.diagnostics)
        bound_us = self.bound_us(case)
        ok = found.ok and not any(one.severity == "error" for one in timing.diagnostics)
        return replace(
            found,
            ok=ok,
            diagnostics=findings,
            duration_us=timing.duration_us if ok else (),
            bound_us=bound_us,
            counters=timing.counters if ok else {},
        )


class _Run:
    """Runs groups of cases of one executable; every process gets a folder of its own. timings: by case."""

    def __init__(self, target: AscendTarget, executable: Path, mode: RunMode, workdir: Path, limit_s: float) -> None:
        self._target = target
        self._executable = executable
        self._mode: RunMode = mode
        self._workdir = workdir
        self._limit_s = limit_s
        self._processes = 0
        self.timings: dict[str, Timing] = {}

    def attempt(self, cases: Sequence[LaunchCase], card: int | None) -> Session:
        """Run cases in one process; when timing under the profiler, once more when the profiler fails."""
        if self._mode == "verify":
            return self._verify(cases, card)
        try:
            return self._time(cases, card)
        except ToolError:
            return self._time(cases, card)

    def _verify(self, cases: Sequence[LaunchCase], card: int | None) -> Session:
        folder = self._folder()

        def start(arguments: Sequence[str], where: Path) -> sandbox.Finished:
            return self._start(["./candidate", *arguments], where, card, cases, self._limit_s)

        told = self._parameters({})
        return session.run(start, cases, "verify", folder, told, limit_s=self._limit_s, place=self._target.host.place)

    def _time(self, cases: Sequence[LaunchCase], card: int | None) -> Session:
        profiler, place = self._target.profiler, self._target.host.place
        folder = self._folder()
        output = folder.resolve() / "profile"
        output.mkdir(mode=0o700)
        pauses = (
            profiler.parameters["gap_us"] * (profiler.parameters["warm_up"] + profiler.parameters["repeats"]) * 1e-6
        )
        limit_s = self._limit_s + _PROFILER_EXTRA_S + pauses * len(cases)

        def start(arguments: Sequence[str], where: Path) -> sandbox.Finished:
            argv = profiler.argv(["./candidate", *arguments], place(output))
            return self._start(argv, where, card, cases, limit_s)

        warm_up, repeats = int(profiler.parameters["warm_up"]), int(profiler.parameters["repeats"])
        checked_call = float(warm_up + secrets.randbelow(repeats))
        told = self._parameters({**profiler.parameters, "checked_call": checked_call})
        done = session.run(start, cases, "time", folder, told, limit_s=limit_s, place=place)
        if not done.started and not done.done.stopped:
            words = profilers.last_words(done.done.output)
            raise ToolError(f"{profiler.name} did not run the program; {words}", done.done.argv)
        if done.calls:
            self.timings.update(profiler.read(output, done.calls, done.done.output))
        return done

    def _folder(self) -> Path:
        """Make the next process's folder, the executable in it: profilers want no long or odd paths."""
        self._processes += 1
        folder = self._workdir / f"process-{self._processes}"
        folder.mkdir(mode=0o700, parents=True)
        try:
            os.link(self._executable, folder / "candidate")
        except OSError:
            shutil.copy2(self._executable, folder / "candidate")
        return folder

    def _start(
        self, argv: Sequence[str], folder: Path, card: int | None, cases: Sequence[LaunchCase], limit_s: float
    ) -> sandbox.Finished:
        outputs = [tensor.path for case in cases for tensor in case.outputs]
        inputs = [tensor.path for case in cases for tensor in case.inputs if tensor is not None]
        host = self._target.host
        job = Job(
            argv,
            folder,
            self._target.toolkit,
            limit_s,
            environment={**self._target.environment, "ASCEND_PROCESS_LOG_PATH": str(host.place(folder))},
            inputs=[path for path in inputs if path is not None],
            outputs=[path for path in outputs if path is not None],
            card=card,
        )
        return host.run(job)

    def _parameters(self, more: Mapping[str, float]) -> dict[str, float]:
        chip = self._target.chip
        return {"vector_core_count": chip.vector_cores, "ub_kernel_bytes": chip.ub_kernel_bytes, **more}


def compiler_version(found: Toolkit, host: Host) -> str:
    """Return what the compiler's --version says it is, or why it says nothing. Raises ToolMissing without one."""
    done = host.ask([str(found.compiler), "--version"], found, timeout_s=_QUESTION_S)
    lines = (done.stdout or done.stderr).strip().splitlines()
    if done.returncode != 0 or not lines:
        return f"--version ended with status {done.returncode}"
    version = re.search(r"clang version \S+", lines[0])
    return version.group() if version else lines[0].strip()


def read_cards(found: Toolkit, host: Host) -> CardReport:
    """Return the cards npu-smi shows; none where it is not installed. Raises MachineError when it fails."""
    program = found.program("npu-smi")
    if program is None:
        return CardReport((), "")
    done = host.ask([str(program), "info"], found, timeout_s=_QUESTION_S)
    if done.returncode != 0 or done.timed_out:
        words = " ".join((done.stderr or done.stdout).split())[:200] or f"status {done.returncode}"
        raise MachineError(f"npu-smi info failed ({words}); check the driver, then `kope doctor`")
    return card_tables.read_info(done.stdout)


def soc_of(card: card_tables.Card, found: Toolkit, host: Host) -> str:
    """Return the SoC name of a card: from the table, or where that says only Ascend910, from the board's own page."""
    name = chips.soc_name(card.name)
    if name not in ("Ascend910", "Ascend950"):
        return name
    argv = [str(found.needed("npu-smi")), "info", "-t", "board", "-i", str(card.npu), "-c", str(card.chip)]
    done = host.ask(argv, found, timeout_s=_QUESTION_S)
    return chips.soc_name(card_tables.read_chip_name(done.stdout) or card.name)


def platform_text(found: Toolkit, soc: str, host: Host) -> str:
    """Return what the toolkit's platform file of a SoC says; "" where it has none that can be read."""
    path = found.home / vendor.PLATFORM_FILE.format(arch=found.processor, soc=soc)
    done = host.ask(["cat", str(path)], found, timeout_s=_QUESTION_S)
    return done.stdout if done.returncode == 0 else ""


def simulator_libraries(found: Toolkit, chip: Chip, host: Host) -> str:
    """Return the folder of the simulator's libraries for a chip. Raises ToolError when the toolkit has none."""
    arch = chip.arch.replace("-", "_")
    places = [str(found.home / place.format(soc=chip.soc, arch=arch)) for place in vendor.SIMULATOR_PLACES]
    for place in places:
        if host.ask(["test", "-d", place], found, timeout_s=_QUESTION_S).returncode == 0:
            return place
    raise ToolError(f"{found.label} has no simulator of {chip.soc} ({places[0]}); install it or use a card")
