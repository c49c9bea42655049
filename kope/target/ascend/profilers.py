"""How times are taken: msprof around a whole program, msopprof around each launch, the simulator without a card.

Each knows its argv, how often it wants a case called, and how its output becomes one time per call. Tables are read by
`op_summary` and `profile`; running and blaming is `session`'s and `runner`'s business.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from statistics import median_low
from typing import Any, Literal, Protocol

from kope.errors import ToolError, ToolMissing
from kope.model import Diagnostic
from kope.target import op_summary, profile
from kope.target.ascend import vendor
from kope.target.ascend.chip import Chip
from kope.target.ascend.session import Call
from kope.target.ascend.toolkit import Toolkit

Choice = Literal["auto", "msprof", "msopprof", "simulator"]
CLOCK_SLACK_US = 1500.0
"""How far a kernel's start may lie outside the call it belongs to, by the host's clock."""


_OTHER_PROFILER = "set ascend_profiler to msopprof"


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel as a profiler saw it: its time and counters."""

    duration_us: float
    counters: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one case: one per call, warm-up excluded, the counters of a middling call, and what was odd."""

    duration_us: tuple[float, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


class Profiler(Protocol):
    """A way to take times."""

    @property
    def name(self) -> str:
        """As in fingerprints, with the state of the L2 cache."""

    @property
    def per_case(self) -> bool:
        """Whether every case needs a process of its own."""

    @property
    def simulated(self) -> bool:
        """Whether it runs programs without a card."""

    @property
    def parameters(self) -> Mapping[str, float]:
        """What the host program is told: warm_up, repeats, gap_us."""

    def argv(self, program: Sequence[str], output: Path) -> list[str]:
        """Return the call that runs a program and writes below the output folder."""

    def read(self, output: Path, calls: Mapping[str, Sequence[Call]], text: str) -> dict[str, Timing]:
        """Return the times of the cases whose calls are given. Raises ToolError when the profiler failed."""


@dataclass(frozen=True, slots=True)
class Msprof:
    """Application-level msprof: all cases in one process, the L2 cache as the calls before left it."""

    program: Path
    old_form: bool = False
    parameters: Mapping[str, float] = field(default_factory=lambda: {"warm_up": 3.0, "repeats": 10.0, "gap_us": 4000.0})
    name: str = "msprof-warm"
    per_case: bool = False
    simulated: bool = False

    def argv(self, program: Sequence[str], output: Path) -> list[str]:
        """Return the call; versions before 8.5 want the program as one option."""
        last = [f"--application={' '.join(program)}"] if self.old_form else list(program)
        return [str(self.program), f"--output={output}", *vendor.MSPROF_OPTIONS, *last]

    def read(self, output: Path, calls: Mapping[str, Sequence[Call]], text: str) -> dict[str, Timing]:
        """Give each kernel to the call it started in. Raises ToolError without a table, or when clocks disagree."""
        tables = op_summary.find_tables(output)
        if not tables:
            raise ToolError(f"msprof wrote no op_summary table; {last_words(text)}")
        spans = sorted((*span, case_id, number) for case_id, of in calls.items() for number, span in enumerate(of))
        found: dict[tuple[str, int], list[Launch]] = {}
        astray = 0
        for row in (row for table in tables for row in op_summary.rows(table) if row.on_cores):
            place = _span_of(row.start_us, spans)
            if place is None:
                astray += 1
            else:
                found.setdefault(place, []).append(Launch(row.duration_us, row.counters()))
        if astray and not found:
            raise ToolError(f"none of {astray} kernels started within a call by the host's clock; {_OTHER_PROFILER}")
        skipped = int(self.parameters["warm_up"])
        return {
            case_id: timing([found.get((case_id, number), []) for number in range(len(of))][skipped:], case_id)
            for case_id, of in calls.items()
        }


def _span_of(start_us: float, spans: Sequence[tuple[int, int, str, int]]) -> tuple[str, int] | None:
    """Return case and number of the call a kernel started in, a little slack allowed; None for none."""
    after = bisect_right(spans, start_us + CLOCK_SLACK_US, key=itemgetter(0))
    if after == 0:
        return None
    _, end, case_id, number = spans[after - 1]
    return (case_id, number) if start_us <= end + CLOCK_SLACK_US else None


@dataclass(frozen=True, slots=True)
class Msopprof:
    """Operator-level msopprof: each launch replayed with a clear L2 cache, all metrics; a process for each case."""

    call: tuple[str, ...]
    parameters: Mapping[str, float] = field(default_factory=lambda: {"warm_up": 0.0, "repeats": 5.0, "gap_us": 0.0})
    name: str = "msopprof-cold"
    per_case: bool = True
    simulated: bool = False

    def argv(self, program: Sequence[str], output: Path) -> list[str]:
        """Return the call; without --kernel-name it would look at the first kernel only."""
        limits = [f"--launch-count={vendor.MSOPPROF_MAX_LAUNCHES}", f"--warm-up={vendor.MSOPPROF_WARM_UP}"]
        return [*self.call, f"--output={output}", "--kernel-name=*", *limits, *program]

    def read(self, output: Path, calls: Mapping[str, Sequence[Call]], text: str) -> dict[str, Timing]:
        """Deal the launches of every kernel name out to the calls of the one case, in order."""
        ((case_id, of),) = calls.items()
        tree = newest_tree(output)
        if tree is None or not any(tree.glob("**/OpBasicInfo*.csv")):
            if any(words in text for words in vendor.NOTHING_RAN):
                return {case_id: Timing(diagnostics=(no_kernel(case_id),))}
            raise ToolError(f"msopprof wrote no OPPROF tree; {last_words(text)}")
        profiles = profile.read_profiles(tree)
        per_call, uneven = deal([(one.op_name, one) for one in profiles], len(of))
        if uneven:
            return {case_id: Timing(diagnostics=(uneven_calls(case_id, uneven, len(of)),))}
        launches = [[Launch(one.duration_us, profile.counters(one)) for one in call] for call in per_call]
        found = timing(launches, case_id)
        odd = tuple(_throttled(case_id, one) for one in profiles if one.throttled)[:1]
        return {case_id: Timing(found.duration_us, found.counters, (*found.diagnostics, *odd))}


@dataclass(frozen=True, slots=True)
class Simulator:
    """The toolkit's simulator: no card, one call of each case, time from the trace of its instructions."""

    call: tuple[str, ...]
    soc: str
    parameters: Mapping[str, float] = field(default_factory=lambda: {"warm_up": 0.0, "repeats": 1.0, "gap_us": 0.0})
    name: str = "simulator"
    per_case: bool = True
    simulated: bool = True

    def argv(self, program: Sequence[str], output: Path) -> list[str]:
        """Return the call."""
        limit = f"--launch-count={vendor.MSOPPROF_MAX_LAUNCHES}"
        return [*self.call, f"--soc-version={self.soc}", f"--output={output}", "--kernel-name=*", limit, *program]

    def read(self, output: Path, calls: Mapping[str, Sequence[Call]], text: str) -> dict[str, Timing]:
        """Add up, over the kernels of the one call, the span from the first instruction to the end of the last."""
        ((case_id, of),) = calls.items()
        tree = newest_tree(output)
        traces = sorted(tree.glob("**/simulator/trace.json")) if tree is not None else []
        if not traces:
            if any(words in text for words in vendor.NOTHING_RAN):
                return {case_id: Timing(diagnostics=(no_kernel(case_id),))}
            raise ToolError(f"the simulator wrote no trace.json; {last_words(text)}")
        launches = [Launch(span, {profile.DURATION: span}) for span in (trace_span_us(path) for path in traces)]
        return {case_id: timing([launches] if of else [], case_id)}


