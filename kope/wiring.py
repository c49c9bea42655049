"""From settings to concrete parts: target, evaluator, database, embedder, proposer, and a session that holds them.

The only module that knows every implementation; what they do together is the loop's business.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kope.asking import Outside
from kope.config import Settings
from kope.context import Assembled, Briefing, Budget, Policy, Sources, assemble, check_own, counter_for
from kope.errors import ConfigError, KopeError
from kope.library import Library
from kope.lookup import SessionLookup
from kope.loop import Compare, Parts
from kope.memory import REWIND, MemoryMode, Scope, Session, Store
from kope.model import Attempt, Candidate, Proposer, State, Target, Task, TimeKind
from kope.propose import turns
from kope.propose.gather import ways_to_ask
from kope.propose.given import Given
from kope.propose.spend import Spending
from kope.session import SessionCalls, SessionMemory, settings_key
from kope.target.ascend import AscendTarget
from kope.target.profile import bound_by
from kope.target.twin import parameters
from kope.target.twin.target import TwinTarget

if TYPE_CHECKING:
    from kope.evaluate import CaseLibrary, TaskEvaluator
    from kope.propose.caller import CallLog
    from kope.propose.gather import Lookup
    from kope.selftest import SelfTest

PROPOSERS = ("search", "llm", "command")
CONTEXTS = ("active", "passive", "none")
_STALE_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session is asked for, besides settings: what decides its attempts, so it is in the session's key.

    memory: on, off, placebo, starter, or only:FILE. context, window: for proposers that send a prompt; active: the
    budgeted context, passive: the hot tier and ways to ask for more, none: the hot tier alone. baseline: a kernel to
    try first and to measure against; None: the first that is right. proposals: how many one prompt is answered with,
    by llm. agent: who answers asks; each has a session of its own.
    """

    proposer: str = "search"
    model: str | None = None
    command: str | None = None
    memory: str = "on"
    context: str = "active"
    seed: int = 0
    window: int | None = None
    proposals: int = 1
    agent: str = ""
    baseline: Candidate | None = None
    run: str = ""

    def key(self) -> dict[str, Any]:
        """Return the part of it that a resumed run has to share."""
        if self.proposer == Outside.name:
            # Every ask and tell of an agent on a task is of one session.
            return {"proposer": self.proposer, **({"agent": self.agent} if self.agent else {})}
        prompting = {} if self.proposer == "search" else {"context": self.context, "window": self.window}
        return {
            "proposer": self.proposer,
            "model": self.model,
            "command": _shown(self.command),
            "memory": self.memory,
            "seed": self.seed,
            **prompting,
            **({"proposals": self.proposals} if self.proposals > 1 else {}),
            **({"baseline": self.baseline.id} if self.baseline is not None else {}),
            **({"run": self.run} if self.run else {}),
        }


def _shown(command: str | None) -> str | None:
    """Return a command line as it may be kept: without the values of options named like a secret."""
    from kope.propose.secret import redact_argv

    if command is None:
        return None
    try:
        return shlex.join(redact_argv(shlex.split(command)))
    except ValueError:
        return ""  # It cannot be run either; the proposer says so.


def _settled(plan: Plan, settings: Settings) -> Plan:
    """Return a plan with model and command from the settings where it names none: they decide what attempts are."""
    plan = replace(plan, window=plan.window or settings.window)
    if plan.proposer not in ("llm", "command"):
        return plan
    command = plan.command if plan.command is not None else shlex.join(settings.command)
    return replace(
        plan,
        model=plan.model or settings.llm_model or None,
        command=command if plan.proposer == "command" else None,
    )


def target(settings: Settings, *, progress: Callable[[str], None] | None = None) -> Target:
    """Return the target of the settings; whether its toolchain is there shows when it is asked for a fingerprint."""
    if settings.target == "ascend":
        return AscendTarget.of(settings)
    return TwinTarget(
        settings.cache / "twin",
        chip=settings.chip,
        platform=_platform(settings),
        compiler=settings.compiler,
        jobs=settings.jobs,
        progress=progress,
    )


def _platform(settings: Settings) -> Mapping[str, float]:
    """Return what an installed toolkit says of the chip the twin models, {} where none does."""
    from kope.target.ascend import chip, toolkit, vendor

    soc = parameters.load(settings.chip).chip
    text = toolkit.platform_file(soc, settings.ascend_home, settings.inherited((vendor.HOME, "HOME")))
    return chip.platform_numbers(text)


