"""From settings to concrete parts: target, evaluator, database, embedder, proposer, and a session that holds them.

The only module that knows every implementation; what they do together is the loop's business.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kope.asking import Outside
from kope.config import Settings
from kope.context import Assembled, Briefing, Budget, assemble
from kope.errors import ConfigError
from kope.evaluate import CaseLibrary, ReferenceRunner, TaskEvaluator
from kope.loop import Parts
from kope.memory import MemoryMode, Scope, Session, Store
from kope.model import Candidate, Proposer, State, Task
from kope.propose.given import Given
from kope.session import SessionCalls, SessionMemory, settings_key
from kope.target.twin import parameters
from kope.target.twin.target import TwinTarget

if TYPE_CHECKING:
    from kope.propose.caller import CallLog

PROPOSERS = ("search", "llm", "command")
DEFAULT_WINDOW = Budget().window
_STALE_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session is asked for, besides settings: what decides its attempts, so it is in the session's key.

    memory: on, off, placebo, or only:FILE. context: active or none, for proposers that send a prompt. baseline: a
    kernel to try first and to measure against; None: the first that is right.
    """

    proposer: str = "search"
    model: str | None = None
    command: str | None = None
    memory: str = "on"
    context: str = "active"
    seed: int = 0
    window: int = DEFAULT_WINDOW
    baseline: Candidate | None = None
    run: str = ""

    def key(self) -> dict[str, Any]:
        """Return the part of it that a resumed run has to share."""
        if self.proposer == Outside.name:
            return {"proposer": self.proposer}  # every ask and tell on a task is of one session
        prompting = {} if self.proposer == "search" else {"context": self.context, "window": self.window}
        return {
            "proposer": self.proposer,
            "model": self.model,
            "command": _shown(self.command),
            "memory": self.memory,
            "seed": self.seed,
            **prompting,
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
    if plan.proposer not in ("llm", "command"):
        return plan
    command = plan.command if plan.command is not None else shlex.join(settings.command)
    return replace(
        plan,
        model=plan.model or settings.llm_model or None,
        command=command if plan.proposer == "command" else None,
    )


def target(settings: Settings, *, progress: Callable[[str], None] | None = None) -> TwinTarget:
    """Return the target of the settings. Raises ConfigError for one that cannot be used yet."""
    if settings.target == "ascend":
        raise ConfigError(missing_ascend())
    cache = settings.cache / "twin"
    return TwinTarget(cache, chip=settings.chip, compiler=settings.compiler, jobs=settings.jobs, progress=progress)


def missing_ascend() -> str:
    """Return one line on why the target ascend cannot be used here, whatever of it is installed."""
    import shutil

    tools = {name: shutil.which(name) for name in ("bisheng", "msprof", "npu-smi")}
    missing = [name for name, place in tools.items() if place is None]
    found = f"not found on PATH: {', '.join(missing)}" if missing else "its tools were found"
    return f"target ascend is not supported by this version ({found}); use --target twin"


def evaluator(settings: Settings, *, seed: int = 0, progress: Callable[[str], None] | None = None) -> TaskEvaluator:
    """Return what judges candidates on the target of the settings; seed 0 draws the tasks' own input values."""
    judged_on = target(settings, progress=progress)
    return TaskEvaluator(judged_on, case_library(settings), jobs=settings.jobs, seed=seed)


def case_library(settings: Settings) -> CaseLibrary:
    """Return where inputs and reference outputs come from."""
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
    token_limit: int | None = None,
    spent: int = 0,
    log: CallLog | None = None,
    on_text: Callable[[str], None] | None = None,
) -> Proposer:
    """Return the proposer of a plan; `spent` tokens of the limit are gone. Raises ConfigError for one not set up.

    log: where answered calls are kept for a resumed run. on_text: gets a model's reply as it comes.
    """
    from kope.propose import configured
    from kope.propose.search import SearchProposer
    from kope.propose.spend import Spending

    if plan.proposer == "search":
        return SearchProposer()
    if plan.proposer == Outside.name:
        return Outside()
    spending = Spending(token_limit, spent)
    if plan.proposer == "llm":
        return configured.llm_proposer(settings, model=plan.model, spending=spending, log=log, on_text=on_text)
    if plan.proposer == "command":
        return configured.command_proposer(settings, command=plan.command, model=plan.model, spending=spending, log=log)
    raise ConfigError(f"no proposer {plan.proposer!r}; choose one of {', '.join(PROPOSERS)}")


