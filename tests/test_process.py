"""Programs started by KOPE end in time, stay within their output limit and leave nothing behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from kope import process
from kope.errors import MachineError, ToolMissing


def python(code: str, **more: object) -> process.Completed:
    return process.run([sys.executable, "-I", "-S", "-c", code], **{"timeout_s": 20.0, **more})  # type: ignore[arg-type]


def test_exit_status_is_a_value_and_streams_are_apart() -> None:
    done = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert (done.timed_out, done.truncated, done.flooded) == (False, False, False)


def test_death_by_signal_is_negative() -> None:
    assert python("import os; os.abort()").returncode == -signal.SIGABRT


def test_hang_ends_in_time_with_its_whole_group() -> None:
    began = time.monotonic()
    done = process.run(["sh", "-c", "sleep 600 & echo $!; wait"], timeout_s=0.4)
    assert (done.timed_out, done.returncode) == (True, -signal.SIGKILL)
    assert time.monotonic() - began < 2.4
    assert gone(int(done.stdout))


def test_closed_streams_do_not_hide_a_hang() -> None:
    began = time.monotonic()
    done = python("import os, time; os.close(1); os.close(2); time.sleep(600)", timeout_s=0.4)
    assert done.timed_out
    assert time.monotonic() - began < 2.4


def test_child_that_inherits_the_streams_does_not_delay_the_end() -> None:
    began = time.monotonic()
    done = process.run(["sh", "-c", "sleep 600 & echo $!"], timeout_s=30.0)
    assert (done.returncode, done.timed_out) == (0, False)
    assert time.monotonic() - began < 10
    assert gone(int(done.stdout))


def test_grace_lets_a_program_clean_up(tmp_path: Path) -> None:
    code = f"""
import signal, sys, time
def leave(*_):
    open({str(tmp_path / "left")!r}, "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("up", flush=True)
time.sleep(600)
"""
    done = python(code, timeout_s=1.0, stop_grace_s=5.0)
    assert (done.timed_out, done.stdout) == (True, "up\n")
    assert (tmp_path / "left").exists()


def test_long_output_keeps_head_and_tail() -> None:
    done = python("print('first'); print('x' * 100000); print('last')", output_limit_bytes=2000)
    assert done.truncated
    assert done.stdout.startswith("first\nxxx")
    assert done.stdout.endswith("xxx\nlast\n")
    assert "bytes left out" in done.stdout
    assert len(done.stdout) < 2100


def test_output_within_the_limit_is_whole() -> None:
    done = python("print('x' * 1998, end='')", output_limit_bytes=2000)
    assert (done.stdout, done.truncated) == ("x" * 1998, False)


def test_flood_is_stopped() -> None:
    done = python("import os\nwhile True: os.write(1, bytes(65536))", output_limit_bytes=1 << 12)
    assert (done.flooded, done.truncated, done.timed_out) == (True, True, False)
    assert len(done.stdout) < 1 << 14


def test_output_that_is_not_text_is_readable() -> None:
    done = python("import os; os.write(1, b'ok \\xff\\xfe end')")
    assert done.stdout == "ok \ufffd\ufffd end"


def test_input_longer_than_a_pipe_goes_through() -> None:
    data = os.urandom(1 << 20)
    done = python("import sys; print(len(sys.stdin.buffer.read()))", stdin=data)
    assert done.stdout == f"{1 << 20}\n"


def test_input_nobody_reads_is_no_error() -> None:
    assert python("pass", stdin=bytes(1 << 20)).returncode == 0


def test_lines_are_seen_as_they_come() -> None:
    seen: list[tuple[str, bool]] = []
    code = "import time\nfor i in range(3): print(i, flush=True); time.sleep(0.05)\nprint('rest', end='')"
    done = python(code, on_line=lambda line: seen.append((line, True)))
    assert [line for line, _ in seen] == ["0", "1", "2"]
    assert done.stdout == "0\n1\n2\nrest"


def test_missing_program_says_what_to_do() -> None:
    with pytest.raises(ToolMissing, match="no-such-tool is not installed.*kope doctor") as caught:
        process.run(["no-such-tool", "-v"], timeout_s=5.0)
    assert caught.value.argv == ("no-such-tool", "-v")


def test_missing_folder_is_not_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="is gone"):
        process.run(["true"], cwd=tmp_path / "gone", timeout_s=5.0)


def test_step_is_what_a_person_needs_to_repeat_it() -> None:
    done = process.run(["sh", "-c", "exit 3"], timeout_s=5.0)
    assert done.step == {"argv": ["sh", "-c", "exit 3"], "returncode": 3, "wall_s": round(done.wall_s, 4)}


def gone(pid: int) -> bool:
    """Whether a process ends within a moment; a zombie that nobody reaps counts as gone."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_program_reads_a_file_of_any_size(tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(b"x" * 3_000_000)
    assert process.run(["wc", "-c"], timeout_s=30, stdin=tmp_path / "given").stdout.strip() == "3000000"
    with pytest.raises(FileNotFoundError):
        process.run(["wc", "-c"], timeout_s=30, stdin=tmp_path / "missing")
