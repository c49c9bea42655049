"""Runs cases on a card: a clean second run before a kernel is blamed, a known good kernel before a hang is.

What a process showed is `session`'s, who has which card `pool`'s, times are `profilers`' business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kope.errors import MachineError
from kope.model import CaseRun, Diagnostic, LaunchCase
from kope.target.ascend import vendor
from kope.target.ascend.pool import CardPool
from kope.target.ascend.session import Session, Trouble

Attempt = Callable[[Sequence[LaunchCase], int | None], Session]
"""Runs cases in one process on a card (None: without one) and returns what it showed."""
Probe = Callable[[int], bool]
"""Whether a kernel that is known to be good works on a card."""

_BETWEEN_PROBES_S = 2.0


@dataclass(slots=True)
class Record:
    """What was run: every case's run in order, calls by case, program text and steps."""

    runs: list[CaseRun] = field(default_factory=list)
    calls: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    log: str = ""
    steps: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, session: Session) -> None:
        """Take over what a process showed of cases that ended."""
        self.runs.extend(session.runs)
        self.calls.update(session.calls)
        self.log += session.done.output
        self.steps.append(session.done.step)


class CardRunner:
    """Runs cases until one fails for good. pool: None where there is no card (the simulator)."""

    def __init__(self, pool: CardPool | None, probe: Probe) -> None:
        self._pool = pool
        self._probe = probe

    def run(self, cases: Sequence[LaunchCase], attempt: Attempt, *, same: bool = False) -> Record:
        """Run cases in order up to the first that fails twice. same: on the card used last.

        Raises MachineError when environment or hardware is at fault twice in a row: that never counts against a kernel.
        """
        record = Record()
        left = list(cases)
        while left:
            session = self._on_a_card(left, attempt, same)
            record.add(session)
            if session.trouble is None:
                break
            left = left[session.trouble.index :]
            again = self._on_a_card(left[:1], attempt, same)
            record.add(again)
            if again.trouble is not None:
                self._judge(left[0], session.trouble, again.trouble, record)
                break
            record.runs[-1] = _with_note(record.runs[-1], session.trouble)
            left = left[1:]
        return record

    def _on_a_card(self, cases: Sequence[LaunchCase], attempt: Attempt, same: bool) -> Session:
        """Run cases on a free card. After a hang the card is tried with a known good kernel; one that fails is out."""
        if self._pool is None:
            return attempt(cases, None)
        while True:
            with self._pool.card(same=same) as card:
                session = attempt(cases, card)
                if session.trouble is None or session.trouble.fault.blame not in ("hang", "unknown"):
                    return session
                if self._works(card):
                    return session
                self._pool.take_out(card, f"a known good kernel failed twice after: {session.trouble.fault.message}")

    def _works(self, card: int) -> bool:
        if self._probe(card):
            return True
        time.sleep(_BETWEEN_PROBES_S)
        return self._probe(card)

    def _judge(self, case: LaunchCase, first: Trouble, second: Trouble, record: Record) -> None:
        for trouble in (second, first):
            if trouble.fault.blame in ("environment", "hardware"):
                remedy = vendor.REMEDIES.get(trouble.fault.kind, "see `kope doctor`")
                raise MachineError(f"{trouble.fault.message}; {remedy}")
        found = (*second.found, second.fault.diagnostic(case.case_id))
        record.runs.append(CaseRun(case.case_id, False, found))


def _with_note(run: CaseRun, trouble: Trouble) -> CaseRun:
    message = f"failed once and then ran: {trouble.fault.message}"
    note = Diagnostic("transient", message, "note", "nothing, unless it happens often", case_id=run.case_id)
    return CaseRun(run.case_id, run.ok, (*run.diagnostics, note))
