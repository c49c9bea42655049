"""optimize, ask, tell, best, context and report on the replay target: what they print, write and exit with."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kope import wiring
from kope.cli import app
from kope.memory import RecallQuery, Store, embedding
from kope.propose.replay import ReplayProposer
from tests.documents import parsed
from tests.replay_task import marked, replay_target, write_task

SOURCES = [marked(10), marked(1, "fail=ub-overflow"), marked(5), marked(20)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reference outputs, by content; the same for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with one task, a database to come, and the replay target in place of the twin."""
    write_task(tmp_path / "tasks")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KOPE_CACHE", str(cache))
    monkeypatch.setattr(wiring, "target", lambda settings, *, progress=None: replay_target())
    monkeypatch.setattr(embedding, "find_embedder", embedding.HashEmbedder)
    propose(monkeypatch, SOURCES)
    return tmp_path


def propose(monkeypatch: pytest.MonkeyPatch, sources: Sequence[str]) -> None:
    """Have these sources proposed whatever proposer is asked for."""
    real = wiring.proposer

    def proposer(plan: wiring.Plan, settings: Any, **more: Any) -> Any:
        return ReplayProposer(sources) if plan.proposer == "search" else real(plan, settings, **more)

    monkeypatch.setattr(wiring, "proposer", proposer)


def kope(*arguments: str, code: int = 0, stdin: str | None = None) -> Any:
    done = CliRunner().invoke(app, list(arguments), input=stdin)
    assert done.exit_code == code, f"{done.output}\n{done.exception!r}"
    return done


def test_optimize_shows_progress_table_best_and_what_is_next() -> None:
    done = kope("optimize", "double")
    assert "  1* replay: verified, 5/5 cases, 10.00 us, 1.00x" in done.stderr
    assert "failed at run: ub-overflow" in done.stderr
    assert "double: stopped after 4 attempts: nothing left to try" in done.stderr
    assert "times modelled (replay:table:1), geometric mean over cases" in done.stdout
    lines = done.stdout.splitlines()
    assert lines[-2].startswith("double: best kernel 5.00 us, 2.00x over the first verified kernel")
    assert lines[-1] == "Next: kope best double -o double.asc; kope report"


def test_optimize_json_is_one_quiet_document() -> None:
    done = kope("optimize", "double", "--json", "--seed", "3")
    document = parsed(done.stdout, "optimize")
    assert done.stderr == ""
    assert document["plan"] == {"proposer": "search", "model": None, "command": None, "memory": "on", "seed": 3}
    (task,) = document["tasks"]
    assert [(a["verdict"], a["speedup"], a["promoted"]) for a in task["attempts"]] == [
        ("verified", 1.0, True),
        ("failed", 0.0, False),
        ("verified", 2.0, True),
        ("screened", 0.5, False),
    ]
    assert (task["stop"], task["best"]["iteration"], task["baseline"]["iteration"]) == ("converged", 3, 1)


def test_database_is_one_file_after_every_command(place: Path) -> None:
    kope("optimize", "double")
    for command in (["report"], ["best", "double"], ["context", "double"], ["ask", "double"]):
        kope(*command)
        assert [path.name for path in place.glob("kope.db*")] == ["kope.db"]


def test_finished_session_is_followed_by_a_new_one_from_the_best_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    kope("optimize", "double", "--json")
    propose(monkeypatch, [marked(4)])
    second = parsed(kope("optimize", "double", "--json").stdout, "optimize")
    (attempt,) = second["tasks"][0]["attempts"]
    assert (second["resumed"], attempt["speedup"], attempt["step_ratio"]) == (False, 2.5, 1.25)


def test_memory_off_starts_from_nothing_and_runs_no_source_again() -> None:
    kope("optimize", "double", "--json")
    (task,) = parsed(kope("optimize", "double", "--memory", "off", "--json").stdout, "optimize")["tasks"]
    assert task["baseline"]["iteration"] == 1
    assert [a["repeated"] for a in task["attempts"]] == [True, True, True, True]
    assert [a["speedup"] for a in task["attempts"]] == [1.0, 0.0, 2.0, 0.5]


