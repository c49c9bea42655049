"""A card behind a command: files go there and come back, nothing stays, a connection that breaks is made again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import numpy as np
import pytest

from kope.errors import MachineError, ToolMissing
from kope.model import Candidate
from kope.target.ascend import profilers
from kope.target.ascend.host import Job
from kope.target.ascend.target import AscendTarget, Choice
from kope.target.twin import TwinTarget
from tests.target.ascend.toolkit import NEW_A2, StandIn, install
from tests.target.launching import Call, kernel, launch_case, read_output

X = np.linspace(-3, 3, 5001, dtype=np.float32)
WRAPPER = """\
#!/bin/sh
# Stands for docker exec and its like: no shell between, nothing of the caller's environment or folder.
cd /
case "$*" in {breaks}) [ -e {mark} ] || {{ touch {mark}; "$@" | head -c 20; exit 255; }};; esac
exec env -i PATH="$PATH" HOME=/ "$@"
"""


@pytest.fixture(scope="module")
def stand_in(twin: TwinTarget, twin_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    return install(tmp_path_factory.mktemp("machine") / "cann", NEW_A2, twin, twin_cache)


def wrapper(folder: Path, breaks: str = "never") -> str:
    path = folder / "elsewhere"
    path.write_text(WRAPPER.format(breaks=breaks, mark=folder / "broken"))
    path.chmod(0o755)
    return str(path)


def target(stand_in: StandIn, folder: Path, *prefix: str, profiler: profilers.Choice = "auto") -> AscendTarget:
    there = folder / "there"
    there.mkdir(exist_ok=True)
    made = Choice(home=stand_in.home, profiler=profiler, prefix=prefix, folder=str(there))
    return AscendTarget(stand_in.home.parent / "cache", made)


def check_a_whole_run(on: AscendTarget, folder: Path, profiler: str = "msprof-warm", calls: int = 10) -> None:
    """Build, run and time a kernel; nothing may stay there."""
    assert on.fingerprint().hardware == f"ascend:Ascend910B2:{profiler}"
    built = on.build(Candidate.of(kernel("exp")), folder / "build")
    assert built.executable is not None and built.executable.exists(), (built.diagnostics, built.log)
    case = launch_case(Call([X], [((5001,), "float32")]), folder / "data", "c0")
    ran = on.run(built, [case], "verify", folder / "verify", time_limit_s=60.0)
    assert [(one.ok, one.diagnostics) for one in ran.cases] == [(True, ())], ran.log
    assert np.allclose(read_output(case), np.exp(X), rtol=1e-5)
    (timed,) = on.run(built, [case], "time", folder / "time", time_limit_s=60.0).cases
    assert timed.ok and len(timed.duration_us) == calls and timed.counters["Task Duration(us)"] > 0.0
    assert list((folder / "there").iterdir()) == []


def test_a_card_behind_a_wrapper_is_used_like_ones_own(stand_in: StandIn, tmp_path: Path) -> None:
    check_a_whole_run(target(stand_in, tmp_path, wrapper(tmp_path)), tmp_path)


@pytest.mark.parametrize(
    ("profiler", "name", "calls"), [("msopprof", "msopprof-cold", 5), ("simulator", "simulator", 1)]
)
def test_every_profiler_works_behind_a_command(
    profiler: profilers.Choice, name: str, calls: int, stand_in: StandIn, tmp_path: Path
) -> None:
    check_a_whole_run(target(stand_in, tmp_path, wrapper(tmp_path), profiler=profiler), tmp_path, name, calls)


def test_files_are_looked_for_where_the_toolkit_is_under_its_own_processor(stand_in: StandIn, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uname").write_text("#!/bin/sh\necho riscv64\n")
    (tmp_path / "bin" / "uname").chmod(0o755)
    elsewhere = Path(wrapper(tmp_path))
    elsewhere.write_text(elsewhere.read_text().replace("$PATH", f"{tmp_path}/bin:$PATH"))
    folder = stand_in.home / "riscv64-linux" / "data" / "platform_config"
    folder.mkdir(parents=True)
    (folder / "Ascend910B2.ini").write_text("[SoCInfo]\nvector_core_cnt=46\n")
    on = target(stand_in, tmp_path, str(elsewhere))
    assert (on.toolkit.processor, on.chip.vector_cores, on.chip.origin) == ("riscv64", 46, "platform file")
    (folder / "Ascend910B2.ini").unlink()


@pytest.fixture
def ssh(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Start a server and return the command that reaches it."""
    client = shutil.which("ssh")
    if client is None and not request.config.getoption("--everything"):
        pytest.skip("needs an ssh client: apt install openssh-client")
    assert client is not None
    key = asyncssh.generate_private_key("ssh-ed25519")
    for name in ("host", "user"):
        key.write_private_key(str(tmp_path / name))
        (tmp_path / name).chmod(0o600)
    key.write_public_key(str(tmp_path / "known"))
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "ssh_server.py"), str(tmp_path / "host"), str(tmp_path / "known")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    yield [client, "-F", "none", *options, "-i", str(tmp_path / "user"), "-p", port, "tester@127.0.0.1"]
    server.kill()
    server.wait()
    server.stdout.close()


