"""The launcher: enters namespaces, builds the program's world, becomes nobody, sets limits, starts it, watches it.

Three processes: the launcher, the watcher (init of the pid namespace, so that with it everything dies) and the program.
A layer that the machine refuses is left out and not reported as active.
"""

from __future__ import annotations

import errno
import marshal
import os
import select
import signal
import sys

from kope.confine import filesystem, identity, kernel, landlock, limits, syscalls, watch
from kope.confine.spec import Report, Spec

_SPACES = kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
_FAILED = 125


def main() -> None:
    """Run the program described by the last argument; exits when nothing of it is left."""
    spec = Spec(**marshal.loads(bytes.fromhex(sys.argv[-1])))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM])
    report = Report(spec.report_fd)
    spare = identity.spare_id() if os.geteuid() == 0 else 0
    try:
        spaces = _enter(spec)
    except OSError as failed:  # half entered: there is no way back, the parent starts anew without
        report.failed("namespaces", failed)
        os._exit(_FAILED)
    kernel.die_with_parent()
    if os.getppid() != spec.parent:
        os._exit(_FAILED)
    lifeline, held = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        os.close(held)
        try:
            _watch(spec, report, spaces, spare, lifeline)
        finally:
            os._exit(_FAILED)
    _wait(watcher, together=bool(spaces))


def _enter(spec: Spec) -> str:
    """Enter namespaces; return how: "user" (with a user namespace), "root" (without), "" (not at all)."""
    if "user" not in spec.without and _enter_as_user():
        return "user"
    if os.geteuid() == 0 and "root" not in spec.without and _unshare(_SPACES):
        return "root"
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    return ""


def _enter_as_user() -> bool:
    uid, gid = os.geteuid(), os.getegid()
    mapper = identity.Mapper() if uid == 0 else None
    entered = _unshare(_SPACES | kernel.CLONE_NEWUSER)
    if mapper:
        mapped = mapper.finish(entered=entered)
        if entered and not mapped:
            raise PermissionError(errno.EPERM, "ids cannot be mapped")
    elif entered:
        identity.map_self(uid, gid)
    return entered


def _unshare(flags: int) -> bool:
    try:
        kernel.unshare(flags)
    except OSError:
        return False
    return True


def _wait(watcher: int, *, together: bool) -> None:
    """Wait for the watcher; on SIGTERM end it and, with it or by hand, everything below."""
    while os.waitpid(watcher, os.WNOHANG)[0] == 0:
        if signal.sigwait([signal.SIGCHLD, signal.SIGTERM]) == signal.SIGTERM:
            os.kill(watcher, signal.SIGKILL)
            os.waitpid(watcher, 0)
            break
    if not together:
        watch.sweep()
    os._exit(0)


def _watch(spec: Spec, report: Report, spaces: str, spare: int, lifeline: int) -> None:
    """Be init of the new pid namespace: build the root, start the program, report its end."""
    kernel.die_with_parent()
    if select.select([lifeline], [], [], 0)[0]:
        return  # the launcher died before the line above
    layers = ["processes", "network"] if spaces else []
    rooted, alone = False, False
    if spaces and "mounts" not in spec.without and filesystem.may_mount():
        try:
            alone = filesystem.build(spec.readable, [spec.workdir, *spec.writable], spec.devices)
        except OSError as failed:
            report.failed("filesystem", failed)
            return
        rooted = True
        layers.append("filesystem")
    if not spaces:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        try:
            _become(spec, report, layers, spaces=spaces, rooted=rooted, spare=spare)
        finally:
            os._exit(_FAILED)
    end = watch.until_end(child, spec, alone=alone)
    report.ended(end.status, end.peak_kb, end.cpu_s, end.stopped)
    if not spaces:
        watch.sweep()
    os._exit(0)


def _become(spec: Spec, report: Report, layers: list[str], *, spaces: str, rooted: bool, spare: int) -> None:
    """Turn this process into the program, or report what stood in the way."""
    step = "start"
    try:
        os.setsid()
        os.chdir(spec.workdir)
        step = "limits"
        limits.apply(spec, spaces=spaces, spare=spare)
        layers += ["memory", "count"]
        step = "identity"
        _change_identity(spec, rooted=rooted, spare=spare)
        layers += ["identity", *(["own-id"] if spare else [])]
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.die_with_parent()
        step = "landlock"
        level = _restrict_files(spec, alone=rooted)
        layers += [f"landlock-{level}"] if level else []
        step = "filter"
        if "filter" not in spec.without and syscalls.restrict(spec.candidate):
            layers.append("filter")
        step = "start"
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and that would be inherited
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        report.active(layers)
        os.execve(spec.argv[0], spec.argv, os.environ)
    except OSError as failed:
        report.failed(step, failed)


def _restrict_files(spec: Spec, *, alone: bool) -> int:
    if "landlock" in spec.without:
        return 0
    readable = [*filesystem.SYSTEM, *spec.readable, *(["/proc"] if alone else [])]
    return landlock.restrict(readable, [spec.workdir, *spec.writable], list(filesystem.DEVICES), spec.devices)


def _change_identity(spec: Spec, *, rooted: bool, spare: int) -> None:
    """Give up root. What the program is shown it may use whoever owns it; that right ends where its world does."""
    if not spare:
        kernel.keep_capabilities(())
        return
    walled = 0 if "landlock" in spec.without or "filter" in spec.without else landlock.version()
    usable = []
    if rooted or walled >= 3:  # before version 3 Landlock lets files be cut to nothing
        usable = [kernel.CAP_DAC_OVERRIDE, kernel.CAP_DAC_READ_SEARCH]
    elif walled:
        usable = [kernel.CAP_DAC_READ_SEARCH]
    _give_away([spec.workdir, *spec.writable], spare, deep=not rooted)
    identity.become(spare, tuple(number for number in usable if identity.held(number)))
    if not os.access(spec.workdir, os.W_OK):
        # access() ignores the right above, and gcc asks it; the folders on the way may be closed, this one is not.
        os.environ["TMPDIR"] = "."


def _give_away(folders: list[str], owner: int, *, deep: bool) -> None:
    for folder in folders:
        os.chown(folder, owner, owner)
        for path, _, names in os.walk(folder) if deep else ():
            for name in ("", *names):
                os.chown(os.path.join(path, name) if name else path, owner, owner, follow_symlinks=False)
