"""A survey: one candidate on every case of a task, none of which stops another, for pass rates over full denominators.

The loop stops at the first wrong case, which is cheaper; the checks are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from kope.errors import CaseTooLarge
from kope.evaluate import plan
from kope.evaluate.capacity import require_room
from kope.evaluate.judgement import Judgement, Stop
from kope.evaluate.prepared import PreparedCase
from kope.evaluate.verify import GroupVerdict
from kope.model import Built, CaseRun, Diagnostic, Stage, Verdict


class Survey(Judgement):
    """One candidate on all cases of one task. A case that does not fit the machine has failed, and says so."""

    every = True

    def stages(self) -> Verdict:
        """Verify all cases, then time those that are right. Raises Stop at the earliest stage at which one failed."""
        built = self.compile()
        fitting = self._fitting()
        runs = self._verify_all(built, fitting)
        right = [item for item in fitting if item.case.id in runs]
        if right:
            timed = self.time(built, right)
            left = {case_id: run for case_id, run in runs.items() if case_id not in self.draft.failed}
            self.check_times(timed, left, right)
        if self.draft.failed:
            raise Stop(min(self.draft.failed.values(), key=list(Stage).index))
        self.challenge(built, fitting)
        return Verdict.VERIFIED

    def _fitting(self) -> list[PreparedCase]:
        cases = []
        for case in plan.by_size(self.task.cases):
            try:
                require_room(self.task.name, case, self.folder)
                cases.append(case)
            except CaseTooLarge as error:
                self.refuse(case.id, [Diagnostic("too-large", str(error), case_id=case.id)])
        return self.prepare(cases)

    def _verify_all(self, built: Built, fitting: Sequence[PreparedCase]) -> dict[str, CaseRun]:
        """Run all cases; those behind one that ended the program run again without it."""
        self._waiting = {item.case.id for item in fitting}
        runs: dict[str, CaseRun] = {}
        while left := [item for item in fitting if item.case.id in self._waiting]:
            self._waiting.clear()
            runs |= self.verify(built, plan.groups(left), f"verify-{len(self.draft.seen)}")
        return runs

    def record(self, name: str, verdict: GroupVerdict) -> None:
        """Keep the verdicts of a group, except those of cases that had no chance; the first of a group always has."""
        first, *others = verdict.cases
        self._waiting |= {case.case_id for case in others if case.never_ran}
        super().record(name, GroupVerdict((first, *(case for case in others if not case.never_ran)), verdict.ran))

    def refuse(self, case_id: str, found: Sequence[Diagnostic]) -> None:
        """Fail a case whose time is not believed, and go on."""
        self.draft.fail(case_id, Stage.PROFILE, found)