def evaluator(settings: Settings, *, seed: int = 0, progress: Callable[[str], None] | None = None) -> TaskEvaluator:
    """Return what judges candidates on the target of the settings; seed 0 draws the tasks' own input values."""
    from kope.evaluate import TaskEvaluator

    judged_on = target(settings, progress=progress)
    jobs = judged_on.jobs if isinstance(judged_on, AscendTarget) else settings.jobs
    limit_s = judged_on.time_limit_s if isinstance(judged_on, AscendTarget) else 10.0
    return TaskEvaluator(judged_on, case_library(settings), jobs=jobs, time_limit_s=limit_s, seed=seed)


def timeline(settings: Settings, task: Task, candidate: Candidate, case_id: str | None) -> str:
    """Return what the pipes did in a case of a task, the largest by default, as the text of a Chrome trace.

    Raises ConfigError on a card, for a case the task does not have, and for a candidate that does not get through it.
    """
    from kope.evaluate.capacity import case_bytes
    from kope.evaluate.verify import launch_case
    from kope.target.twin.timeline import as_text

    twin = target(settings)
    if not isinstance(twin, TwinTarget):
        raise ConfigError("a timeline is modelled by the twin; on a card use msopprof, or give --target twin")
    known = {case.id: case for case in task.cases}
    if case_id is not None and case_id not in known:
        raise ConfigError(f"{task.name} has no case {case_id!r}; choose one of {', '.join(known)}")
    case = known[case_id] if case_id is not None else max(task.cases, key=case_bytes)
    with twin.build_cache.scratch() as folder:
        (prepared,) = case_library(settings).prepare(task, [case])
        built = twin.build(candidate, folder / "build")
        launch = launch_case(task, prepared, folder)
        trace = twin.trace(built, launch, folder / "run", time_limit_s=120.0) if built.executable else None
    if trace is None:
        raise ConfigError(f"no timeline of case {case.id}: the kernel does not get through it; see the verdict")
    return as_text(trace)


def self_test(settings: Settings, folder: Path) -> SelfTest:
    """Return the self-test of the target of the settings; on an NPU it tries every profiler that is installed."""
    from kope.selftest import SelfTest
    from kope.target.ascend import health

    judged_on = target(settings)
    if not isinstance(judged_on, AscendTarget):
        twin = judged_on
        return SelfTest({judged_on.name: twin}, folder, lambda: twin.fingerprint().toolchain)
    found = judged_on

    def look() -> str:
        return f"{found.fingerprint().toolchain}; {found.chip.soc}"

    try:
        names = health.usable_profilers(found)
        confirms = health.confirmed_by_steps(found)
    except KopeError:  # the first step says why
        return SelfTest({found.name: found}, folder, look, health.CONFIRMS)
    targets: dict[str, Target] = {name: AscendTarget.of(replace(settings, ascend_profiler=name)) for name in names}
    return SelfTest(
        targets, folder, look, confirms, lambda names: AscendTarget.of(replace(settings, ascend_without=names))
    )


def in_turns(judge: TaskEvaluator, folder: Path) -> Compare | None:
    """Return what times two kernels in turns; None on a target whose times are the same in every run."""
    if judge.target.time_kind is TimeKind.MODELLED:
        return None
    return lambda task, candidate, incumbent: judge.compare(task, candidate, incumbent, folder)


def case_library(settings: Settings) -> CaseLibrary:
    """Return where inputs and reference outputs come from."""
    from kope.evaluate import CaseLibrary, ReferenceRunner

    return CaseLibrary(settings.cache / "cases", ReferenceRunner())


def work_folder(settings: Settings) -> Path:
    """Return where evaluations put their files, rid of what runs that were killed left there more than a day ago."""
    import shutil
    import time

    folder = settings.cache / "work"
    for left in folder.glob("attempt-*") if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_S:
                shutil.rmtree(left, ignore_errors=True)
    return folder


def open_store(settings: Settings, *, create: bool = True, read_only: bool = False) -> Store:
    """Open the experience database, with the embedder when its weights are installed."""
    from kope.memory.embedding import embedder_named

    return Store.open(settings.db, embedder=embedder_named(settings.embedder), create=create, read_only=read_only)


def open_starter(settings: Settings) -> Store:
    """Open the starter memory that comes with KOPE, read-only."""
    from kope.memory import starter
    from kope.memory.embedding import embedder_named

    return starter.open_starter(settings.cache, embedder_named(settings.embedder))