def briefing(settings: Settings) -> Briefing:
    """Return what a prompt says about the target."""
    chip = parameters.load(settings.chip)
    names = ("vector_core_count", "ub_kernel_bytes", "gm_bandwidth_gbps", "launch_us")
    facts = {name: chip.values[name] for name in names}
    return Briefing(
        target=f"{chip.chip}; times are modelled by the twin (parameter set {chip.label}), not measured",
        chip="\n".join(f"{name} = {value:g}" for name, value in facts.items()),
    )


def assembler(plan: Plan, settings: Settings) -> Callable[[State], Assembled] | None:
    """Return what makes a prompt of a state; None for a proposer that reads the state itself."""
    if plan.proposer == "search":
        return None
    return partial(assemble, briefing=briefing(settings), budget=budget(plan))


def budget(plan: Plan) -> Budget:
    """Return the token budget of a plan's prompts; without context, experience gets nothing of it."""
    return Budget(window=plan.window) if plan.context == "active" else Budget(window=plan.window, warm=0)


def scope(plan: Plan, session_id: str, settings: Settings) -> Scope:
    """Return what a session may be told of. Raises ConfigError for an unknown mode, NotFound for a missing FILE."""
    mode, _, file = plan.memory.partition(":")
    if mode == "only" and file:
        source = open_store(replace(settings, db=Path(file)), create=False, read_only=True)
        return Scope(MemoryMode.ONLY, session_id, plan.seed, source)
    if mode in ("on", "off", "placebo") and not file:
        return Scope(MemoryMode(mode), session_id, plan.seed)
    raise ConfigError(f"memory {plan.memory!r} is none of on, off, placebo, only:FILE")


@dataclass(frozen=True, slots=True)
class Opened:
    """A session ready to run. Leaving it closes the database; the session stays unfinished until the store is told."""

    store: Store
    session: Session
    memory: SessionMemory
    parts: Parts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.memory.close()


def open_session(
    tasks: Sequence[Task],
    plan: Plan,
    settings: Settings,
    *,
    token_limit: int | None = None,
    progress: Callable[[str], None] | None = None,
    on_text: Callable[[str], None] | None = None,
) -> Opened:
    """Open the database and begin a session, or take up an unfinished one with the same tasks, plan and target."""
    plan = _settled(plan, settings)
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
        spent = sum(attempt.proposal.tokens for attempt in store.attempts(session_id=session.id))
        log = SessionCalls(store, session.id)
        chosen = proposer(plan, settings, token_limit=token_limit, spent=spent, log=log, on_text=on_text)
        chosen = Given(plan.baseline, chosen) if plan.baseline is not None else chosen
    except BaseException:
        store.close()
        raise
    parts = Parts(memory, chosen, judge, fingerprint, work_folder(settings), plan.seed, assembler(plan, settings))
    return Opened(store, session, memory, parts)


def open_view(plan: Plan, settings: Settings) -> Opened:
    """Open the database as `open_session` does, to look only: nothing is written, and without a file it is empty."""
    judge = evaluator(settings)
    fingerprint = judge.fingerprint()
    store = open_existing(settings) if settings.db.exists() else Store.open(Path(":memory:"))
    session = Session("", "", {}, "")
    memory = SessionMemory(store, session, fingerprint, scope(plan, "", settings))
    parts = Parts(memory, Outside(), judge, fingerprint, work_folder(settings), plan.seed, assembler(plan, settings))
    return Opened(store, session, memory, parts)
