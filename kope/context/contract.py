"""The contracts of the prompt templates: a template may read the fields of its dataclass and nothing else.

The wording around the fields is in templates/prompts; what goes into them is chosen in assemble.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from kope.errors import TemplateError
from kope.render import names_read

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, slots=True)
class Prompt:
    """What every prompt says: the task, the target, documentation, experience.

    Fields ending in _block are fenced already; the others are one line.
    """

    task_name: str
    task_block: str
    reference_block: str
    cases_block: str
    case_count: int
    tolerance: str
    target: str
    chip_block: str
    docs_block: str
    memory_block: str
    memory_note: str
    more_block: str


@dataclass(frozen=True, slots=True)
class DraftPrompt(Prompt):
    """prompts/draft: there is no kernel that works yet."""


@dataclass(frozen=True, slots=True)
class RepairPrompt(Prompt):
    """prompts/repair_*: an attempt failed; its source and what the tools said about it."""

    failed_move: str
    failed_block: str
    feedback_block: str


@dataclass(frozen=True, slots=True)
class RefinePrompt(Prompt):
    """prompts/refine: make the incumbent faster; its source, times per case and where they go."""

    incumbent_speedup: float
    incumbent_times_block: str
    incumbent_block: str
    bottleneck: str
    feedback_block: str


@dataclass(frozen=True, slots=True)
class ExplorePrompt(Prompt):
    """prompts/explore: the incumbent is stuck; go on from another kernel, another way."""

    stuck_count: int
    incumbent_speedup: float
    tried_block: str
    other_speedup: float
    other_times_block: str
    other_block: str
    bottleneck: str


TEMPLATES: dict[str, type[Prompt]] = {
    "prompts/draft": DraftPrompt,
    "prompts/repair_compile": RepairPrompt,
    "prompts/repair_run": RepairPrompt,
    "prompts/repair_wrong": RepairPrompt,
    "prompts/refine": RefinePrompt,
    "prompts/explore": ExplorePrompt,
}
"""Template name -> its contract."""
_NONE: Mapping[str, type[DataclassInstance]] = {}


def check_own(templates: Path, more: Mapping[str, type[DataclassInstance]] = _NONE) -> None:
    """Hold the templates of a user's folder to their contracts. more: contracts besides those of prompts.

    Raises TemplateError, naming the template, for a name it reads that no prompt has, and for one that cannot be read.
    """
    if not templates.is_dir():
        raise TemplateError(f"the folder of templates {templates} does not exist; correct the setting `templates`")
    for name, contract in {**TEMPLATES, **more}.items():
        known = {field.name for field in fields(contract)}
        unknown = sorted(names_read(name, own=templates) - known)
        if unknown:
            raise TemplateError(
                f"template {name!r} in {templates} reads {', '.join(unknown)}; it may read {', '.join(sorted(known))}"
            )