@pytest.mark.parametrize("memory", ["placebo", "only:other.db"])
def test_other_memory_modes_run_and_start_from_nothing(place: Path, memory: str) -> None:
    kope("optimize", "double", "--db", "other.db", "--json")
    before = (place / "other.db").read_bytes()
    (task,) = parsed(kope("optimize", "double", "--memory", memory, "--json").stdout, "optimize")["tasks"]
    assert [a["speedup"] for a in task["attempts"]] == [1.0, 0.0, 2.0, 0.5]
    assert (place / "other.db").read_bytes() == before
    assert sorted(path.name for path in place.glob("*.db*")) == ["kope.db", "other.db"]


def test_memory_of_a_missing_file_is_one_line() -> None:
    assert "none.db" in refused("optimize", "double", "--memory", "only:none.db")


def test_given_kernel_is_tried_first_and_is_what_speedups_are_against(place: Path) -> None:
    (place / "own.asc").write_text(marked(8))
    document = parsed(kope("optimize", "double", "--baseline", "own.asc", "--json").stdout, "optimize")
    (task,) = document["tasks"]
    assert [(a["move"], a["speedup"], a["promoted"]) for a in task["attempts"]] == [
        ("given", 1.0, True),
        ("replay", 0.0, False),
        ("replay", 1.6, True),
        ("replay", pytest.approx(0.4), False),
    ]
    assert task["baseline"]["id"] == task["attempts"][0]["id"]


def test_given_kernel_slower_than_the_best_known_is_verified_and_measured_against(place: Path) -> None:
    kope("optimize", "double", "--json")
    (place / "own.asc").write_text(marked(16))
    document = parsed(kope("optimize", "double", "--baseline", "own.asc", "-n", "1", "--json").stdout, "optimize")
    (attempt,) = document["tasks"][0]["attempts"]
    assert (attempt["verdict"], attempt["speedup"], attempt["promoted"]) == ("verified", 1.0, False)
    assert document["tasks"][0]["best"]["time_us"] == pytest.approx(5.0)


def test_given_kernel_that_is_wrong_ends_the_run(place: Path) -> None:
    (place / "own.asc").write_text(marked(8, "wrong"))
    assert "the kernel given as baseline failed at verify" in refused("optimize", "double", "--baseline", "own.asc")


def test_stopped_early_the_same_command_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from kope.evaluate import TaskEvaluator

    real, calls = TaskEvaluator.evaluate, []

    def interrupted(self: Any, *arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, *arguments, **more)

    monkeypatch.setattr(TaskEvaluator, "evaluate", interrupted)
    done = kope("optimize", "double", code=130)
    assert done.stderr.splitlines()[-1].startswith("Interrupted. Every finished attempt is kept. To go on: kope")
    document = parsed(kope("optimize", "double", "--json").stdout, "optimize")
    assert document["resumed"] is True
    assert [a["iteration"] for a in document["tasks"][0]["attempts"]] == [1, 2, 3, 4]
    assert len(calls) == 5


def test_best_prints_or_writes_the_source(place: Path) -> None:
    kope("optimize", "double")
    assert kope("best", "double").stdout == SOURCES[2]
    done = kope("best", "double", "-o", "out.asc")
    assert (place / "out.asc").read_text() == SOURCES[2]
    assert done.stdout.splitlines() == [
        "out.asc: double, attempt 3 (replay), 5.00 us modelled (replay:table:1)",
        "Next: kope eval double out.asc",
    ]
    assert parsed(kope("best", "double", "--json").stdout, "best")["source"] == SOURCES[2]


def test_report_shows_all_tasks_or_the_attempts_of_one() -> None:
    kope("optimize", "double")
    assert "double" in kope("report").stdout and "2.00x" in kope("report").stdout
    text = kope("report", "double").stdout
    assert "failed at run: ub-overflow" in text
    assert text.splitlines()[-3:-1] == [
        "attempt 2 (replay) failed at run:",
        "    error: the table says ub-overflow [ub-overflow]",
    ]
    document = parsed(kope("report", "double", "--json").stdout, "report")
    assert [len(task["attempts"]) for task in document["tasks"]] == [4]
    session = document["tasks"][0]["attempts"][0]["session"]
    for task in ([], ["double"]):
        assert parsed(kope("report", *task, "--session", session[:6], "--json").stdout, "report") == document
        refused = kope("report", *task, "--session", "none", code=1).stderr
        assert refused == "Error: no session with such attempts in kope.db begins with 'none'; give 'all', or none\n"