def test_a_card_behind_ssh_is_used_like_ones_own(stand_in: StandIn, tmp_path: Path, ssh: list[str]) -> None:
    check_a_whole_run(target(stand_in, tmp_path, *ssh), tmp_path)


@pytest.mark.parametrize("breaks", ["*tar*", "*run.sh*"], ids=["while sending", "while running"])
def test_a_connection_that_breaks_is_made_again(breaks: str, stand_in: StandIn, tmp_path: Path) -> None:
    on = target(stand_in, tmp_path, wrapper(tmp_path, breaks))
    built = on.build(Candidate.of(kernel("exp")), tmp_path / "build")
    assert built.executable is not None, built.log
    assert (tmp_path / "broken").exists()
    assert list((tmp_path / "there").iterdir()) == []


def test_a_connection_that_stays_broken_is_no_outcome(stand_in: StandIn, tmp_path: Path) -> None:
    on = target(stand_in, tmp_path, wrapper(tmp_path))
    assert on.fingerprint()
    (tmp_path / "elsewhere").write_text("#!/bin/sh\nexit 255\n")
    with pytest.raises(MachineError, match="broke 3 times; check it and run again"):
        on.build(Candidate.of(kernel("exp")), tmp_path / "build")


def test_a_machine_without_the_toolkit_or_without_an_answer_is_one_line(tmp_path: Path) -> None:
    for prefix, error, words in (
        (wrapper(tmp_path), ToolMissing, "CANN was not found behind .*elsewhere; set ascend_home"),
        ("false", MachineError, "false does not answer for its toolkit .*try the command by hand"),
    ):
        with pytest.raises(error, match=words):
            AscendTarget(tmp_path / "cache", Choice(home=tmp_path / "nothing", prefix=(prefix,))).fingerprint()


def test_what_hangs_there_is_stopped_there(stand_in: StandIn, tmp_path: Path) -> None:
    on = target(stand_in, tmp_path, wrapper(tmp_path))
    done = on.host.run(Job(["sleep", "600"], tmp_path / "there", on.toolkit, 1.0))
    assert done.stopped == "timeout"


def test_only_what_was_asked_for_comes_back(stand_in: StandIn, tmp_path: Path) -> None:
    folder, outside = tmp_path / "mine", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("untouched")
    on = target(stand_in, tmp_path, wrapper(tmp_path))
    script = "echo there > made; ln -s /etc/passwd link; echo changed > ../outside; echo gone > ../unasked; exit 5"
    done = on.host.run(Job(["sh", "-c", script], folder, on.toolkit, 20.0, {"A": "it's"}))
    assert (done.returncode, done.stopped) == (5, "")
    assert sorted(path.name for path in folder.iterdir()) == ["made"]
    assert (outside.read_text(), (tmp_path / "unasked").exists()) == ("untouched", False)
    assert os.listdir(tmp_path / "there") == []
