"""A machine reached through a command: `ssh HOST`, `docker exec -i NAME`, `srun ...`. Files go there and come back.

Every run has a folder of its own there, made and removed again. A connection that breaks is noticed by the missing end
of the answer, and the run is made again; that is never a kernel's fault. Programs there are not confined by KOPE.
"""

from __future__ import annotations

import base64
import binascii
import io
import secrets
import shlex
import tarfile
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from kope import process, sandbox
from kope.errors import MachineError, ToolMissing
from kope.target.ascend import vendor
from kope.target.ascend.host import Job
from kope.target.ascend.toolkit import Toolkit

TRIES = 3
_BETWEEN_S = 1.0
_QUERY_S = 60.0
_CONNECT_S = 120.0
_ANSWER_BYTES = 4 << 30
_TIMED_OUT = (124, 137)
"""What `timeout -s KILL` ends with."""

_LOOK = """\
home={home}
for place in "$home" {places}; do
    [ -n "$place" ] && [ -d "$place" ] && home="$place" && break
    home=
done
printf 'HOME_FOUND=%s\\0' "$home"
printf 'MACHINE=%s\\0' "$(uname -m)"
for file in {versions}; do
    [ -f "$home/$file" ] && printf 'VERSION_FILE=%s\\0' "$(cat "$home/$file")" && break
done
for script in "$home/set_env.sh" "$(dirname "$home")/set_env.sh"; do
    [ -f "$script" ] && . "$script" >/dev/null 2>&1 && break
done
for name in bisheng ccec msprof msopprof npu-smi; do
    for folder in {compilers}; do
        [ -x "$home/$folder/$name" ] && printf 'PROGRAM=%s\\0' "$home/$folder/$name" && break
    done || {{ found=$(command -v $name) && printf 'PROGRAM=%s\\0' "$found"; }}
done
env -0
"""
"""Prints what is needed to know of a toolkit; {versions} and {compilers} are relative to it."""

_RUN = """\
cd {folder} || exit 97
{exports}
timeout -s KILL {wall_s} {command} >{root}/stdout 2>{root}/stderr </dev/null
echo $? >{root}/status
cd {root} && tar -c -f - status stdout stderr {results} 2>/dev/null | base64
echo end-of-{token}
cd / && rm -rf {root}
"""


