"""The verdict of the suite a task comes from, as that suite decides it, for comparison with published figures only.

Nothing is rewarded or remembered for it. Each suite's rule is a module of its own; here is the table of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kope.evaluate import allclose_rule, cann_rule
from kope.evaluate.prepared import PreparedCase
from kope.model import Task

RULES = {
    "cann-bench": cann_rule.judge,
    "kernelbench": allclose_rule.judge,
    "multikernelbench": allclose_rule.judge,
}
"""By suite: takes the task, a prepared case and the files a candidate wrote, one per expected output."""


def official_verdict(task: Task, item: PreparedCase, outputs: Sequence[Path]) -> bool | None:
    """Return whether the task's suite counts a case as passed; None for a task of KOPE's own or a suite without a rule.

    outputs: raw files in the order and dtypes of `item.wants`; () for a case that never ran. A file that is missing or
    of another size has failed.
    """
    rule = RULES.get(task.origin.suite) if task.origin is not None else None
    if rule is None:
        return None
    return len(outputs) == len(item.wants) and rule(task, item, outputs)
