"""Signatures of exports, made and checked by OpenSSH's ssh-keygen, with the keys that people have already.

A signature is a file beside the export, in the form of `ssh-keygen -Y sign`: whoever has OpenSSH can check one without
KOPE. Who is known by which key stands in a file of allowed signers, the one that git reads too. Whether an origin is
believed stays a person's word, see trust.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from kope import process
from kope.errors import NotFound, StoreError, ToolMissing

_NAMESPACE = "kope"
_PROGRAM = "ssh-keygen"
_TIMEOUT_S = 600.0
_SIZE_LIMIT = 64 * 1024
_KEY = re.compile(r"with (\S+ key \S+)\s*$")


@dataclass(frozen=True, slots=True)
class Signer:
    """Who signed a file. name: as the file of allowed signers has it, "" for one that is not in it. key: its hash."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Signatures:
    """What is made of signatures. signers: the file that says who is known by which key. required: by one of them."""

    signers: Path | None = None
    required: bool = False


def signature_of(file: Path) -> Path:
    """Return where the signature of a file is kept."""
    return file.with_name(file.name + ".sig")


def sign(file: Path, key: Path) -> Path:
    """Sign a file; returns the signature's place, beside it.

    key: a private key of SSH, or the public half of one that ssh-agent holds. Raises StoreError, ToolMissing.
    """
    if not key.is_file():
        raise NotFound(f"there is no key {key}; make one with ssh-keygen -t ed25519 -f {key}")
    argv = [_PROGRAM, "-Y", "sign", "-f", str(key), "-n", _NAMESPACE, str(file)]
    done = process.run(argv, timeout_s=_TIMEOUT_S)
    if done.returncode != 0 or not signature_of(file).is_file():
        raise StoreError(
            f"nothing was signed with {key} ({_said(done.stderr)}); for a key with a passphrase run ssh-add {key} first"
        )
    return signature_of(file)


def copied_signature(file: Path, folder: Path) -> Path | None:
    """Copy the signature that lies beside a file into a folder of our own; None when there is none."""
    place = signature_of(file)
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as refused:
        raise StoreError(f"{place} cannot be read ({refused.strerror}); remove it, or ask for it again") from refused
    try:
        content = os.read(handle, _SIZE_LIMIT + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    finally:
        os.close(handle)
    if not 0 < len(content) <= _SIZE_LIMIT:
        raise StoreError(f"{place} is no signature; remove it, or ask for it again")
    copy = folder / "copy.sig"
    copy.write_bytes(content)
    return copy


def signer_of(file: Path, copy: Path, signature: Path, signers: Path | None) -> Signer:
    """Return who signed a file. copy: of the file, and the one that is read. signers: the file of allowed signers.

    Raises StoreError for a signature of anything else, or by a key that is not allowed to sign any more.
    """
    done = _checked(copy, "check-novalidate", signature)
    found = _KEY.search(done.stdout)
    if done.returncode != 0 or found is None:
        raise StoreError(
            f"{signature_of(file)} is no signature of {file} as it is ({_said(done.stderr)}); ask for both again"
        )
    if signers is None:
        return Signer("", found[1])
    if not signers.is_file():
        raise NotFound(f"there is no file {signers}; set signers to one that lists who signs, as git's allowed signers")
    argv = [_PROGRAM, "-Y", "find-principals", "-s", str(signature), "-f", str(signers)]
    known = process.run(argv, timeout_s=_TIMEOUT_S)
    name = known.stdout.partition("\n")[0].strip()
    if known.returncode != 0 or not name:
        return Signer("", found[1])
    done = _checked(copy, "verify", signature, "-f", str(signers), "-I", name)
    if done.returncode != 0:
        raise StoreError(f"{file} is signed by {name}, whom {signers} does not allow to ({_said(done.stderr)})")
    return Signer(name, found[1])


def look_at_signature(file: Path, copy: Path, signatures: Signatures) -> tuple[Signer | None, str]:
    """Return who signed a file, None when nobody did; and a note when that could not be looked at.

    Raises StoreError for a signature that does not hold, and when one is required that is not there.
    """
    if signatures.required and signatures.signers is None:
        raise NotFound(
            "nobody is known by a key yet; set signers to a file that lists who signs, as git's allowed signers"
        )
    signature = copied_signature(file, copy.parent)
    if signature is None:
        if signatures.required:
            raise StoreError(f"{file} is not signed; ask for {signature_of(file).name} as well")
        return None, ""
    try:
        signer = signer_of(file, copy, signature, signatures.signers)
    except ToolMissing as missing:
        if signatures.required:
            raise
        return None, f"the signature of {file.name} was not looked at: {missing}"
    if signatures.required and not signer.name:
        raise StoreError(f"{file} is signed with the {signer.key}, which is nobody's in {signatures.signers}")
    return signer, ""


def _checked(copy: Path, what: str, signature: Path, *more: str) -> process.Completed:
    argv = [_PROGRAM, "-Y", what, "-n", _NAMESPACE, "-s", str(signature), *more]
    return process.run(argv, timeout_s=_TIMEOUT_S, stdin=copy)


def _said(text: str) -> str:
    """Return what ssh-keygen said last, on one line."""
    line = text.strip().rpartition("\n")[2]
    return "".join(each if each.isprintable() else " " for each in line)[:200] or "it said nothing"
