"""What can go wrong in KOPE itself.

A kernel that fails is an `Outcome`, never one of these. An exception means that KOPE, its configuration or its machine
is at fault. Every message is one line that ends with the next step; the command line prints it and exits with 1.

    KopeError
    ├── ConfigError         a setting, flag or kope.toml entry that cannot be used
    ├── TaskError           a task folder that is malformed or cannot run
    │   └── ReferenceError_ its reference failed, hung or returned something unusable
    ├── StoreError          the experience database
    │   ├── NotFound        no such row: id, task, incumbent
    │   ├── SchemaError     made by a newer KOPE, or not a KOPE database
    │   ├── ReadOnly        the file or its folder cannot be written
    │   └── Corrupt         SQLite says the file is damaged
    ├── TemplateError       a missing template or an undefined variable
    ├── DeriveError         a reference that cannot be turned into a kernel; names the node
    ├── ProposerError       the proposer's own machinery failed (not: its kernel was wrong)
    ├── ToolError           an external program; carries `argv`
    │   ├── ToolMissing     not installed; the message says how to get it
    │   └── ToolTimeout     KOPE's own tool (not the candidate) did not answer in time
    ├── LaunchError         a foreign kernel or its launch description cannot be used
    ├── SandboxError        the machine refuses a protection that is required
    └── MachineError        disk full, ...
        └── CaseTooLarge    too little memory or disk for a case
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class KopeError(Exception):
    """Base of everything KOPE raises on purpose."""


class ConfigError(KopeError):
    """A setting cannot be used."""


class TaskError(KopeError):
    """A task folder is malformed or cannot run."""


class ReferenceError_(TaskError):
    """A task's reference failed, hung, or returned something unusable."""


class StoreError(KopeError):
    """The experience database could not do what was asked; the file is as it was."""


class NotFound(StoreError):
    """No such row."""


class SchemaError(StoreError):
    """The file was made by a newer KOPE, or is not a KOPE database."""


class ReadOnly(StoreError):
    """The database or its folder cannot be written."""


class Corrupt(StoreError):
    """SQLite reports damage."""


class TemplateError(KopeError):
    """A template is missing or reads a name its context does not have."""


class DeriveError(KopeError):
    """A reference cannot be turned into a kernel."""


class ProposerError(KopeError):
    """The proposer's own machinery failed. calls: records of what it had sent or run, as in Proposal."""

    def __init__(self, message: str, calls: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.calls = tuple(calls)


class ToolError(KopeError):
    """An external program failed KOPE."""

    def __init__(self, message: str, argv: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.argv = tuple(argv)


class ToolMissing(ToolError):
    """A program is not installed."""


class ToolTimeout(ToolError):
    """One of KOPE's own tools did not answer in time."""


class LaunchError(KopeError):
    """A kernel source or launch description that cannot be used as it is."""


class SandboxError(KopeError):
    """A protection that is required cannot be had on this machine."""


class MachineError(KopeError):
    """The machine cannot do it: disk full, too little memory."""


class CaseTooLarge(MachineError):
    """A case needs more memory or disk than there is."""
