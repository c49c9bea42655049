"""The self-test: a built-in add kernel compiled, run, compared and timed step by step, and a report to hand on.

It needs no task and no reference. For the target `ascend` the report says of every assumption about the vendor's
interface whether this machine has confirmed it.
"""

from __future__ import annotations

import json
import math
import platform
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from kope import __version__
from kope.errors import KopeError
from kope.evaluate.timing import Rule, checked, decide, median_interval
from kope.model import Built, Candidate, Diagnostic, LaunchCase, Target
from kope.target.ascend import probe, vendor

LIMIT_S = 300.0
CONTROL = Rule(looks=(4,))
PROTECTIONS = (
    ("filter",),
    ("landlock",),
    ("mounts",),
    ("filter", "landlock"),
    ("filter", "landlock", "mounts"),
    ("filter", "landlock", "mounts", "user", "root"),
)
"""What the setting ascend_without may leave out, least first."""
_LOG_CHARS = 8000


@dataclass(frozen=True, slots=True)
class Step:
    """One step. ok: None when it was left out because an earlier one failed. confirms: keys of vendor.ASSUMPTIONS."""

    name: str
    ok: bool | None
    detail: str
    wall_s: float = 0.0
    confirms: tuple[str, ...] = ()


class _Failed(Exception):
    """A step did not give what it must."""


@dataclass(slots=True)
class SelfTest:
    """A test in progress. targets: by name; the first compiles and runs, all of them time. folder: empty.

    look: says what the toolchain is. confirms: the assumptions each step shows to hold, by its name. without: returns
    the target with some protections left out, to find those that stand in the way; None where that cannot be.
    """

    targets: Mapping[str, Target]
    folder: Path
    look: Callable[[], str]
    confirms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    without: Callable[[tuple[str, ...]], Target] | None = None
    steps: list[Step] = field(default_factory=list)
    log: str = ""
    built: Built | None = None
    case: LaunchCase | None = None

    @property
    def passed(self) -> bool:
        """Whether every step was right."""
        return all(step.ok for step in self.steps)

    def run(self) -> Iterator[Step]:
        """Go through the steps, yielding each as it ends; what follows one that failed is left out."""
        timings = [
            (f"time with {name}", lambda target=target: self._time(target)) for name, target in self.targets.items()
        ]
        works: list[tuple[str, Callable[[], str]]] = [
            ("toolchain", self.look),
            ("compile", self._compile),
            ("run", self._run),
            ("verify", self._verify),
            *timings,
            ("A/A control", self._control),
        ]
        for name, work in works:
            yield self._step(name, work)

    def _step(self, name: str, work: Callable[[], str]) -> Step:
        if any(step.ok is not True for step in self.steps):
            self.steps.append(Step(name, None, "left out: a step before it failed"))
            return self.steps[-1]
        started = time.monotonic()
        try:
            detail, ok = work(), True
        except (KopeError, _Failed) as failed:
            detail, ok = str(failed), False
        confirmed = self.confirms.get(name, ()) if ok else ()
        self.steps.append(Step(name, ok, detail, round(time.monotonic() - started, 2), confirmed))
        return self.steps[-1]

    @property
    def _first(self) -> Target:
        return next(iter(self.targets.values()))

    def _compile(self) -> str:
        folder = self.folder / "build"
        folder.mkdir(parents=True)
        self.built = self._first.build(Candidate.of(probe.source()), folder)
        self.log += self.built.log
        if self.built.executable is None:
            raise _Failed(f"the built-in kernel does not compile: {_told(self.built.diagnostics)}")
        return f"{len(self.built.steps)} calls, an executable of {self.built.executable.stat().st_size} bytes"

    def _run(self) -> str:
        data = self.folder / "data"
        data.mkdir()
        self.case = probe.make_case(data)
        try:
            self._run_on(self._first, "run")
        except (KopeError, _Failed) as failed:
            raise _Failed(f"{failed}{self._in_the_way()}") from failed
        return f"one case of {probe.COUNT} elements"

    def _run_on(self, target: Target, name: str) -> None:
        assert self.built is not None and self.case is not None
        ran = target.run(self.built, [self.case], "verify", self.folder / name, time_limit_s=LIMIT_S)
        self.log += ran.log
        if not ran.cases or not ran.cases[0].ok:
            raise _Failed(f"the built-in kernel does not run: {_told(ran.cases[0].diagnostics if ran.cases else ())}")

    def _in_the_way(self) -> str:
        """Say which protections keep the kernel from running, "" where none can be left out."""
        if self.without is None:
            return ""
        for left_out in PROTECTIONS:
            words = " ".join(left_out)
            try:
                self._run_on(self.without(left_out), f"without-{words.replace(' ', '-')}")
            except (KopeError, _Failed):
                continue
            return f"; a protection is in the way: set ascend_without to {words!r}"
        return "; no protection is to blame: without them it fails too"

    def _verify(self) -> str:
        assert self.case is not None
        wrong = probe.wrong_elements(self.case)
        if wrong:
            raise _Failed(f"{wrong} of {probe.COUNT} elements of x + y are wrong")
        return f"all {probe.COUNT} elements of x + y are right"

    def _samples(self, target: Target, name: str) -> list[float]:
        assert self.built is not None and self.case is not None
        ran = target.run(self.built, [self.case], "time", self.folder / name, time_limit_s=LIMIT_S)
        self.log += ran.log
        if not ran.cases or not ran.cases[0].ok:
            raise _Failed(f"no time: {_told(ran.cases[0].diagnostics if ran.cases else ())}")
        try:
            return checked(ran.cases[0].duration_us)
        except ValueError as wrong:
            raise _Failed(str(wrong)) from wrong

    def _time(self, target: Target) -> str:
        samples = self._samples(target, f"time-{len(self.steps)}")
        low, middle, high = median_interval(samples)
        hardware = target.fingerprint().hardware
        return f"{middle:.3f} us [{low:.3f}, {high:.3f}], {len(samples)} calls, {target.time_kind.value} ({hardware})"

    def _control(self) -> str:
        """Time the kernel against itself, in turns: nothing may come out as faster."""
        medians = [median(self._samples(self._first, f"control-{k}")) for k in range(2 * CONTROL.looks[-1])]
        ratios = [math.log(medians[k] / medians[k + 1]) for k in range(0, len(medians), 2)]
        found = decide(ratios, CONTROL)
        if found.decision == "faster":
            raise _Failed(
                f"the same kernel came out {found.gain:+.1%} faster than itself; look for other users of the card"
            )
        spread = max(medians) / min(medians) - 1.0
        return f"{found.pairs} pairs of equal kernels: {found.gain:+.2%}, runs differ by {spread:.2%} at most"

    def document(self) -> dict[str, Any]:
        """Return it as schema/doctor_selftest.json describes it, without names of users, hosts or places."""
        confirmed = {key for step in self.steps for key in step.confirms}
        document = {
            "kope": __version__,
            "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
            "python": platform.python_version(),
            "passed": self.passed,
            "steps": [asdict(step) for step in self.steps],
            "assumptions": [
                {**asdict(one), "confirmed": one.key in confirmed} for one in vendor.ASSUMPTIONS if self.confirms
            ],
            "log": self.log[-_LOG_CHARS:],
        }
        cleaned: dict[str, Any] = json.loads(without_names(json.dumps(document)))
        return cleaned