class RemoteHost:
    """The machine behind a command. prefix: the command; folder: where runs have their files there."""

    def __init__(self, prefix: Sequence[str], folder: str = "/tmp") -> None:
        self._prefix = tuple(prefix)
        self._folder = PurePosixPath(folder)
        self._token = secrets.token_hex(6)

    @cached_property
    def inherited(self) -> Mapping[str, str]:
        """What a shell there has set of vendor.INHERITED."""
        found = dict(self._said("env -0\n", "environment"))
        return {name: found[name] for name in vendor.INHERITED if found.get(name)}

    def find(self, home: Path | None) -> Toolkit:
        """Return the toolkit there. Raises ToolMissing when there is none, MachineError without a connection."""
        given = shlex.quote(str(home)) if home is not None else f'"${vendor.HOME}"'
        places = " ".join(place.replace("~", '"$HOME"', 1) for place in vendor.INSTALL_PLACES) if home is None else ""
        arch = "$(uname -m)"
        script = _LOOK.format(
            home=given,
            places=places,
            versions=" ".join(place.format(arch=arch) for place in vendor.VERSION_FILES),
            compilers=" ".join(place.format(arch=arch) for place in vendor.COMPILER_PLACES),
        )
        said = self._said(script, "toolkit")
        values = dict(said)
        if not values.get("HOME_FOUND"):
            raise ToolMissing(
                f"CANN was not found behind {' '.join(self._prefix)}; set ascend_home to where it is there"
            )
        environment = {name: values[name] for name in vendor.TOOLKIT_VARIABLES if values.get(name)}
        environment.setdefault(vendor.HOME, values["HOME_FOUND"])
        programs = {Path(path).name: Path(path) for name, path in said if name == "PROGRAM"}
        version = Toolkit.version_in(values.get("VERSION_FILE", ""))
        origin = "ascend_home" if home is not None else "found there"
        home_there, processor = Path(values["HOME_FOUND"]), values["MACHINE"]
        return Toolkit(home_there, origin, version, environment, programs=programs, processor=processor)

    def place(self, path: Path) -> Path:
        """Return where a file of this machine lies there."""
        return Path(self._root) / path.absolute().relative_to("/")

    @property
    def _root(self) -> PurePosixPath:
        return self._folder / f"kope-{self._token}"

    def ask(self, argv: Sequence[str], toolkit: Toolkit, *, timeout_s: float) -> process.Completed:
        """Run a program of the vendor's there. Raises MachineError without a connection."""
        script = f"{_exports(toolkit.environment)}\nexec {shlex.join(argv)}\n"
        return self._script(script, timeout_s)

    def run(self, job: Job) -> sandbox.Finished:
        """Ship folder and inputs, run, fetch folder and outputs, clean up. Raises MachineError after TRIES breaks."""
        results = [self.place(path).relative_to(self._root) for path in (job.folder, *job.outputs)]
        script = _RUN.format(
            folder=shlex.quote(str(self.place(job.folder))),
            exports=_exports(job.variables),
            wall_s=max(1, round(job.wall_s)),
            command=shlex.join(job.argv),
            root=shlex.quote(str(self._root)),
            results=shlex.join(map(str, results)),
            token=self._token,
        )
        made = sorted({path.parent for path in job.outputs})
        shipped = _packed([job.folder, *job.inputs], made, script, str(self._root).lstrip("/"))
        for number in range(TRIES):
            if number:
                time.sleep(_BETWEEN_S * number)
            started = time.monotonic()
            answer = self._try(shipped, job.wall_s)
            if answer is not None:
                return _unpacked(answer, job, time.monotonic() - started)
        raise MachineError(f"the connection of {self._prefix[0]} broke {TRIES} times; check it and run again")

    def _try(self, shipped: bytes, wall_s: float) -> bytes | None:
        """Make one run and return its results, None when the connection broke. What is left there is removed."""
        sent = self._call(["tar", "-x", "-f", "-", "-C", "/"], _CONNECT_S, shipped)
        if sent.returncode == 0:
            done = self._call(["sh", str(self._root / "run.sh")], wall_s + _CONNECT_S, None)
            body, mark, _ = done.stdout.rpartition(f"end-of-{self._token}")
            if mark:
                try:
                    return base64.b64decode(body, validate=False)
                except binascii.Error:
                    pass
        self._call(["rm", "-rf", str(self._root)], _QUERY_S, None)
        return None

    def _said(self, script: str, what: str) -> list[tuple[str, str]]:
        """Return NAME=VALUE pairs that a script printed, each ended by NUL."""
        done = self._script(script, _QUERY_S)
        if done.returncode != 0 and "=" not in done.stdout:
            words = " ".join(done.stderr.split())[:200] or f"status {done.returncode}"
            raise MachineError(
                f"{' '.join(self._prefix)} does not answer for its {what} ({words}); try the command by hand"
            )
        pairs = (entry.partition("=") for entry in done.stdout.split("\0") if "=" in entry)
        return [(name, value) for name, _, value in pairs]

    def _script(self, script: str, timeout_s: float) -> process.Completed:
        """Run a shell script there; it comes in through standard input, so that nothing needs quoting on the way."""
        return self._call(["bash", "-s"], timeout_s, script.encode())

    def _call(self, argv: Sequence[str], timeout_s: float, stdin: bytes | None) -> process.Completed:
        """Run words that mean the same to a shell and without one: some commands put a shell between, some do not."""
        return process.run(
            [*self._prefix, *argv], timeout_s=timeout_s, stdin=stdin or b"", output_limit_bytes=_ANSWER_BYTES
        )


def _exports(environment: Mapping[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())


def _packed(paths: Sequence[Path], folders: Sequence[Path], script: str, root: str) -> bytes:
    """Return an archive of files and folders under a root, with empty folders for results, and the script."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for folder in ("", *(str(path.absolute()) for path in folders)):
            made = tarfile.TarInfo(root + folder)
            made.type, made.mode = tarfile.DIRTYPE, 0o700
            archive.addfile(made)
        entry = tarfile.TarInfo(f"{root}/run.sh")
        entry.size = len(script.encode())
        archive.addfile(entry, io.BytesIO(script.encode()))
        for path in paths:
            archive.add(path, f"{root}{path.absolute()}", filter=_anonymous)
    return buffer.getvalue()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _unpacked(answer: bytes, job: Job, wall_s: float) -> sandbox.Finished:
    """Put what came back in its place on this machine, and return how the program ended.

    Only files of the folder and the outputs are taken: what a candidate did there is not trusted here.
    """
    texts = {"status": "", "stdout": "", "stderr": ""}
    with tarfile.open(fileobj=io.BytesIO(answer)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            place = Path("/") / member.name
            wanted = place in job.outputs or (place.is_relative_to(job.folder) and ".." not in place.parts)
            if member.name in texts and content is not None:
                texts[member.name] = content.read().decode("utf-8", "replace")
            elif wanted and (member.isdir() or content is not None):
                _put(place, content.read() if content is not None else None, member.mode)
    status = int(texts["status"] or -1)
    stopped: sandbox.Stop = "timeout" if status in _TIMED_OUT else ""
    code = 128 - status if status > 128 else status
    return sandbox.Finished(tuple(job.argv), code, texts["stdout"], texts["stderr"], wall_s, stopped)


def _put(path: Path, content: bytes | None, mode: int) -> None:
    if content is None:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(mode & 0o777)
