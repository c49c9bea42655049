"""How many cases of a suite does the first kernel solve that is derived without a model?

    scripts/bench derive --corpus DIR [--most-elements 1048576] [--only NAME,NAME] [--folder DIR] [--report]
    scripts/bench derive --corpus DIR --least-elements 1048577 --most-elements 16777216

DIR is a checkout of a suite; it needs PyTorch (the extra `torch`). For every task a kernel
is derived from its reference, and judged strictly on the twin, case by case: every element of every output, against
the suite's reference in float64. The time limit ends what never ends; it is no measure of a kernel. Cases of more input
elements are not run and count as failed. What was judged is kept in the folder by content: stopped anywhere, the same
command goes on. --report shows what is there and judges nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kope import config, wiring
from kope.derive.nest.derivation import NestPlan, plan_nests
from kope.errors import DeriveError, KopeError
from kope.evaluate import TaskEvaluator
from kope.model import Candidate, Case, Outcome, Task
from kope.task.imported import read_suite

BATCH_ELEMENTS = 16 << 20
"""Input elements of the cases that are judged between two saves."""
NOT_REACHED = "not reached"
"""What ends the process that runs the kernel keeps the cases after it in the same batch from being run."""


@dataclass(frozen=True)
class Found:
    """What became of one case. how: vector, or scalar where places come from data; reason: "" when it is solved."""

    task: str
    case: str
    level: str
    how: str
    reason: str
    candidate: str = ""
    digest: str = ""


class Ledger:
    """Results by task, case and kernel, one JSON line each."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "cases.jsonl"
        self.known: dict[tuple[str, str, str, str], Found] = {}
        for line in self.file.read_text("utf-8").splitlines() if self.file.is_file() else ():
            row = Found(**json.loads(line))
            self.known[row.task, row.case, row.candidate, row.digest] = row

    def add(self, rows: Sequence[Found]) -> None:
        """Keep results."""
        with self.file.open("a", encoding="utf-8") as out:
            for row in rows:
                self.known[row.task, row.case, row.candidate, row.digest] = row
                out.write(json.dumps(row.__dict__) + "\n")


def elements(case: Case) -> int:
    """Input elements of a case."""
    return sum(item.spec.numel for item in case.inputs if item is not None)


def level(task: Task) -> str:
    """The suite's difficulty class."""
    return task.origin.level if task.origin else ""


def how(plan: NestPlan, case: Case) -> str:
    """Whether a case is solved by vector code alone."""
    kinds = {phase.kind for planned, made in plan.cases if planned.id == case.id for phase in made.phases}
    return "scalar" if kinds & {"take", "put"} else "vector"


def judge(task: Task, candidate: Candidate, cases: Sequence[Case], judged: Any, work: Path) -> dict[str, str]:
    """By case why it is not solved. What one case stops is judged again without that case."""
    try:
        outcome = judged.judge_all(replace(task, cases=tuple(cases)), candidate, work)
        reasons = {case.id: reason_of(outcome, case.id) for case in cases}
    except KopeError as error:
        if len(cases) == 1:
            return {cases[0].id: f"not judged: {error}"}
        reasons = {case.id: NOT_REACHED for case in cases}
    left = [case for case in cases if reasons[case.id] == NOT_REACHED]
    parts = [left] if len(left) < len(cases) else [[case] for case in left]
    for part in parts if len(cases) > 1 else ():
        if part:
            reasons |= judge(task, candidate, part, judged, work)
    return reasons