def test_context_shows_prompt_and_ledger_and_records_nothing(place: Path) -> None:
    assert "## Operator: double" in kope("context", "double").stdout
    assert not (place / "kope.db").exists()
    kope("optimize", "double")
    before = (place / "kope.db").read_bytes()
    document = parsed(kope("context", "double", "--json").stdout, "context")
    assert (place / "kope.db").read_bytes() == before
    assert document["template"] == "prompts/refine" and document["tokens"] <= document["budget"]
    assert SOURCES[2].strip() in document["prompt"]
    assert [line["tier"] for line in document["ledger"]].count("warm") >= 1
    ledger = kope("context", "double", "--ledger").stdout
    assert "# Write one Ascend C operator" not in ledger and "incumbent_block" in ledger


def test_ask_and_tell_tie_the_attempt_to_its_prompt(place: Path) -> None:
    asked = parsed(kope("ask", "double", "--json").stdout, "ask")
    assert asked["template"] == "prompts/draft" and asked["parent"] is None
    (place / "answer.asc").write_text(marked(8))
    told = parsed(kope("tell", "double", "answer.asc", "--ask", asked["ask"], "--json").stdout, "tell")
    assert (told["ask"], told["attempt"]["verdict"], told["attempt"]["promoted"]) == (asked["ask"], "verified", True)
    assert told["best"]["id"] == told["attempt"]["id"]
    again = parsed(kope("ask", "double", "--json").stdout, "ask")
    assert again["template"] == "prompts/refine" and again["parent"] == told["attempt"]["id"]
    second = parsed(kope("tell", "double", "-", "--ask", again["ask"], "--json", stdin=marked(4)).stdout, "tell")
    attempt = second["attempt"]
    assert (attempt["parent"], attempt["speedup"], attempt["iteration"]) == (told["attempt"]["id"], 2.0, 2)
    assert attempt["session"] == told["attempt"]["session"]


def test_failed_answer_is_told_with_findings_and_exits_with_1(place: Path) -> None:
    (place / "answer.asc").write_text(marked(8, "fail=ub-overflow"))
    done = kope("tell", "double", "answer.asc", "--move", "bigger-tile", "--thought", "fits twice", code=1)
    assert "error: the table says ub-overflow [ub-overflow]" in done.stdout
    assert done.stdout.splitlines()[-1] == "Next: repair ub-overflow: kope ask double gives the prompt for it"
    asked = parsed(kope("ask", "double", "--json").stdout, "ask")
    assert asked["template"] == "prompts/repair_run" and "move bigger-tile: failed at stage run" in asked["prompt"]


def test_answer_may_be_the_reply_of_a_model(place: Path) -> None:
    asked = parsed(kope("ask", "double", "--json").stdout, "ask")
    kernel = "__global__ __aicore__ void k()\n{\n}\n"
    source = (
        f'#include "kernel_operator.h"\n{marked(8)}{kernel}extern "C" int kope_entry(const KopeCall* call)\n{{\n}}\n'
    )
    reply = f"Move: wide-tile\n\nTiles are wider.\n\n```cpp\n{source}```\n"
    told = parsed(kope("tell", "double", "-", "--ask", asked["ask"], "--json", stdin=reply).stdout, "tell")["attempt"]
    assert (told["verdict"], told["move"], told["thought"]) == ("verified", "wide-tile", "Tiles are wider.")
    assert kope("best", "double").stdout == source
    edit = "<<<<<<< SEARCH\ntime_us=8\n=======\ntime_us=2\n>>>>>>> REPLACE\n"
    asked = parsed(kope("ask", "double", "--json").stdout, "ask")
    told = parsed(kope("tell", "double", "-", "--ask", asked["ask"], "--json", stdin=edit).stdout, "tell")["attempt"]
    assert (told["verdict"], told["speedup"], told["move"]) == ("verified", 4.0, "edit")
    assert refused("tell", "double", "-", stdin="I cannot.\n```text\nno\n```\n").startswith(
        "Error: no candidate in the answer: "
    )


