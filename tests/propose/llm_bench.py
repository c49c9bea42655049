"""A proposer wired to a scripted endpoint, for the tests of the llm proposer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kope.model import Proposal
from kope.propose.caller import Caller
from kope.propose.endpoint import Endpoint
from kope.propose.llm import LlmProposer
from kope.propose.spend import Spending
from tests.propose.scripted_endpoint import ScriptedEndpoint, Seen, Step, chunk, stream
from tests.propose.states import fenced, kernel

KEY = "sk-proj-4f9aZq81LmN0"
KERNEL = kernel()
GOOD = fenced(KERNEL)
CUT = stream([chunk({"content": "par"})], end="cut")


class Bench:
    """A proposer wired to a scripted endpoint; waits are noted, not waited."""

    def __init__(
        self, *script: Step, answer: Callable[[Seen], Step] | None = None, limit: int | None = None, **more: Any
    ) -> None:
        self.server = ScriptedEndpoint(script, answer)
        self.waits: list[float] = []
        self.spending = Spending(limit)
        self.more = more
        self.log: DictLog | None = None

    def __enter__(self) -> Bench:
        self.server.__enter__()
        self.restart()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    def restart(self) -> None:
        """A new process, as far as the proposer is concerned."""
        values = {"key": KEY, "max_tokens": 1000, "first_text_s": 5.0, "idle_s": 5.0, "usage_s": 0.2, **self.more}
        endpoint = Endpoint(base_url=self.server.url, model="m", **values)
        self.caller = Caller(endpoint, self.spending, log=self.log, sleep=self.waits.append)
        self.proposer = LlmProposer(self.caller)

    @property
    def seen(self) -> list[Seen]:
        return self.server.seen


class DictLog:
    """A call log in a dictionary, which must hold nothing that JSON cannot."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def find(self, key: str) -> Mapping[str, Any] | None:
        return json.loads(self.kept[key]) if key in self.kept else None

    def save(self, key: str, record: Mapping[str, Any]) -> None:
        self.kept[key] = json.dumps(record)


def endings(proposal: Proposal) -> list[str]:
    return [call["ending"] for call in proposal.calls]