def batches(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases in order, so many at a time that a stop loses little."""
    made: list[list[Case]] = []
    room = 0
    for case in cases:
        if not made or elements(case) > room:
            made.append([])
            room = BATCH_ELEMENTS
        made[-1].append(case)
        room -= elements(case)
    return made


def reason_of(outcome: Outcome, case_id: str) -> str:
    """Why a case is not solved, "" when it is."""
    found = [item for item in outcome.diagnostics if item.severity == "error" and item.case_id in (case_id, "")]
    passed = any(case.case_id == case_id and case.passed for case in outcome.cases)
    if passed and not found:
        return ""
    found += [item for item in outcome.diagnostics if item.kind == "disputed-case" and item.case_id == case_id]
    return f"{found[0].kind}: {found[0].message}"[:240] if found else NOT_REACHED


def run_task(task: Task, options: argparse.Namespace, judged: Any, ledger: Ledger) -> Iterator[Found]:
    """Results of all cases of one task, judging those that are not known yet."""
    try:
        plan = plan_nests(task, options.folder / "captured")
        candidate = Candidate.of(plan.source())
    except DeriveError as error:
        yield from (Found(task.name, case.id, level(task), "", f"not derived: {error}") for case in task.cases)
        return
    waiting: list[Case] = []
    for case in sorted(task.cases, key=elements):
        known = ledger.known.get((task.name, case.id, candidate.id, task.digest))
        if case.id in plan.refused:
            yield Found(task.name, case.id, level(task), "", f"not derived: {plan.refused[case.id]}")
        elif known is not None:
            yield known
        elif not options.least_elements <= elements(case) <= options.most_elements or options.report:
            yield Found(task.name, case.id, level(task), how(plan, case), "not run")
        else:
            waiting.append(case)
    for batch in batches(waiting):
        reasons = judge(task, candidate, batch, judged, options.folder / "work")
        found = [
            Found(task.name, case.id, level(task), how(plan, case), reasons[case.id], candidate.id, task.digest)
            for case in batch
        ]
        ledger.add(found)
        yield from found


def report(rows: Sequence[Found]) -> str:
    """The table of docs/results.md, and every reason with how often it stopped a case."""
    lines = ["| level | tasks | with a solved case | with all | cases | solved | by vector code | by scalar code |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    levels = sorted({row.level for row in rows})
    for name in [*levels, "all"]:
        part = [row for row in rows if name in (row.level, "all")]
        tasks = {row.task for row in part}
        solved = [row for row in part if not row.reason]
        some = {row.task for row in solved}
        whole = tasks - {row.task for row in part if row.reason}
        ways = Counter(row.how for row in solved)
        counts = (len(tasks), len(some), len(whole), len(part), len(solved), ways["vector"], ways["scalar"])
        lines.append(f"| {name} | " + " | ".join(map(str, counts)) + " |")
    lines.append("")
    for (task, reason), count in sorted(Counter((row.task, row.reason) for row in rows if row.reason).items()):
        lines.append(f"{task}: {count} x {reason}")
    return "\n".join(lines)


def main() -> None:
    """Judge, then report."""
    parser = argparse.ArgumentParser(prog="scripts/bench derive", description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="checkout of a suite")
    parser.add_argument("--most-elements", type=int, default=1 << 20, help="input elements of the largest case run")
    parser.add_argument("--least-elements", type=int, default=0, help="input elements of the smallest case run")
    parser.add_argument("--only", default="", help="names of tasks, by comma")
    parser.add_argument("--folder", type=Path, default=Path("build/derive"), help="what is kept")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds that one run of small cases may take")
    parser.add_argument("--report", action="store_true", help="judge nothing")
    options = parser.parse_args()
    _, tasks, errors = read_suite(options.corpus)
    wanted = set(filter(None, options.only.split(",")))
    tasks = [task for task in tasks if not wanted or task.name in wanted]
    ledger = Ledger(options.folder)
    settings = config.load()
    judged = TaskEvaluator(
        wiring.target(settings), wiring.case_library(settings), jobs=settings.jobs, time_limit_s=options.time_limit
    )
    rows: list[Found] = []
    for task in tasks:
        start = time.monotonic()
        found = list(run_task(task, options, judged, ledger))
        rows += found
        solved = sum(not row.reason for row in found)
        print(f"{task.name:<36} {solved:>3}/{len(found):<3} {time.monotonic() - start:6.1f} s", flush=True)
    for error in errors:
        print(f"error: {error}")
    print(report(rows))


if __name__ == "__main__":
    main()