def open_existing(settings: Settings) -> Store:
    """Open the experience database to read from. Raises NotFound when there is none.

    Not as read-only: a reader that may not write cannot tidy up the log when it is the last to close.
    """
    return open_store(settings, create=False)


def open_writable(settings: Settings) -> Store:
    """Open the experience database for a command that has to write. Raises ReadOnly when it cannot be written."""
    from kope.errors import ReadOnly

    store = open_store(settings)
    if store.read_only:
        store.close()
        raise ReadOnly(f"{settings.db} cannot be written; make it and its folder writable, or give another --db")
    return store


def proposer(
    plan: Plan,
    settings: Settings,
    *,
    spending: Spending | None = None,
    log: CallLog | None = None,
    on_text: Callable[[str], None] | None = None,
    lookup: Lookup | None = None,
) -> Proposer:
    """Return the proposer of a plan. Raises ConfigError for one not set up.

    spending: what it may take, None: no limit. log: where answered calls are kept for a resumed run. on_text: gets a
    model's reply as it comes. lookup: answers what a model asks for by itself.
    """
    from kope.propose import configured
    from kope.propose.search import SearchProposer

    if plan.proposer == "search":
        return SearchProposer(settings.cache / "captured")
    if plan.proposer == Outside.name:
        return Outside()
    if plan.proposer == "llm":
        return configured.llm_proposers(
            settings, model=plan.model, spending=spending, log=log, on_text=on_text, lookup=lookup
        )
    if plan.proposer == "command":
        return configured.command_proposer(settings, command=plan.command, model=plan.model, spending=spending, log=log)
    raise ConfigError(f"no proposer {plan.proposer!r}; choose one of {', '.join(PROPOSERS)}")


def briefing(settings: Settings, more: str = "") -> Briefing:
    """Return what a prompt says about the target. more: how to get what is not in the prompt."""
    if settings.target == "ascend":
        said, facts = AscendTarget.of(settings).briefing()
    else:
        chip = parameters.load(settings.chip).on_platform(_platform(settings))
        said = f"{chip.chip}; times are modelled by the twin (parameter set {chip.label}), not measured"
        names = ("vector_core_count", "ub_kernel_bytes", "gm_bandwidth_gbps", "launch_us")
        facts = {name: chip.values[name] for name in names}
    return Briefing(
        target=said,
        chip="\n".join(f"{name} = {value:g}" for name, value in facts.items()),
        more=more,
    )


def assembler(
    plan: Plan, settings: Settings, memory: SessionMemory, library: Library
) -> Callable[[State], Assembled] | None:
    """Return what makes a prompt of a state; None for a proposer that reads the state itself."""
    if plan.proposer == "search":
        return None
    if settings.templates is not None:
        check_own(settings.templates, turns.TEMPLATES)
    sources = Sources(
        counter=counter_for(settings.tokenizer),
        policy=Policy(settings.repairs, settings.explore_after),
        passages=library.search,
        change_of=memory.change_of,
        bound_by=bound_by,
        templates=settings.templates,
    )
    more = ways_to_ask(plan.proposer, settings) if plan.context == "passive" else ""
    return partial(assemble, briefing=briefing(settings, more), budget=budget(plan, settings), sources=sources)


def budget(plan: Plan, settings: Settings) -> Budget:
    """Return the token budget of a plan's prompts; only with active context more than the hot tier gets some of it."""
    is_active = plan.context == "active"
    return Budget(
        window=plan.window or settings.window,
        generation=settings.llm_max_tokens,
        reserve=settings.reserve_tokens,
        warm=settings.warm_tokens if is_active else 0,
        cold=settings.cold_tokens if is_active else 0,
    )


def scope(plan: Plan, session_id: str, settings: Settings) -> Scope:
    """Return what a session may be told of. Raises ConfigError for an unknown mode, NotFound for a missing FILE."""
    mode, file = _memory_mode(plan)
    if mode == "only":
        source = open_store(replace(settings, db=Path(file)), create=False, read_only=True)
        return Scope(MemoryMode.ONLY, session_id, plan.seed, source)
    if mode == "starter":
        return Scope(MemoryMode.ON, session_id, plan.seed, open_starter(settings))
    return Scope(MemoryMode(mode), session_id, plan.seed)


