"""The contracts of the prompt templates: a template may read the fields of its dataclass and nothing else.

The wording around the fields is in templates/prompts; what goes into them is chosen in assemble.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftPrompt:
    """prompts/draft: there is no kernel that works yet.

    Fields ending in _block are fenced already; the others are one line or the task author's own text.
    """

    task_name: str
    task_text: str
    reference_block: str
    cases_block: str
    case_count: int
    tolerance: str
    target: str
    chip_block: str
    memory_block: str
    memory_note: str


@dataclass(frozen=True, slots=True)
class RepairPrompt:
    """prompts/repair: the last attempt failed; its source and what the tools said about it."""

    task_name: str
    task_text: str
    reference_block: str
    cases_block: str
    case_count: int
    tolerance: str
    target: str
    chip_block: str
    memory_block: str
    memory_note: str
    failed_stage: str
    failed_move: str
    failed_block: str
    feedback_block: str


@dataclass(frozen=True, slots=True)
class RefinePrompt:
    """prompts/refine: make the incumbent faster; its source, times per case and where they go."""

    task_name: str
    task_text: str
    reference_block: str
    cases_block: str
    case_count: int
    tolerance: str
    target: str
    chip_block: str
    memory_block: str
    memory_note: str
    incumbent_block: str
    incumbent_times_block: str
    incumbent_speedup: float
    feedback_block: str


Prompt = DraftPrompt | RepairPrompt | RefinePrompt
TEMPLATES: dict[str, type[Prompt]] = {
    "prompts/draft": DraftPrompt,
    "prompts/repair": RepairPrompt,
    "prompts/refine": RefinePrompt,
}
"""Template name -> its contract."""