def choose(choice: Choice, toolkit: Toolkit, chip: Chip, *, has_card: bool) -> Profiler:
    """Return the profiler of the setting; auto: msprof, else msopprof, without a card the simulator.

    Raises ToolMissing when it is not installed.
    """
    if choice == "auto":
        choice = "simulator" if not has_card else "msprof" if toolkit.program("msprof") else "msopprof"
    if choice == "msprof":
        return Msprof(toolkit.needed("msprof"), old_form=toolkit.form == "cce")
    if choice == "msopprof":
        return Msopprof(tuple(operator_profiler(toolkit)))
    return Simulator((*operator_profiler(toolkit), "simulator"), chip.soc)


def operator_profiler(toolkit: Toolkit) -> list[str]:
    """Return how msopprof is called here: by its own name, else as `msprof op`. Raises ToolMissing."""
    own = toolkit.program("msopprof")
    if own is not None:
        return [str(own)]
    general = toolkit.program("msprof")
    if general is None:
        raise ToolMissing(f"neither msopprof nor msprof is in {toolkit.home}; install the whole toolkit")
    return [str(general), "op"]


def newest_tree(output: Path) -> Path | None:
    """Return the OPPROF_* folder written last below a folder: its name begins with its time."""
    return max(output.glob("OPPROF_*"), key=lambda path: path.name, default=None)