def test_told_attempt_is_recalled_by_the_tags_of_its_task(place: Path) -> None:
    definition = place / "tasks" / "double" / "task.toml"
    definition.write_text('tags = ["pointwise"]\n' + definition.read_text())
    told = parsed(kope("tell", "double", "-", "--json", stdin=marked(8)).stdout, "tell")["attempt"]
    with Store.open(place / "kope.db") as store:
        assert store.attempt(told["id"]).proposal.traits == ("pointwise",)
        assert [item.experience.attempt_id for item in store.recall(RecallQuery("pointwise")).items] == [told["id"]]


def test_next_steps_can_be_typed_as_printed(place: Path) -> None:
    """They name the task's folder and the database where the command did."""
    write_task(place / "my ops")
    given = ["./my ops/double", "-", "--db", "other.db"]
    first = kope("tell", *given, stdin=marked(8)).stdout.splitlines()[-1]
    assert first == (
        "Next: this is the best kernel now: kope best './my ops/double' -o double.asc --db other.db;"
        " kope ask './my ops/double' --db other.db goes on from it"
    )
    ask = "kope ask './my ops/double' --db other.db"
    again = kope("tell", *given, stdin=marked(8)).stdout.splitlines()[-1]
    assert again == f"Next: the same source was judged before: {ask} goes on from the best one"
    slower = kope("tell", *given, stdin=marked(9)).stdout.splitlines()[-1]
    assert slower == f"Next: it does not beat the best kernel by 1%: {ask} goes on from the best one"
    best = kope("best", "./my ops/double", "-o", "a b.asc", "--db", "other.db").stdout.splitlines()[-1]
    assert best == "Next: kope eval './my ops/double' 'a b.asc'"
    done = kope("optimize", "./my ops/double", "-n", "1", "--db", "other.db").stdout.splitlines()[-1]
    assert done.startswith("Next: kope best './my ops/double' -o double.asc --db other.db; ")
    assert "kope report TASK --db other.db" in kope("report", "--db", "other.db").stdout


def test_without_a_kernel_the_next_step_is_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    propose(monkeypatch, [marked(1, "fail=ub-overflow")])
    done = kope("optimize", "double", "--iterations", "1", code=1)
    assert done.stdout.splitlines()[-1] == "Next: kope report double shows what failed"
    assert "double: stopped after 1 attempt: " in done.stderr


def test_prompt_on_the_terminal_ends_with_how_to_answer() -> None:
    done = kope("ask", "double", "--db", "other.db")
    said = done.stderr.splitlines()[-1]
    assert said.startswith("Answer with: kope tell double FILE --ask ") and said.endswith(" --db other.db")
    assert done.stdout.startswith("# Write one Ascend C operator") and "kope tell" not in done.stdout


def test_passive_and_no_context_hold_the_hot_tier_and_say_how_to_ask_for_more(place: Path) -> None:
    kope("optimize", "double")
    active, passive, none = (
        parsed(kope("context", "double", "--context", mode, "--json").stdout, "context")
        for mode in ("active", "passive", "none")
    )
    assert {line["tier"] for line in active["ledger"]} == {"hot", "warm", "cold"}
    assert {line["tier"] for line in (*passive["ledger"], *none["ledger"])} == {"hot"}
    assert f"kope recall 'words that describe what you look for' --db {place}/kope.db" in passive["prompt"]
    assert "## More" not in none["prompt"] and none["tokens"] < passive["tokens"] < active["tokens"]


def test_agents_on_one_task_go_on_from_their_own_last_attempts(place: Path) -> None:
    for agent, time_us in (("ada", 9), ("bob", 8)):
        asked = parsed(kope("ask", "double", "--agent", agent, "--json").stdout, "ask")
        kernel = f"// by {agent}\n" + marked(time_us, "fail=ub-overflow")
        kope("tell", "double", "-", "--ask", asked["ask"], "--agent", agent, stdin=kernel, code=1)
    prompts = {agent: kope("ask", "double", "--agent", agent).stdout for agent in ("ada", "bob")}
    for agent, other in (("ada", "bob"), ("bob", "ada")):
        now = prompts[agent].partition("## Now")[2]
        assert f"// by {agent}" in now and f"// by {other}" not in now
    assert "--agent ada" in kope("ask", "double", "--agent", "ada").stderr