def _told(found: tuple[Diagnostic, ...]) -> str:
    return "; ".join(f"{one.kind}: {one.message}" for one in found[:3]) or "it said nothing"


_PATH = re.compile(r"(?<![\w<])/(?:[\w.+@%-]+/)+([\w.+@%-]*)")


def without_names(text: str) -> str:
    """Return a text without absolute paths, the name of this host and that of its user: only last parts of paths."""
    text = _PATH.sub(r"<path>/\1", text)
    user = Path.home().name
    for name, word in ((socket.gethostname(), "<host>"), (user if user != "root" else "", "<user>")):
        if len(name) > 2:
            text = re.sub(rf"\b{re.escape(name)}\b", word, text)
    return text


def report(document: Mapping[str, Any]) -> str:
    """Return the report as Markdown, for a file that a user attaches to a report of a problem."""
    lines = [
        f"# KOPE self-test: {'passed' if document['passed'] else 'failed'}",
        "",
        f"KOPE {document['kope']}, Python {document['python']}, {document['machine']}",
        "",
        "| step | | time | what came of it |",
        "|---|---|---|---|",
    ]
    marks = {True: "ok", False: "FAILED", None: "-"}
    for step in document["steps"]:
        detail = step["detail"].replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {step['name']} | {marks[step['ok']]} | {step['wall_s']:.1f} s | {detail} |")
    if document["assumptions"]:
        lines += ["", "| assumption about the vendor's interface | basis | confirmed here |", "|---|---|---|"]
    for one in document["assumptions"]:
        lines.append(f"| {one['claim']} | {one['basis']} | {'yes' if one['confirmed'] else 'no'} |")
    return "\n".join([*lines, "", "## Output of the programs", "", "```text", document["log"].rstrip(), "```", ""])
