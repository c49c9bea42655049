"""A model behind an OpenAI-compatible endpoint as proposer: send the prompt, read the reply, ask once more if need be.

The prompt is assembled elsewhere. What HTTP and the server can do wrong is caller.py's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from kope.errors import ProposerError
from kope.model import Proposal, State, TokensSpent
from kope.propose.answer import MISSES_IN_A_ROW, Question, complaint, proposal_of, question_of
from kope.propose.caller import Asked, Caller
from kope.propose.endpoint import Call, Message
from kope.propose.faults import FATAL, UNREACHED, Ending
from kope.propose.gather import ROUNDS, Lookup, gathered, requests_in
from kope.propose.parallel import in_parallel
from kope.propose.reply import ParsedReply

_NEXT_STEP = {
    Ending.AUTH: "check the key (llm_api_key_env, llm_key_file)",
    Ending.QUOTA: "add credit, then run the same command again",
    Ending.CONFIG: "check llm_base_url and llm_model",
    Ending.RATE: "wait, then run the same command again",
    Ending.BAD_BODY: "check llm_base_url (most end in /v1)",
}
_MORE_ROOM = 2
"""A reply cut by the length limit is asked for again with this many times the tokens."""


class LlmProposer:
    """Asks a model for the next candidate. Thread-safe as far as its caller is; holds no key itself."""

    def __init__(
        self,
        caller: Caller,
        *,
        lookup: Lookup | None = None,
        temperatures: Sequence[float] = (),
        templates: Path | None = None,
    ) -> None:
        """lookup: answers what the model asks for by itself; None: it may not ask.

        temperatures: of the proposals for one prompt, in turn; the last is for the rest, and for prompts that explore.
        templates: a folder whose templates go before the shipped ones.
        """
        self.name = f"llm:{caller.endpoint.model}"
        self._caller = caller
        self._lookup = lookup
        self._temperatures = tuple(temperatures)
        self._templates = templates
        self._answered = False
        self._missed = 0

    def propose(self, state: State) -> Proposal:
        """Return what the model proposes; an unusable reply is a proposal without a source.

        Raises ProposerError when the endpoint refuses for good or cannot be reached, TokensSpent when the next
        call could go over the token limit, ConfigError when the extra `llm` is not installed.
        """
        return self._propose(state, 0)

    def propose_several(self, state: State, count: int) -> tuple[Proposal, ...]:
        """Ask `count` times at once. What fails in some of the calls is left out; when all fail, it is raised."""
        results = in_parallel([partial(self._propose, state, index) for index in range(count)])
        proposals = tuple(result for result in results if isinstance(result, Proposal))
        for result in results:
            if isinstance(result, BaseException) and not (
                proposals and isinstance(result, ProposerError | TokensSpent)
            ):
                raise result
        return proposals

    def _propose(self, state: State, index: int) -> Proposal:
        question = question_of(state)
        if index:
            question = replace(question, place=f"{question.place}.{index}")
        turns = _Turns(self._caller, question, self._judge, state, self._lookup, self._temperature(state, index))
        turns.templates = self._templates
        return turns.run()

    def _temperature(self, state: State, index: int) -> float | None:
        if not self._temperatures:
            return None
        return self._temperatures[-1 if state.role == "explore" else min(index, len(self._temperatures) - 1)]

    def _judge(self, asked: Asked, turns: _Turns) -> None:
        """Raise ProposerError when how a call ended is the endpoint's fault and asking on is no use."""
        ending = asked.call.ending
        if turns.taken > 1 and ending is Ending.CONFIG:
            return  # The first turn went through, so it is what this turn asked for (more room, a longer conversation).
        if asked.call.usable or ending not in FATAL | UNREACHED | {Ending.DEADLINE}:
            self._answered, self._missed = True, 0
            return
        self._missed += 1
        if ending in FATAL or (not self._answered and ending in UNREACHED) or self._missed >= MISSES_IN_A_ROW:
            self._give_up(asked.call, turns)

    def _give_up(self, call: Call, turns: _Turns) -> NoReturn:
        step = _NEXT_STEP.get(call.ending, "run the same command again when it answers")
        raise ProposerError(f"{self._caller.endpoint.shown}: {call.detail}; {step}", turns.records)


