"""Ask one endpoint until it answers: tries again where that can help, learns its dialect, charges every call.

How a single call ends is exchange.py's business; what a reply means is the proposer's.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from kope import resources
from kope.context.count import estimate_tokens
from kope.errors import ConfigError
from kope.model import TokensSpent
from kope.propose.endpoint import Call, Dialect, Endpoint, Message, request_body
from kope.propose.exchange import Cancelled, OnText, send
from kope.propose.faults import Ending, tries
from kope.propose.spend import Price, Spending, parts_of_usage, tokens_of_usage

if TYPE_CHECKING:
    from tenacity import RetryCallState

Record = dict[str, Any]
WAIT_CAP_S = 120.0
"""A server that asks for a longer wait gets none: the run stops and says so."""


class CallLog(Protocol):
    """Where calls are kept as soon as they end, so that a resumed run does not pay for a finished one again."""

    def find(self, key: str) -> Mapping[str, Any] | None:
        """Return the record of the call made under this key, None when there is none."""

    def save(self, key: str, record: Mapping[str, Any]) -> None:
        """Keep a record. It holds no key and no characters that a database refuses."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The last call for a question and the records of all of them; `tokens` is what they were charged together."""

    call: Call
    records: tuple[Record, ...]
    tokens: int


class Caller:
    """Asks one endpoint. Remembers what it learned about it, and counts into `spending`."""

    def __init__(
        self,
        endpoint: Endpoint,
        spending: Spending | None = None,
        *,
        log: CallLog | None = None,
        on_text: OnText | None = None,
        question_s: float = 3_600.0,
        count: Callable[[str], int] = estimate_tokens,
        price: Price | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """question_s: for one question with all its tries and waits. count: tokens of a text, never too few.

        price: of the endpoint's model, None when not known.
        """
        self.endpoint = endpoint
        self.spending = spending or Spending()
        self.dialect = Dialect()
        self.log = log
        self._on_text = on_text
        self._question_s = question_s
        self.count = count
        self.price = price or Price()
        self._sleep = sleep
        self._flipped: set[str] = set()

    def ask(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        place: str,
        *,
        temperature: float | None = None,
        is_shown: bool = True,
    ) -> Asked:
        """Put a question and return how it ended. place: names the question within the run, for the log.

        temperature: None takes the endpoint's. is_shown: whether its text is shown as it comes. Raises TokensSpent (or
        CostSpent, TimeSpent) when the next call could go over a limit, ConfigError when a library is missing, Cancelled
        (a KeyboardInterrupt) on Ctrl-C.
        """
        try:
            import tenacity
        except ImportError:
            raise ConfigError(f"the llm proposer needs tenacity: {resources.install('llm')}") from None
        question = _Question(self, messages, max_tokens, place, temperature, is_shown)
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda call: tries(call.ending, call.status) > 1),
            wait=_Wait(tenacity.wait_exponential_jitter(initial=1.0, max=30.0, jitter=0.5)),
            stop=_Stop(time.monotonic() + min(self._question_s, self.spending.seconds_left)),
            sleep=self._sleep,
            before_sleep=question.note_wait,
            retry_error_callback=_last,
        )
        try:
            retrying(question.once)
        except TokensSpent:
            if question.last is None:
                raise
        assert question.last is not None
        return Asked(question.last, tuple(question.records), question.tokens)

    def send(
        self, messages: Sequence[Message], max_tokens: int, temperature: float | None = None, *, is_shown: bool = True
    ) -> Call:
        """Send one request in the dialect known so far, for no longer than there is time."""
        call_s = min(self.endpoint.call_s, max(self.spending.seconds_left, 0.0))
        temperature = temperature if temperature is not None else self.endpoint.temperature
        endpoint = replace(self.endpoint, temperature=temperature, call_s=call_s)
        body = request_body(endpoint, self.dialect, messages, max_tokens)
        return send(endpoint, body, self._on_text if is_shown else None)

    def learn(self, call: Call) -> bool:
        """Change the dialect when a refusal names a field we can say differently; each changes once only."""
        if call.ending is not Ending.CONFIG or call.status not in (400, 422):
            return False
        said = f"{call.detail} {call.error}"
        now = self.dialect
        options = {
            "stream_options": replace(now, send_stream_options=False),
            "max_completion_tokens": replace(now, token_field=_other(now.token_field)),
            "temperature": replace(now, send_temperature=False),
            "reasoning_content": replace(now, echo_reasoning=not now.echo_reasoning),
        }
        for name, learned in options.items():
            if name in said and name not in self._flipped and learned != now:
                self._flipped.add(name)
                self.dialect = learned
                return True
        return False


def _other(token_field: str) -> str:
    return "max_tokens" if token_field == "max_completion_tokens" else "max_completion_tokens"


