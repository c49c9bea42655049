"""Progress of a run while it works: a live line on a terminal, plain lines otherwise, nothing when quiet.

What it shows comes from the loop's events; it never looks into the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.status import Status
from rich.text import Text

from kope.loop import Stop, TaskResult
from kope.model import Attempt, Task
from kope.report.table import attempt_line

_TAIL = 60
"""Characters of a reply that are shown while it comes."""
_STOPPED = {
    Stop.ITERATIONS: "the number of attempts asked for",
    Stop.CONVERGED: "nothing left to try",
    Stop.PATIENCE: "no improvement for the number of attempts asked for",
    Stop.TOKENS: "the token limit",
    Stop.COST: "the cost limit",
    Stop.TIME: "the time limit",
}


class Silent:
    """Says nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def reply(self, text: str) -> None:
        """Nothing."""

    def begin(self, task: Task, session_id: str, earlier: Sequence[Attempt]) -> None:
        """Nothing."""

    def trying(self, task: Task, iteration: int, move: str) -> None:
        """Nothing."""

    def attempt(self, task: Task, attempt: Attempt) -> None:
        """Nothing."""

    def end(self, result: TaskResult) -> None:
        """Nothing."""


class Lines:
    """One line per attempt; on a terminal also a moving one that says what is being tried now."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = console.status("") if console.is_terminal else None
        self._reply = ""
        self._noted = False

    def __enter__(self) -> Lines:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def note(self, text: str) -> None:
        """Say what slow one-time step is going on; in plain lines only that it began."""
        if self._status is not None:
            self._status.update(text)
        elif not self._noted:
            self._say(text)
        self._noted = True

    def reply(self, text: str) -> None:
        """Show the end of a model's reply while it comes."""
        if self._status is not None:
            self._reply += text
            shown = " ".join(self._reply[-4 * _TAIL :].split())[-_TAIL:]
            self._status.update(Text(f"model, {len(self._reply)} characters: {shown}"))

    def begin(self, task: Task, session_id: str, earlier: Sequence[Attempt]) -> None:
        """Say which task starts, and what an interrupted run already did."""
        self._say(f"{task.name}: {len(task.cases)} cases, session {session_id}")
        if earlier:
            self._say(f"going on after attempt {earlier[-1].iteration}:")
            for attempt in earlier:
                self.attempt(task, attempt)

    def trying(self, task: Task, iteration: int, move: str) -> None:
        """Show what is compiled and run now."""
        self._reply = ""
        if self._status is not None:
            self._status.update(f"{task.name}, attempt {iteration}: {move}")

    def attempt(self, task: Task, attempt: Attempt) -> None:
        """Print a finished attempt."""
        self._say(attempt_line(attempt, len(task.cases)))

    def end(self, result: TaskResult) -> None:
        """Say why work on the task stopped."""
        count = len(result.standing.history)
        noun = "attempt" if count == 1 else "attempts"
        self._say(f"{result.task.name}: stopped after {count} {noun}: {_STOPPED[result.stop]}")

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
