"""Any program as proposer: the prompt on its standard input or in a file, the answer on standard output or in a file.

The program is the user's own: it gets their environment and the network, but a fresh folder, a time limit and nothing
of KOPE's. Reading the reply is reply.py's business.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kope import process
from kope.context.count import estimate_tokens
from kope.context.quote import clean, head_and_tail, one_line
from kope.errors import ConfigError, ProposerError
from kope.model import Proposal, State, TokensSpent
from kope.propose.answer import MISSES_IN_A_ROW, Question, complaint, proposal_of, question_of
from kope.propose.caller import CallLog, Record
from kope.propose.reply import ParsedReply
from kope.propose.secret import Redactor, redact_argv
from kope.propose.spend import Spending, tokens_of_usage

OUTPUT_LIMIT_BYTES = 8 << 20
_PLACEHOLDER = re.compile(r"\{(prompt_file|reply_file|model)\}")
_FILE_SUFFIXES = frozenset({".asc", ".cpp", ".cc", ".cxx", ".md", ".txt"})
_FILE_LIMIT_BYTES = 1 << 20
_FILE_COUNT_LIMIT = 10_000
_STDERR_LIMIT = 2_000


@dataclass(frozen=True, slots=True)
class Command:
    """A command line. {prompt_file}, {reply_file} and {model} in its words are filled in.

    Without {prompt_file} the prompt comes on standard input, without {reply_file} the answer is on standard output.
    """

    argv: tuple[str, ...]
    model: str = ""
    time_limit_s: float = 1_800.0
    reply_tokens: int = 8_192

    def __post_init__(self) -> None:
        """Raise ConfigError when there is no program, or a {model} to put in and none is named."""
        if not self.argv:
            raise ConfigError("the command proposer has no command; give --command 'PROGRAM ...'")
        if any("{model}" in word for word in self.argv) and not self.model:
            raise ConfigError("the command has {model} in it and no model is named; give --model")

    def reads_file(self, name: str) -> bool:
        """Whether a placeholder occurs."""
        return any(f"{{{name}}}" in word for word in self.argv)

    def filled(self, prompt_file: Path, reply_file: Path) -> list[str]:
        """Return the words with placeholders filled; other braces stay."""
        values = {"prompt_file": str(prompt_file), "reply_file": str(reply_file), "model": self.model}
        return [_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in self.argv]


@dataclass(frozen=True, slots=True)
class Answered:
    """What a run of the program brought: its reply, files it wrote, and why it counts as failed ("": it does not)."""

    reply: str
    files: Mapping[str, str]
    failure: str
    timed_out: bool = False


class CommandProposer:
    """Runs a program for every proposal, and once more with the reason when its answer cannot be used."""

    def __init__(
        self,
        command: Command,
        spending: Spending | None = None,
        *,
        log: CallLog | None = None,
        templates: Path | None = None,
    ) -> None:
        """templates: a folder whose templates go before the shipped ones."""
        program = Path(command.argv[0]).name
        self.name = f"command:{program}:{command.model}" if command.model else f"command:{program}"
        self._command = command
        self._spending = spending or Spending()
        self._log = log
        self._templates = templates
        self._answered = False
        self._missed = 0

    def propose(self, state: State) -> Proposal:
        """Return what the program proposes.

        Raises ToolMissing when it is not installed, ProposerError when it fails the first time or again and again,
        TokensSpent when the next run could go over the token limit.
        """
        question = question_of(state)
        records: list[Record] = []
        reply, parsed = self._turn(question, question.prompt, "1", records)
        if parsed.source is None and reply.strip():
            prompt = f"{question.prompt}\n\n{complaint(parsed.problem, reply, own=self._templates)}"
            try:
                again, reparsed = self._turn(question, prompt, "2", records)
                if again.strip():
                    reply, parsed = again, reparsed
            except TokensSpent:
                pass
        tokens = sum(int(record["charged_tokens"]) for record in records)
        plan = {"command": Path(self._command.argv[0]).name, "model": self._command.model}
        return proposal_of(question, parsed, reply, plan=plan, tokens=tokens, calls=records)

    def _turn(self, question: Question, prompt: str, turn: str, records: list[Record]) -> tuple[str, ParsedReply]:
        answered = self._ask(prompt, f"{question.place}/{turn}", records)
        parsed = question.read(answered.reply)
        if parsed.source is None:
            parsed = _from_files(question, answered.files) or parsed
        if parsed.source is not None and answered.failure:
            parsed = replace(parsed, marks=(*parsed.marks, answered.failure))
        self._judge(parsed, answered, records)
        if parsed.source is None and answered.failure:
            return "", ParsedReply(None, problem=answered.failure)
        return answered.reply, parsed

    def _judge(self, parsed: ParsedReply, answered: Answered, records: Sequence[Record]) -> None:
        """Raise ProposerError when the program does not work, as opposed to answering badly."""
        if parsed.source is not None or not answered.failure:
            self._answered, self._missed = True, 0
            return
        self._missed += 1
        if self._missed >= MISSES_IN_A_ROW or not (self._answered or answered.timed_out):
            said = one_line(str(records[-1]["stderr"]), 300)
            said = f": {said}" if said else ""
            name = Path(self._command.argv[0]).name
            raise ProposerError(f"{name}: {answered.failure}{said}; try the command by hand", records)

    def _ask(self, prompt: str, place: str, records: list[Record]) -> Answered:
        key = hashlib.sha256(json.dumps([self._command.argv, prompt, place]).encode("ascii")).hexdigest()
        kept = self._log.find(key) if self._log is not None else None
        if kept is not None:
            self._spending.settle(0, int(kept["charged_tokens"]), 0.0, float(kept.get("charged_cost", 0.0)))
            records.append({**kept, "from_log": True})
            return Answered(kept["reply"], kept["files"], kept["failure"])
        worst = estimate_tokens(prompt) + self._command.reply_tokens
        self._spending.reserve(worst)
        charged, cost = 0, 0.0
        try:
            answered, record = self._run(prompt)
            charged, cost = int(record["charged_tokens"]), float(record["charged_cost"])
        finally:
            self._spending.settle(worst, charged, 0.0, cost)
        records.append({**record, "place": place})
        if self._log is not None and not answered.failure:
            self._log.save(key, records[-1])
        return answered

    def _run(self, prompt: str) -> tuple[Answered, Record]:
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        with tempfile.TemporaryDirectory(prefix="kope-command-") as name:
            folder = Path(name)
            prompt_file, reply_file = folder / "prompt.md", folder / "reply.md"
            prompt_file.write_text(prompt, encoding="utf-8")
            done = process.run(
                self._command.filled(prompt_file, reply_file),
                cwd=folder,
                timeout_s=min(self._command.time_limit_s, self._spending.seconds_left),
                stdin=None if self._command.reads_file("prompt_file") else prompt.encode("utf-8"),
                output_limit_bytes=OUTPUT_LIMIT_BYTES,
            )
            in_file = self._command.reads_file("reply_file")
            reply = _read(reply_file) if in_file else clean(done.stdout)
            files = _written(folder, {prompt_file, reply_file})
        failure = self._failure(done, reply)
        usage = _usage(done.stdout)
        counted = tokens_of_usage(usage)
        record: Record = {
            "started_at": started_at,
            "argv": redact_argv(self._command.argv),
            "returncode": done.returncode,
            "total_s": round(done.wall_s, 3),
            "failure": failure,
            "reply": reply,
            "files": files,
            "stderr": Redactor("").text(head_and_tail(clean(done.stderr), _STDERR_LIMIT)),
            "usage": usage,
            "charged_tokens": counted if counted is not None else estimate_tokens(prompt) + estimate_tokens(reply),
            "charged_cost": _cost(done.stdout),
            "charge_estimated": counted is None,
        }
        return Answered(reply, files, failure, done.timed_out), record

    def _failure(self, done: process.Completed, reply: str) -> str:
        if done.timed_out:
            return f"no answer within {self._command.time_limit_s:g} s"
        if done.flooded or done.truncated:
            return f"it printed more than {OUTPUT_LIMIT_BYTES} bytes"
        if done.returncode < 0:
            return f"killed by signal {-done.returncode}"
        if done.returncode > 0:
            return f"exit status {done.returncode}"
        return "" if reply.strip() or not self._command.reads_file("reply_file") else "it wrote no reply file"


def _read(path: Path) -> str:
    """Return a text file, "" when it is missing or over the limit."""
    try:
        if path.stat().st_size > OUTPUT_LIMIT_BYTES:
            return ""
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _written(folder: Path, ours: set[Path]) -> dict[str, str]:
    """Return the sources that the program left in its folder: coding agents write files rather than print them."""
    found: dict[str, str] = {}
    for path in sorted(itertools.islice(folder.rglob("*"), _FILE_COUNT_LIMIT)):
        if path in ours or path.suffix not in _FILE_SUFFIXES or path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size <= _FILE_LIMIT_BYTES and "kope_entry" in (text := _read(path)):
            found[str(path.relative_to(folder))] = text
    return found


def _from_files(question: Question, files: Mapping[str, str]) -> ParsedReply | None:
    """Return the kernel in the one file that holds one."""
    read = {name: question.read(text) for name, text in files.items()}
    usable = {name: parsed for name, parsed in read.items() if parsed.source is not None}
    if len(usable) != 1:
        return None
    [(name, parsed)] = usable.items()
    return replace(parsed, thought="", marks=(f"from the file {name}",))


def _usage(stdout: str) -> Mapping[str, Any] | None:
    """Return the usage figures of a program that prints its result as one JSON object."""
    usage = _result(stdout).get("usage")
    return usage if isinstance(usage, dict) else None


def _cost(stdout: str) -> float:
    """Return what such a program says the answer cost, 0 when it says nothing."""
    said = _result(stdout).get("total_cost_usd")
    return max(float(said), 0.0) if isinstance(said, int | float) and not isinstance(said, bool) else 0.0


def _result(stdout: str) -> Mapping[str, Any]:
    if not stdout.lstrip().startswith("{"):
        return {}
    try:
        value = json.loads(stdout)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