def test_tokens_of_prompts_are_summed_by_session_and_role(place: Path) -> None:
    asked = parsed(kope("ask", "double", "--json").stdout, "ask")
    kope("tell", "double", "-", "--ask", asked["ask"], stdin=marked(8, "fail=ub-overflow"), code=1)
    again = parsed(kope("ask", "double", "--json").stdout, "ask")
    kope("tell", "double", "-", "--ask", again["ask"], stdin=marked(4))
    first, second = parsed(kope("context", "--spent", "--json").stdout, "context_spent")["sums"]
    assert (first["role"], second["role"]) == ("draft", "repair_run")
    for row, made in ((first, asked), (second, again)):
        assert row["hot"] + row["warm"] + row["cold"] == made["tokens"] and row["prompts"] == 1
    assert "repair_run" in kope("context", "--spent").stdout


# --- bad input: one line with the next step, status 1 (2 for usage), no traceback -----------------------------------


def refused(*arguments: str, code: int = 1, stdin: str | None = None) -> str:
    done = kope(*arguments, code=code, stdin=stdin)
    assert "Traceback" not in done.output
    lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_unknown_operator_names_the_nearest() -> None:
    assert 'did you mean "double"' in refused("optimize", "duoble").replace("'", '"')


def test_malformed_task_is_one_line(place: Path) -> None:
    (place / "tasks" / "double" / "task.toml").write_text("cases = [")
    assert "task.toml" in refused("optimize", "double")


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to be read" * 100])
def test_file_that_is_no_database_is_refused_and_left_alone(place: Path, content: bytes) -> None:
    file = place / "kope.db"
    file.write_bytes(content)
    if content:
        refused("optimize", "double")
        assert file.read_bytes() == content


def test_database_that_cannot_be_written_is_one_line(place: Path) -> None:
    kope("optimize", "double")
    os.chmod(place / "kope.db", stat.S_IREAD)
    os.chmod(place, stat.S_IREAD | stat.S_IEXEC)
    try:
        if os.access(place / "kope.db", os.W_OK):
            pytest.skip("this user may write whatever the mode says")
        assert "cannot be written" in refused("optimize", "double")
        assert kope("best", "double").stdout == SOURCES[2]
    finally:
        os.chmod(place, stat.S_IRWXU)


def test_missing_database_and_task_say_what_to_run() -> None:
    refused("best", "double")
    refused("report")
    kope("optimize", "double")
    assert "double" in refused("best", "rms_norm")
    assert "kope optimize rms_norm makes some" in refused("report", "rms_norm")


def test_source_that_is_not_utf8_is_refused_before_anything_runs(place: Path) -> None:
    (place / "answer.asc").write_bytes(b"int x; // caf\xe9\n")
    assert "not UTF-8 at byte 13; save the source as UTF-8" in refused("tell", "double", "answer.asc")


def test_unknown_ask_is_one_line(place: Path) -> None:
    (place / "answer.asc").write_text(marked(8))
    assert "kope ask" in refused("tell", "double", "answer.asc", "--ask", "ffff")


def test_target_ascend_says_what_was_not_found(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(place / "nothing"))
    said = refused("optimize", "exp", "--target", "ascend")
    assert f"ASCEND_HOME_PATH names {place}/nothing, which is no folder; correct it or unset it" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--context", "active"],
        ["--window", "8000"],
        ["--context", "everything", "--proposer", "llm"],
        ["--time", "soon"],
        ["--iterations", "0"],
        ["other", "--baseline", "own.asc"],
        ["--no-such-option"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    done = kope("optimize", "double", *arguments, code=2)
    assert "Error: " in done.stderr and "Traceback" not in done.stderr


def test_wrong_memory_mode_is_one_line() -> None:
    assert "on, off, placebo, starter, only:FILE" in refused("optimize", "double", "--memory", "sometimes")


def test_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from kope.session import SessionMemory

    def full(self: Any, *arguments: Any) -> None:
        raise OSError(28, "No space left on device", "kope.db")

    monkeypatch.setattr(SessionMemory, "record", full)
    assert "the disk is full" in refused("optimize", "double")


def test_json_schemas_are_valid_and_every_one_has_a_title() -> None:
    import jsonschema

    from tests.documents import schemas

    assert len(schemas()) >= 7
    for name, schema in schemas().items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$id"] == f"kope:{name}" and schema["title"]
    assert json.dumps(schemas())
