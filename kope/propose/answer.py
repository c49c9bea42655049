"""From replies to a Proposal: which source the prompt showed, what to say about an unusable reply, what is kept.

Shared by every proposer that sends a prompt; how it is sent is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kope.context.quote import clean, fence, head_and_tail, one_line
from kope.errors import ProposerError
from kope.model import Attempt, Proposal, State
from kope.propose.reply import ParsedReply, parse_reply
from kope.propose.stream import whole_characters
from kope.render import render

QUOTED_REPLY_LIMIT = 24_000
"""Characters of an unusable reply that are shown again."""
MISSES_IN_A_ROW = 3
"""Proposals in a row without any reply that end a run; before the first reply, one does."""


@dataclass(frozen=True, slots=True)
class UnusablePrompt:
    """prompts/unusable: why the last reply cannot be used. reply_block: the reply, fenced, "" when it stands above."""

    problem: str
    reply_block: str


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt and what it showed. base: the attempt whose source is in it, None when there is none."""

    prompt: str
    base: Attempt | None
    place: str

    @property
    def shown(self) -> str | None:
        """The source that edits apply to."""
        return self.base.candidate.source if self.base is not None and self.base.candidate is not None else None

    def read(self, text: str, *, reasoning: str = "", cut: bool = False) -> ParsedReply:
        """Read a reply to this prompt."""
        return parse_reply(text, shown=self.shown, prompt=self.prompt, reasoning=reasoning, cut=cut)


def question_of(state: State) -> Question:
    """Return the question in a state. Raises ProposerError when no prompt was assembled."""
    if state.prompt is None:
        raise ProposerError("this proposer needs a prompt and none was assembled; report this")
    place = f"{state.task.name}/{state.task.digest[:16]}/{state.seed}/{state.iteration}"
    prompt = whole_characters(state.prompt)
    return Question(prompt, _shown_attempt(state, prompt), place)


def _shown_attempt(state: State, prompt: str) -> Attempt | None:
    """Return the attempt whose source the prompt holds: the last, the incumbent, or another of this session."""
    for attempt in (state.last, state.incumbent, *reversed(state.history)):
        if attempt is not None and attempt.candidate is not None:
            source = clean(attempt.candidate.source).strip()
            if source and source in prompt:
                return attempt
    return None


def complaint(problem: str, reply: str = "", *, own: Path | None = None) -> str:
    """Return the text of the repair turn. reply: given when the answer is not part of the conversation already.

    own: a folder whose templates go before the shipped ones.
    """
    block = fence(head_and_tail(reply, QUOTED_REPLY_LIMIT), "text") if reply else ""
    return render("prompts/unusable", UnusablePrompt(one_line(problem, 600), block), own=own)


def proposal_of(
    question: Question,
    parsed: ParsedReply,
    reply: str,
    *,
    plan: Mapping[str, Any],
    tokens: int,
    calls: Sequence[Mapping[str, Any]],
    ending: str = "",
) -> Proposal:
    """Return the proposal a reply amounts to; one without a source carries the reason, led by how the call ended."""
    reason = "" if parsed.source is not None else f"{ending}: {parsed.problem}" if ending else parsed.problem
    return Proposal(
        source=parsed.source,
        move=parsed.move or _default_move(question, parsed),
        thought=parsed.thought,
        parent_id=question.base.id if question.base is not None else None,
        plan={**plan, "form": parsed.form, "marks": list(parsed.marks)},
        tokens=tokens,
        reason=one_line(reason, 600),
        reply=reply,
        calls=tuple(calls),
    )


def _default_move(question: Question, parsed: ParsedReply) -> str:
    if question.base is None:
        return "draft"
    if not question.base.outcome.ok:
        return "repair"
    return "edit" if parsed.form == "edits" else "rewrite"