class _Turns:
    """The turns of one proposal: the prompt; what the model looks up; more room for a cut reply; one complaint."""

    def __init__(
        self,
        caller: Caller,
        question: Question,
        judge: Callable[[Asked, _Turns], None],
        state: State,
        lookup: Lookup | None,
        temperature: float | None = None,
    ) -> None:
        self.caller = caller
        self.question = question
        self.judge = judge
        self.state = state
        self.lookup = lookup
        self.temperature = temperature
        self.templates: Path | None = None
        self.used: list[str] = []
        self.records: list[Mapping[str, Any]] = []
        self.tokens = 0
        self.taken = 0

    def run(self) -> Proposal:
        """Take the turns and return the proposal."""
        room = self.caller.endpoint.max_tokens
        messages: tuple[Message, ...] = ({"role": "user", "content": self.question.prompt},)
        call, parsed = self._turn(messages, room, "1")
        messages, call, parsed = self._looked_up(messages, room, call, parsed)
        if parsed.source is None and parsed.cut:
            room *= _MORE_ROOM
            call, parsed = self._again(messages, room, "1 more room", call, parsed)
        if parsed.source is None and call.usable and not parsed.cut:
            call, parsed = self._again(self._complaint(messages, call, parsed), room, "2", call, parsed)
        return self._proposal(call, parsed)

    def _turn(self, messages: tuple[Message, ...], room: int, turn: str) -> tuple[Call, ParsedReply]:
        is_first = "." not in self.question.place.rpartition("/")[2]
        place = f"{self.question.place}/{turn}"
        asked = self.caller.ask(messages, room, place, temperature=self.temperature, is_shown=is_first)
        self.records += asked.records
        self.tokens += asked.tokens
        self.taken += 1
        self.judge(asked, self)
        call = asked.call
        if not call.usable:
            return call, ParsedReply(None, problem=call.detail or call.ending.value)
        cut = call.ending is Ending.LENGTH
        return call, self.question.read(call.content, reasoning=call.reasoning, cut=cut)

    def _looked_up(
        self, messages: tuple[Message, ...], room: int, call: Call, parsed: ParsedReply
    ) -> tuple[tuple[Message, ...], Call, ParsedReply]:
        """Answer what the model asks for until it answers itself; the conversation keeps every turn."""
        for taken in range(1, ROUNDS + 1):
            asked = requests_in(call.content) if self.lookup is not None and parsed.source is None else ()
            if not asked or self.lookup is None:
                break
            found = gathered(asked, self.state, self.lookup, ROUNDS - taken, own=self.templates)
            longer = (*messages, _said(call), {"role": "user", "content": found.text})
            try:
                call, parsed = self._turn(longer, room, f"1 looked up {taken}")
            except TokensSpent:
                break
            self.used += found.used
            messages = longer
        return messages, call, parsed

    def _again(
        self, messages: tuple[Message, ...], room: int, turn: str, call: Call, parsed: ParsedReply
    ) -> tuple[Call, ParsedReply]:
        """Take a further turn; when it brings no reply, or there are no tokens left for it, the one before stands."""
        try:
            new_call, new_parsed = self._turn(messages, room, turn)
        except TokensSpent:
            return call, parsed
        return (new_call, new_parsed) if new_call.usable else (call, parsed)

    def _complaint(self, messages: tuple[Message, ...], call: Call, parsed: ParsedReply) -> tuple[Message, ...]:
        said = complaint(parsed.problem, own=self.templates)
        if not call.content.strip():
            *before, asked = messages
            return (*before, {**asked, "content": f"{asked['content']}\n\n{said}"})
        return (*messages, _said(call), {"role": "user", "content": said})

    def _proposal(self, call: Call, parsed: ParsedReply) -> Proposal:
        ending = call.ending.value if call.ending is not Ending.OK else ""
        plan = {"model": call.answered_model or self.caller.endpoint.model}
        made = proposal_of(
            self.question, parsed, call.content, plan=plan, tokens=self.tokens, calls=self.records, ending=ending
        )
        return replace(made, used=tuple(dict.fromkeys(self.used)))


def _said(call: Call) -> Message:
    """Return a reply as a turn of the conversation."""
    said: Message = {"role": "assistant", "content": call.content}
    return {**said, "reasoning_content": call.reasoning} if call.reasoning else said
