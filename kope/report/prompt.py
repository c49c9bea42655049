"""A prompt's ledger as a table, and prompts as documents (schema/context.json, ask.json, tell.json).

What is in a prompt, and why, is context's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from kope.context import Assembled, Budget
from kope.loop import Standing
from kope.memory import Ask
from kope.memory.ledger import PromptSum
from kope.model import Attempt, Verdict
from kope.report.document import attempt_document


def ledger_table(made: Assembled) -> Table:
    """Return a row per item offered to the prompt: tier, tokens, whether it is in, and why it was offered."""
    table = Table(title=f"{made.template}: tokens, {made.counted}", title_justify="left")
    for heading in ("tier", "item", "tokens", "", "why"):
        table.add_column(heading, justify="right" if heading == "tokens" else "left", overflow="fold")
    for line in made.ledger:
        table.add_row(line.tier, line.name, str(line.tokens), "in" if line.included else "left out", line.reason)
    return table


def spent_table(sums: Sequence[PromptSum]) -> Table:
    """Return a row per session and role: prompts sent, tokens by tier, tokens offered and left out, tokens charged."""
    table = Table(title="tokens of prompts", title_justify="left")
    for heading in ("session", "role", "prompts", "hot", "warm", "cold", "left out", "charged"):
        table.add_column(heading, justify="left" if heading in ("session", "role") else "right")
    for row in sums:
        figures = (row.prompts, row.hot, row.warm, row.cold, row.left_out, row.charged)
        table.add_row(row.session_id[:8], row.role, *(str(figure) for figure in figures))
    return table


def spent_document(sums: Sequence[PromptSum]) -> dict[str, Any]:
    """Return the same as a JSON-able value."""
    return {"sums": [asdict(row) for row in sums]}


def prompt_document(made: Assembled, budget: Budget) -> dict[str, Any]:
    """Return a prompt and its ledger as a JSON-able value."""
    return {
        "template": made.template,
        "tokens": made.tokens,
        "counted": made.counted,
        "budget": budget.prompt,
        "used": list(made.used),
        "ledger": [asdict(line) for line in made.ledger],
        "prompt": made.text,
    }


def ask_document(ask: Ask, made: Assembled, budget: Budget, incumbent: Attempt | None) -> dict[str, Any]:
    """Return a prompt with the id to answer it by, and the state behind it, as a JSON-able value."""
    return {
        "ask": ask.id,
        "task": ask.task_name,
        "session": ask.session_id,
        "parent": ask.parent_id,
        "incumbent": attempt_document(incumbent) if incumbent is not None else None,
        **prompt_document(made, budget),
    }


def tell_document(ask_id: str | None, attempt: Attempt, standing: Standing, next_step: str) -> dict[str, Any]:
    """Return what became of a candidate as a JSON-able value."""
    best = standing.incumbent
    return {
        "ask": ask_id,
        "attempt": attempt_document(attempt),
        "best": attempt_document(best) if best is not None else None,
        "next": next_step,
    }


def next_step(attempt: Attempt, task: str, db_words: str) -> str:
    """Return what to look at or run after a candidate was judged. task: the words that name it on a command line."""
    name, outcome = attempt.task_name, attempt.outcome
    ask = f"kope ask {task}{db_words}"
    if outcome.verdict is Verdict.FAILED:
        kinds = ", ".join(dict.fromkeys(found.kind for found in outcome.diagnostics if found.severity == "error"))
        return f"repair {kinds or outcome.stage.value}: {ask} gives the prompt for it"
    if attempt.promoted:
        return f"this is the best kernel now: kope best {task} -o {name}.asc{db_words}; {ask} goes on from it"
    seen = "the same source was judged before" if attempt.repeated else "it does not beat the best kernel by 1%"
    return f"{seen}: {ask} goes on from the best one"