def _memory_mode(plan: Plan) -> tuple[str, str]:
    """Return a plan's memory mode and its file, "" for none. Raises ConfigError for an unknown mode."""
    mode, _, file = plan.memory.partition(":")
    if (mode in ("on", "off", "placebo", "starter") and not file) or (mode == "only" and file):
        return mode, file
    raise ConfigError(f"memory {plan.memory!r} is none of on, off, placebo, starter, only:FILE")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the calls of a session may take in all: tokens, cost, seconds from now on. None: no limit."""

    tokens: int | None = None
    cost: float | None = None
    time_s: float | None = None

    def spending(self, earlier: Sequence[Attempt]) -> Spending:
        """Return the account of a session; `earlier` are its attempts from before an interruption."""
        import time

        calls = [call for attempt in earlier for call in attempt.proposal.calls]
        return Spending(
            self.tokens,
            sum(attempt.proposal.tokens for attempt in earlier),
            cost_limit=self.cost,
            cost_spent=sum(float(call.get("charged_cost", 0.0)) for call in calls),
            deadline_s=time.monotonic() + self.time_s if self.time_s is not None else None,
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """A session ready to run. Leaving it closes the database; the session stays unfinished until the store is told."""

    store: Store
    session: Session
    memory: SessionMemory
    parts: Parts
    library: Library

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.library.close()
        self.memory.close()


def open_session(
    tasks: Sequence[Task],
    plan: Plan,
    settings: Settings,
    *,
    allowed: Allowed | None = None,
    progress: Callable[[str], None] | None = None,
    on_text: Callable[[str], None] | None = None,
) -> Opened:
    """Open the database and begin a session, or take up an unfinished one with the same tasks, plan and target."""
    plan = _settled(plan, settings)
    _memory_mode(plan)  # before anything is made for it
    judge = evaluator(settings, progress=progress)
    fingerprint = judge.fingerprint()
    store = open_writable(settings)
    try:
        info = {"tasks": [task.name for task in tasks], **plan.key(), "hardware": fingerprint.hardware}
        session = store.begin_session(settings_key(tasks, fingerprint, **plan.key()), info)
        own_baseline = plan.baseline is not None
        memory = SessionMemory(
            store, session, fingerprint, scope(plan, session.id, settings), own_baseline=own_baseline
        )
        spending = (allowed or Allowed()).spending(store.attempts(session_id=session.id))
        log = SessionCalls(store, session.id)
        library = Library(store)
        lookup = SessionLookup(memory, library) if plan.context == "passive" else None
        chosen = proposer(plan, settings, spending=spending, log=log, on_text=on_text, lookup=lookup)
        chosen = Given(plan.baseline, chosen) if plan.baseline is not None else chosen
        make = assembler(plan, settings, memory, library)
        folder = work_folder(settings)
        compare = in_turns(judge, folder)
        parts = Parts(memory, chosen, judge, fingerprint, folder, plan.seed, make, compare, plan.proposals)
    except BaseException:
        store.close()
        raise
    return Opened(store, session, memory, parts, library)


def open_rewinding(task: Task, candidate: Candidate, settings: Settings, judge: TaskEvaluator) -> Opened:
    """Open the database and begin a session that takes optimizations back from a kernel; it is told of nothing."""
    fingerprint = judge.fingerprint()
    store = open_writable(settings)
    try:
        info = {"tasks": [task.name], "proposer": REWIND, "kernel": candidate.id, "hardware": fingerprint.hardware}
        key = settings_key([task], fingerprint, proposer=REWIND, kernel=candidate.id)
        session = store.begin_session(key, info)
        memory = SessionMemory(store, session, fingerprint, Scope(MemoryMode.ON, session.id))
    except BaseException:
        store.close()
        raise
    parts = Parts(memory, Outside(), judge, fingerprint, work_folder(settings))
    return Opened(store, session, memory, parts, Library(store))


def open_view(plan: Plan, settings: Settings) -> Opened:
    """Open the database as `open_session` does, to look only: nothing is written, and without a file it is empty."""
    judge = evaluator(settings)
    fingerprint = judge.fingerprint()
    store = open_existing(settings) if settings.db.exists() else Store.open(Path(":memory:"))
    session = Session("", "", {}, "")
    memory = SessionMemory(store, session, fingerprint, scope(plan, "", settings))
    library = Library(store)
    make = assembler(plan, settings, memory, library)
    parts = Parts(memory, Outside(), judge, fingerprint, work_folder(settings), plan.seed, make)
    return Opened(store, session, memory, parts, library)
