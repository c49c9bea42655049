"""`kope optimize` with a model, from the shell to the twin and the database: faults, keys, interruption, resuming."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kope.memory import Store
from kope.model import Attempt
from tests.propose.scripted_endpoint import ScriptedEndpoint, Seen, Step, chunk, error, reply, stream

KEY = "sk-proj-4f9aZq81LmN0"
KERNEL = (Path(__file__).parents[1] / "target" / "kernels" / "exp.asc").read_text()
TOML = """
text = "y = e ** x"
inputs = { x = {} }
outputs = { y = "same:x" }
cases = [{ dtype = "float32", shape = [1025] }, { dtype = "float16", shape = [40, 33] }]
"""
DRAFT = reply(f"Move: all-cores\nUse every core.\n\n```cpp\n{KERNEL}```\n", count=1500)
CUT = stream([chunk({"content": "par"})], end="cut")


def edit(old: str, new: str) -> Step:
    assert KERNEL.count(old) == 1
    return reply(f"Move: change\nTry it.\n\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n", count=90)


WRONG = edit("            Exp(y, x, n);", "            Adds(y, x, 1.0f, n);")
BROKEN = edit("            Exp(y, x, n);", "            Expp(y, x, n);")


class Shell:
    """A folder with one task, and the program started in it as a user would."""

    def __init__(self, folder: Path, server: ScriptedEndpoint) -> None:
        self.folder = folder
        self.server = server
        self.env = {**os.environ, "KOPE_CACHE": str(folder / "cache"), "MY_KEY": KEY}
        (folder / "kope.toml").write_text(
            f'llm_base_url = "{server.url}"\nllm_model = "m"\nllm_api_key_env = "MY_KEY"\nllm_max_tokens = 2000\n'
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "kope", "optimize", "./exp", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=self.folder, env=self.env, stdout=pipe, stderr=pipe, text=True)

    def run(self, *words: str, status: int = 0) -> tuple[str, str]:
        program = self.start(*words)
        out, err = program.communicate(timeout=300)
        assert program.returncode == status, err
        assert "Traceback" not in err
        return out, err

    def attempts(self) -> tuple[Attempt, ...]:
        with Store.open(self.folder / "kope.db", read_only=True) as store:
            return store.attempts()

    def files_with(self, text: str) -> list[str]:
        paths = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        return [str(path) for path in paths if text.encode() in path.read_bytes()]


@pytest.fixture
def folder(tmp_path: Path, twin_cache: Path) -> Path:
    (tmp_path / "exp").mkdir()
    (tmp_path / "exp" / "task.toml").write_text(TOML)
    (tmp_path / "exp" / "reference.py").write_text("import numpy as np\n\n\ndef reference(x):\n    return np.exp(x)\n")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "twin").symlink_to(twin_cache)
    return tmp_path


def facts(attempts: tuple[Attempt, ...]) -> list[tuple[str, str, str]]:
    return [(each.proposal.move, each.outcome.stage.value, each.outcome.verdict.value) for each in attempts]


def test_a_run_with_faults_ends_in_outcomes_and_the_key_in_no_file(folder: Path) -> None:
    script = [error(503, {"message": f"busy, {KEY}"}), DRAFT, WRONG, CUT, CUT, CUT, BROKEN]
    with ScriptedEndpoint(script) as server:
        shell = Shell(folder, server)
        out, err = shell.run("--proposer", "llm", "--iterations", "4")
        authorized = [seen.headers.get("authorization") for seen in server.seen]
    attempts = shell.attempts()
    assert facts(attempts) == [
        ("all-cores", "profile", "verified"),
        ("change", "verify", "failed"),
        ("repair", "propose", "failed"),
        ("change", "compile", "failed"),
    ]
    assert [len(each.proposal.calls) for each in attempts] == [2, 1, 3, 1]
    assert [call["ending"] for call in attempts[0].proposal.calls] == ["server", "ok"]
    assert attempts[2].proposal.reason.startswith("truncated: the stream broke off")
    assert attempts[0].proposal.tokens == 1510
    assert authorized == [f"Bearer {KEY}"] * 7
    assert "verified, 2/2 cases" in err
    assert shell.files_with(KEY) == []
    assert KEY not in out + err


def test_refusal_for_good_ends_with_one_line_and_status_1(folder: Path) -> None:
    with ScriptedEndpoint([error(401, {"message": f"Incorrect API key provided: {KEY}"})]) as server:
        shell = Shell(folder, server)
        _, err = shell.run("--proposer", "llm", status=1)
        last = err.rstrip().splitlines()[-1]
        assert last == (
            f"Error: {server.url}: HTTP 401: Incorrect API key provided: [key removed]; "
            "check the key (llm_api_key_env, llm_key_file)"
        )
    assert shell.files_with(KEY) == []


def test_token_limit_ends_the_run_with_status_0(folder: Path) -> None:
    """Only the draft costs time on the twin; after it come replies without a kernel, at 2000 tokens each."""
    with ScriptedEndpoint([DRAFT], answer=lambda seen: reply("Use tiles.", count=1990)) as server:
        shell = Shell(folder, server)
        _, err = shell.run("--proposer", "llm", "--tokens", "14000")
        spent = sum(each.proposal.tokens for each in shell.attempts())
        assert spent == 1510 + 2000 * (len(server.seen) - 1)
        assert 6_000 < spent <= 14_000
    assert "stopped after" in err
    assert "the token limit" in err


def test_killed_in_the_middle_of_a_stream_it_resumes_and_repeats_no_answered_call(folder: Path) -> None:
    """The first attempt is recorded; of the second the first turn is answered, the second hangs when the kill comes."""
    prose = reply("I would use larger tiles.", count=40)
    hanging = stream([chunk({"content": "Here"})], end="hang")
    with ScriptedEndpoint([DRAFT, prose, hanging]) as server:
        shell = Shell(folder, server)
        program = shell.start("--proposer", "llm", "--iterations", "2")
        while len(server.seen) < 3:
            assert program.poll() is None, program.communicate()[1]
            server.wait()
        program.send_signal(signal.SIGKILL)
        program.communicate(timeout=60)
        assert facts(shell.attempts()) == [("all-cores", "profile", "verified")]
        server.script = [WRONG]
        _, err = shell.run("--proposer", "llm", "--iterations", "2")
        assert "going on after attempt 1" in err
        assert len(server.seen) == 4
        assert server.seen[3].messages == server.seen[2].messages
    second = shell.attempts()[1]
    assert (second.proposal.move, second.outcome.verdict.value) == ("change", "failed")
    assert second.proposal.tokens == 50 + 100
    assert [call.get("from_log", False) for call in second.proposal.calls] == [True, False]


def test_any_program_can_be_the_proposer(folder: Path) -> None:
    (folder / "kernel.asc").write_text(KERNEL)
    with ScriptedEndpoint() as server:
        shell = Shell(folder, server)
        command = f"cat {folder / 'kernel.asc'} --api-key={KEY}"
        shell.run("--proposer", "command", "--command", f"cat {folder / 'kernel.asc'}", "--iterations", "1")
        _, err = shell.run("--proposer", "command", "--command", command, "--iterations", "1", status=1)
    [made] = shell.attempts()
    assert (made.proposer, made.outcome.verdict.value, made.speedup) == ("command:cat:m", "verified", 1.0)
    assert made.proposal.plan["marks"] == ["no fence"]
    assert "try the command by hand" in err
    assert shell.files_with(KEY) == []


def test_several_proposals_at_once_stop_before_the_cost_limit_is_broken(folder: Path) -> None:
    """Two answers a prompt. A call may cost 5 for its prompt and 20 for its reply; the draft costs 15, others 0.91."""
    answers = iter([DRAFT])

    def answer(seen: Seen) -> Step:
        return next(answers, reply("No more.", count=90))

    with ScriptedEndpoint(answer=answer) as server:
        shell = Shell(folder, server)
        with (folder / "kope.toml").open("a") as toml:
            toml.write('llm_prices = ["m=1000/10000"]\nllm_temperatures = [0.1, 0.9]\n')
        out, err = shell.run("--proposer", "llm", "--proposals", "2", "--cost", "50", "--json")
        temperatures = sorted(seen.json["temperature"] for seen in server.seen[:2])
    [task] = json.loads(out)["tasks"]
    assert task["stop"] == "cost" and err == ""
    assert temperatures == [0.1, 0.9]
    attempts = shell.attempts()
    assert [each.proposal.plan.get("batch") for each in attempts[:2]] == [[0, 2], [1, 2]]
    assert [each.iteration for each in attempts] == list(range(1, len(attempts) + 1))
    costs = sum(call["charged_cost"] for each in attempts for call in each.proposal.calls)
    assert 22 < costs <= 50


def test_passive_context_is_looked_up_turn_by_turn(folder: Path) -> None:
    with ScriptedEndpoint([reply("DOCS: Exp float\nRECALL: exp tiles", count=40), DRAFT]) as server:
        shell = Shell(folder, server)
        shell.run("--proposer", "llm", "--context", "passive", "--iterations", "1")
        first, second = (seen.messages for seen in server.seen)
    assert "## Documentation" not in first[0]["content"] and "RECALL: words" in first[0]["content"]
    assert "[docs: Exp float]" in second[2]["content"] and "Ascend C guide" in second[2]["content"]
    assert "[recall: exp tiles]\nnothing was found" in second[2]["content"]
    [made] = shell.attempts()
    assert (made.outcome.verdict.value, len(made.proposal.calls)) == ("verified", 2)