def deal(launches: Iterable[tuple[str, Any]], calls: int) -> tuple[list[list[Any]], str]:
    """Deal launches, in order per name, out to calls that all launch the same kernels.

    Returns one list per call, and the name whose launches are no multiple of the calls, "" for none.
    """
    by_name: dict[str, list[Any]] = {}
    for name, launch in launches:
        by_name.setdefault(name, []).append(launch)
    per_call: list[list[Any]] = [[] for _ in range(calls)]
    for name, of in by_name.items():
        if not calls or len(of) % calls:
            return per_call, name or "a kernel"
        share = len(of) // calls
        for number in range(calls):
            per_call[number] += of[number * share : (number + 1) * share]
    return per_call, ""


def timing(calls: Sequence[Sequence[Launch]], case_id: str) -> Timing:
    """Return the times of a case from the kernels of each call; a call without one is a finding, never a time."""
    if not calls or not all(calls):
        empty = sum(not call for call in calls)
        if empty == len(calls):
            return Timing(diagnostics=(no_kernel(case_id),))
        return Timing(diagnostics=(uneven_calls(case_id, f"{empty} calls without a kernel", len(calls)),))
    totals = [sum(launch.duration_us for launch in call) for call in calls]
    middle = totals.index(median_low(totals))
    return Timing(tuple(totals), profile.combine(launch.counters for launch in calls[middle]))


def no_kernel(case_id: str) -> Diagnostic:
    """Return the finding that a case ran without a kernel on the device."""
    message = "no kernel ran on the device in this case"
    return Diagnostic("no-kernel", message, remedy="launch one in every call", case_id=case_id)


def uneven_calls(case_id: str, what: str, calls: int) -> Diagnostic:
    """Return the finding that equal calls of a case did not launch equal kernels."""
    message = f"{calls} equal calls did not launch the same kernels ({what})"
    remedy = "launch the same kernels in every call: keep nothing from one call to the next"
    return Diagnostic("uneven-calls", message, remedy=remedy, case_id=case_id)


def _throttled(case_id: str, seen: profile.Profile) -> Diagnostic:
    message = f"the clock was {seen.current_mhz:.0f} MHz of {seen.rated_mhz:.0f}: the time is not to be trusted"
    return Diagnostic("throttled", message, "warning", "let the card cool down; more warm-up", case_id=case_id)


def trace_span_us(path: Path) -> float:
    """Return the time from the first event of a trace to the end of the last. Raises ToolError for an empty one."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except ValueError as broken:
        raise ToolError(f"{path} is cut off ({broken}); simulate again, with room on the disk") from None
    events = document.get("traceEvents", []) if isinstance(document, dict) else document
    spans = [(float(event["ts"]), float(event["dur"])) for event in events if "ts" in event and "dur" in event]
    if not spans:
        raise ToolError(f"{path} holds no event with ts and dur; simulate again")
    return max(start + length for start, length in spans) - min(start for start, _ in spans)


def last_words(text: str) -> str:
    """Return the line of a program's output that tells most about its failure."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if any(words in line for words in (*vendor.PROFILER_FAILED, "ERROR", "rror:"))]
    return f"it said: {(telling or lines or ['nothing'])[-1][:200]}"