class _Question:
    """One question on its way: its tries, their records and what they cost."""

    def __init__(
        self,
        caller: Caller,
        messages: Sequence[Message],
        max_tokens: int,
        place: str,
        temperature: float | None,
        is_shown: bool,
    ) -> None:
        self.caller = caller
        self.messages = messages
        self.max_tokens = max_tokens
        self.place = place
        self.temperature = temperature
        self.is_shown = is_shown
        said = "".join(message["content"] for message in messages)
        self.prompt_bytes = len(said.encode("utf-8"))
        self.prompt_tokens = caller.count(said)
        self.records: list[Record] = []
        self.tokens = 0
        self.last: Call | None = None
        self.replies = 0

    def once(self) -> Call:
        """Make one try, again at once when the endpoint wants it said differently."""
        call = self._from_log() or self._sent()
        while self.caller.learn(call):
            call = self._sent()
        self.replies += call.ending in _REPLIES
        return call

    def note_wait(self, state: RetryCallState) -> None:
        """Write the wait before the next try into the record of the last."""
        self.records[-1]["wait_s"] = round(state.upcoming_sleep, 3)

    def _from_log(self) -> Call | None:
        kept = self.caller.log.find(self._key()) if self.caller.log is not None else None
        if kept is None:
            return None
        self.last = call_of_record(kept)
        tokens = int(kept["charged_tokens"])
        self.caller.spending.settle(0, tokens, 0.0, float(kept.get("charged_cost", 0.0)))
        self._note({**kept, "from_log": True}, tokens)
        return self.last

    def _sent(self) -> Call:
        spending = self.caller.spending
        worst, worst_cost = self.prompt_tokens + self.max_tokens, self.price.of(self.prompt_tokens, self.max_tokens)
        spending.reserve(worst, worst_cost)
        try:
            sent = self.caller.send(self.messages, self.max_tokens, self.temperature, is_shown=self.is_shown)
        except Cancelled as cancelled:
            tokens, cost, _ = self._charge(cancelled.call)
            spending.settle(worst, tokens, worst_cost, cost)
            raise
        except BaseException:
            spending.settle(worst, 0, worst_cost)
            raise
        self.last = sent
        tokens, cost, estimated = self._charge(sent)
        spending.settle(worst, tokens, worst_cost, cost)
        record = record_of_call(self.last, self.caller.endpoint)
        record |= {"place": self.place, "try": len(self.records) + 1, "prompt_bytes": self.prompt_bytes}
        record |= {"charged_tokens": tokens, "charged_cost": cost, "charge_estimated": estimated}
        self._note(record, tokens)
        if self.caller.log is not None and self.last.ending in _REPLIES:
            self.caller.log.save(self._key(), record)
        return self.last

    def _note(self, record: Record, tokens: int) -> None:
        self.records.append(record)
        self.tokens += tokens

    def _charge(self, call: Call) -> tuple[int, float, bool]:
        """Return the tokens and the cost of a call, and whether that is an estimate; nothing when it was refused."""
        counted = tokens_of_usage(call.usage)
        if counted is not None and call.usage is not None:
            return counted, self.price.of(*parts_of_usage(call.usage)), False
        if call.status != 200:
            return 0, 0.0, False
        reply = self.caller.count(call.content + call.reasoning)
        return self.prompt_tokens + reply, self.price.of(self.prompt_tokens, reply), True

    @property
    def price(self) -> Price:
        """The price of what the caller calls."""
        return self.caller.price

    def _key(self) -> str:
        endpoint = self.caller.endpoint
        said = [endpoint.shown, endpoint.model, list(map(dict, self.messages)), self.max_tokens, self.place]
        return hashlib.sha256(json.dumps([*said, self.replies], sort_keys=True).encode("ascii")).hexdigest()


_REPLIES = frozenset({Ending.OK, Ending.LENGTH, Ending.EMPTY, Ending.REFUSAL, Ending.CONTENT_FILTER})
"""Endings of calls that were answered to the end; the others are made anew by a resumed run."""


class _Wait:
    """What the server asks for, else growing waits with jitter."""

    def __init__(self, backoff: Callable[[RetryCallState], float]) -> None:
        self.backoff = backoff

    def __call__(self, state: RetryCallState) -> float:
        asked = _last(state).retry_after_s
        return self.backoff(state) if asked is None else asked


class _Stop:
    """Enough tries for how the last one ended, or a wait that is too long."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def __call__(self, state: RetryCallState) -> bool:
        call = _last(state)
        wait = state.upcoming_sleep
        if state.attempt_number >= tries(call.ending, call.status) or wait > WAIT_CAP_S:
            return True
        return time.monotonic() + wait > self.deadline


def _last(state: RetryCallState) -> Call:
    assert state.outcome is not None
    call: Call = state.outcome.result()
    return call


def record_of_call(call: Call, endpoint: Endpoint) -> Record:
    """Return a call as a JSON-able record; of the address only the host, of the key nothing."""
    record = {field.name: getattr(call, field.name) for field in fields(call)}
    record |= {"ending": call.ending.value, "params": dict(call.params)}
    record |= {"usage": dict(call.usage) if call.usage is not None else None}
    return record | {"host": urlsplit(endpoint.shown).netloc, "model": endpoint.model}


def call_of_record(record: Mapping[str, Any]) -> Call:
    """Return the call that `record_of_call` made a record of."""
    known = {field.name: record[field.name] for field in fields(Call) if field.name in record}
    return Call(**{**known, "ending": Ending(record["ending"])})
