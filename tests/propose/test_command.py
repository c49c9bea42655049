"""The command proposer: how prompt and answer travel, what a bad program costs, that nothing is left behind."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kope.errors import ConfigError, ProposerError, ToolMissing
from kope.model import TokensSpent
from kope.propose.command import Command, CommandProposer
from kope.propose.secret import HIDDEN
from kope.propose.spend import Spending
from tests.propose.states import VERIFIED, attempt, fenced, kernel, showing, state

KERNEL = kernel()
GOOD = fenced(KERNEL)


def program(folder: Path, body: str) -> str:
    """A program in Python; GOOD and KERNEL are defined in it."""
    path = folder / "program.py"
    path.write_text(f"import os, sys, time\nGOOD = {GOOD!r}\nKERNEL = {KERNEL!r}\n{body}\n")
    return str(path)


def proposer(path: str, *words: str, spending: Spending | None = None, log: Any = None, **more: Any) -> CommandProposer:
    return CommandProposer(Command((sys.executable, path, *words), **more), spending, log=log)


WAYS = {
    "standard input, standard output": ("sys.stdout.write(GOOD if sys.stdin.read() == 'Write it.' else '')", ()),
    "prompt file": ("sys.stdout.write(GOOD if open(sys.argv[1]).read() == 'Write it.' else '')", ("{prompt_file}",)),
    "reply file": (
        "assert sys.stdin.read() == 'Write it.'\nprint('noise')\nopen(sys.argv[1], 'w').write(GOOD)",
        ("{reply_file}",),
    ),
    "both in one word": (
        "one, two = sys.argv[1].split(',')\nopen(two, 'w').write(GOOD if open(one).read() == 'Write it.' else '')",
        ("{prompt_file},{reply_file}",),
    ),
    "colours": (r"print('\x1b[1mHere:\x1b[0m\r\n' + GOOD)", ()),
    "a whole file without a fence": ("print(KERNEL)", ()),
    "one JSON object": ("import json\nprint(json.dumps({'type': 'result', 'result': GOOD, 'session': 'x'}))", ()),
    "a file in its folder": ("open('kernel.asc', 'w').write(KERNEL)\nprint('I wrote kernel.asc.')", ()),
    "a file in a folder of its own": ("os.mkdir('src')\nopen('src/k.cpp', 'w').write(KERNEL)", ()),
    "usable, then a bad exit": ("sys.stdout.write(GOOD)\nsys.stdout.flush()\nsys.exit(3)", ()),
}
MARKS = {
    "a whole file without a fence": ["no fence"],
    "a file in its folder": ["from the file kernel.asc"],
    "a file in a folder of its own": ["from the file src/k.cpp"],
    "usable, then a bad exit": ["exit status 3"],
}


@pytest.mark.parametrize("name", WAYS)
def test_answer_is_read_wherever_it_comes(name: str, tmp_path: Path) -> None:
    body, words = WAYS[name]
    got = proposer(program(tmp_path, body), *words).propose(state())
    assert got.source == KERNEL, got.reason
    assert got.plan["marks"] == MARKS.get(name, [])
    assert len(got.calls) == 1


def test_edits_apply_to_what_the_prompt_shows(tmp_path: Path) -> None:
    body = (
        "print('<<<<<<< SEARCH\\nconstexpr int TILE = 1024;\\n=======\\nconstexpr int TILE = 4096;\\n>>>>>>> REPLACE')"
    )
    best = attempt(KERNEL, VERIFIED)
    got = proposer(program(tmp_path, body)).propose(state(showing(KERNEL), incumbent=best))
    assert (got.source, got.move, got.parent_id) == (kernel(4096), "edit", "a1")


def test_braces_that_are_no_placeholders_stay(tmp_path: Path) -> None:
    body = "sys.stdout.write(GOOD if sys.argv[1:] == ['{x}', '{}', 'big-{'] else '')"
    got = proposer(program(tmp_path, body), "{x}", "{}", "{model}-{", model="big").propose(state())
    assert got.source == KERNEL


def test_prompt_and_reply_of_any_text_travel_whole(tmp_path: Path) -> None:
    prompt = "é 中文 \u2028 \U0001f600 `$(rm -rf)` %s {reply_file} " + "x" * 300_000
    body = "data = sys.stdin.buffer.read().decode()\nprint(GOOD + '// ' + str(len(data)) + data[:9])"
    got = proposer(program(tmp_path, body)).propose(state(prompt))
    assert got.reply.endswith(f"// {len(prompt)}{prompt[:9]}\n")


def test_unusable_answer_is_quoted_back_once(tmp_path: Path) -> None:
    body = "sys.stdout.write(GOOD if 'That answer cannot be used' in sys.stdin.read() else 'I would use tiles.')"
    got = proposer(program(tmp_path, body)).propose(state())
    assert (got.source, len(got.calls)) == (KERNEL, 2)
    body = "text = sys.stdin.read()\nprint('No ' + str(text.count('Write it.')) + str(text.count('No 10')))"
    got = proposer(program(tmp_path, body)).propose(state())
    assert (got.source, got.reason) == (None, "the reply holds no code block; it says: No 12")
    assert (got.reply, len(got.calls)) == ("No 12\n", 2)


def test_empty_answer_is_an_outcome(tmp_path: Path) -> None:
    got = proposer(program(tmp_path, "pass")).propose(state())
    assert (got.source, got.reason, len(got.calls)) == (None, "the reply is empty", 1)


# --- programs that do not work ----------------------------------------------------------------------------------------


def test_missing_program_is_said_at_once() -> None:
    with pytest.raises(ToolMissing, match="no-such-program is not installed"):
        CommandProposer(Command(("no-such-program",))).propose(state())


def test_program_that_fails_the_first_time_ends_the_run_with_its_own_words(tmp_path: Path) -> None:
    broken = proposer(program(tmp_path, "sys.exit('not logged in: run agent login')"))
    with pytest.raises(ProposerError) as raised:
        broken.propose(state())
    name = Path(sys.executable).name
    assert str(raised.value) == f"{name}: exit status 1: not logged in: run agent login; try the command by hand"
    assert [call["returncode"] for call in raised.value.calls] == [1]


def test_reply_file_that_is_not_written_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ProposerError, match="it wrote no reply file; try the command by hand"):
        proposer(program(tmp_path, "print(GOOD)"), "{reply_file}").propose(state())


def test_failures_after_a_success_are_survived_twice(tmp_path: Path) -> None:
    body = f"path = {str(tmp_path / 'count')!r}\nn = int(open(path).read()) if os.path.exists(path) else 0\n"
    body += "open(path, 'w').write(str(n + 1))\nsys.exit(1) if n else print(GOOD)"
    flaky = proposer(program(tmp_path, body))
    assert flaky.propose(state()).source == KERNEL
    for _ in range(2):
        got = flaky.propose(state())
        assert (got.source, got.reason) == (None, "exit status 1")
    with pytest.raises(ProposerError, match="exit status 1"):
        flaky.propose(state())


def test_hang_is_an_outcome_and_leaves_no_process(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    body = (
        f"if not os.fork():\n    time.sleep(60)\nopen({str(pids)!r}, 'a').write(str(os.getpid()) + ' ')\ntime.sleep(60)"
    )
    got = proposer(program(tmp_path, body), time_limit_s=1.0).propose(state())
    assert (got.source, got.reason, len(got.calls)) == (None, "no answer within 1 s", 1)
    for pid in pids.read_text().split():
        assert not Path(f"/proc/{pid}").exists()


def test_flood_is_a_failure_not_a_full_memory(tmp_path: Path) -> None:
    with pytest.raises(ProposerError, match="it printed more than 8388608 bytes"):
        proposer(program(tmp_path, "sys.stdout.write('x' * (9 << 20))")).propose(state())


def test_signal_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProposerError, match="killed by signal 9"):
        proposer(program(tmp_path, "os.kill(os.getpid(), 9)")).propose(state())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"argv": ()}, "the command proposer has no command; give --command 'PROGRAM ...'"),
        ({"argv": ("a", "-m", "{model}")}, "the command has {model} in it and no model is named; give --model"),
    ],
)
def test_command_that_cannot_run_is_a_setting(command: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Command(**command)
    assert str(raised.value) == said


# --- what is kept ---------------------------------------------------------------------------------------------------


def test_its_folder_is_fresh_and_gone_afterwards(tmp_path: Path) -> None:
    cwd = str(tmp_path / "cwd")
    body = f"open({cwd!r}, 'w').write(os.getcwd() + ' ' + ','.join(sorted(os.listdir('.'))))\nprint(GOOD)"
    proposer(program(tmp_path, body)).propose(state())
    folder, _, listing = (tmp_path / "cwd").read_text().partition(" ")
    assert listing == "prompt.md"
    assert not os.path.exists(folder)
    assert folder != os.getcwd()


def test_record_tells_what_ran_and_hides_secrets(tmp_path: Path) -> None:
    path = program(tmp_path, "print(GOOD)\nsys.stderr.write('using key sk-proj-abcdef123456\\n')")
    got = proposer(path, "--api-key", "abc123", "--token=def456").propose(state())
    [record] = got.calls
    assert record["argv"] == [sys.executable, path, "--api-key", HIDDEN, f"--token={HIDDEN}"]
    assert (record["returncode"], record["failure"], record["place"]) == (0, "", f"double/{'d' * 16}/0/1/1")
    assert record["stderr"] == f"using key {HIDDEN}\n"
    shown = json.dumps(record) + repr(got)
    assert "abc123" not in shown.replace("sk-proj", "")
    assert "def456" not in shown


def test_tokens_are_estimated_unless_the_program_says(tmp_path: Path) -> None:
    got = proposer(program(tmp_path, "print(GOOD)")).propose(state())
    assert got.calls[0]["charge_estimated"] is True
    assert len(GOOD) / 6 < got.tokens < len(GOOD)
    body = "import json\nprint(json.dumps({'result': GOOD, 'usage': {'input_tokens': 5000, 'output_tokens': 700}}))"
    spending = Spending()
    got = proposer(program(tmp_path, body), spending=spending).propose(state())
    assert (got.tokens, got.calls[0]["charge_estimated"], spending.spent) == (5700, False, 5700)


def test_token_limit_stops_before_the_run_that_could_break_it(tmp_path: Path) -> None:
    spending = Spending(9_000)
    limited = proposer(
        program(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'a').write('x')\nprint(GOOD)"), spending=spending
    )
    with pytest.raises(TokensSpent, match="token limit"):
        for _ in range(100):
            limited.propose(state())
    runs = len((tmp_path / "ran").read_text())
    assert 0 < runs < 100
    assert 9_000 - 8_192 - 200 < spending.spent <= 9_000


class DictLog:
    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def find(self, key: str) -> Mapping[str, Any] | None:
        return json.loads(self.kept[key]) if key in self.kept else None

    def save(self, key: str, record: Mapping[str, Any]) -> None:
        self.kept[key] = json.dumps(record)


def test_finished_run_is_not_repeated_after_a_restart(tmp_path: Path) -> None:
    path = program(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'a').write('x')\nprint(GOOD)")
    log = DictLog()
    before = proposer(path, log=log).propose(state())
    after = proposer(path, log=log).propose(state())
    assert (before.source, after.source, after.tokens) == (KERNEL, KERNEL, before.tokens)
    assert (tmp_path / "ran").read_text() == "x"
    proposer(path, log=log).propose(state(incumbent=attempt(KERNEL, VERIFIED)))
    assert (tmp_path / "ran").read_text() == "xx"


def test_failed_run_is_repeated_after_a_restart(tmp_path: Path) -> None:
    log = DictLog()
    with pytest.raises(ProposerError):
        proposer(program(tmp_path, "sys.exit(1)"), log=log).propose(state())
    assert log.kept == {}


def test_name_says_program_and_model() -> None:
    assert CommandProposer(Command(tuple(shlex.split("/usr/bin/llm -m x")))).name == "command:llm"
    assert CommandProposer(Command(("llm", "-m", "{model}"), model="x")).name == "command:llm:x"
