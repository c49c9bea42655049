"""Who signed an export: the very file is signed, what does not hold is refused, and nothing is believed for it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kope.errors import NotFound, StoreError
from kope.memory import Store
from kope.memory.share import Choice, Form, Signatures, export_file, import_file, merge_files, signature
from tests.memory.samples import begin, grow, rows, task_of

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen of OpenSSH")


def new_key(folder: Path, name: str) -> Path:
    place = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", place], check=True)
    return place


@pytest.fixture
def alice(tmp_path: Path) -> Path:
    return new_key(tmp_path, "alice")


@pytest.fixture
def signed(alice: Path, tmp_path: Path) -> Path:
    """An export that alice signed."""
    with Store.open(tmp_path / "hers.db") as store:
        grow(store, begin(store, task_of()), 4)
    place = tmp_path / "hers-export.db"
    left = export_file(tmp_path / "hers.db", place, Choice(), Form(key=alice))
    assert left.signature == tmp_path / "hers-export.db.sig"
    return place


def allowed(folder: Path, **keys: Path) -> Path:
    """A file of allowed signers: each name with a key."""
    place = folder / "signers"
    place.write_text("".join(f"{name}@team {key.with_suffix('.pub').read_text()}" for name, key in keys.items()))
    return place


def test_import_says_who_signed(signed: Path, alice: Path, tmp_path: Path) -> None:
    signers = allowed(tmp_path, bob=new_key(tmp_path, "bob"), alice=alice)
    taken = import_file(tmp_path / "own.db", signed, signatures=Signatures(signers, required=True))
    assert taken.new == 4
    assert taken.signer is not None and taken.signer.name == "alice@team"
    assert taken.signer.key.startswith("ED25519 key SHA256:")
    assert {trust for (trust,) in rows(tmp_path / "own.db", "SELECT trust FROM origins")} == {"own", "quarantined"}
    (merged,), _ = merge_files([signed], tmp_path / "team.db", signatures=Signatures(signers))
    assert merged.signer == taken.signer


def test_openssh_alone_checks_a_signature(signed: Path, alice: Path, tmp_path: Path) -> None:
    signers = str(allowed(tmp_path, alice=alice))
    argv = ["ssh-keygen", "-Y", "verify", "-n", "kope", "-I", "alice@team", "-f", signers, "-s"]
    with signed.open("rb") as content:
        subprocess.run([*argv, str(signature.signature_of(signed))], stdin=content, check=True, capture_output=True)


@pytest.mark.parametrize("required", [False, True])
def test_changed_file_is_refused_and_nothing_is_made(signed: Path, alice: Path, tmp_path: Path, required: bool) -> None:
    content = bytearray(signed.read_bytes())
    content[-1] ^= 1
    signed.write_bytes(content)
    signers = Signatures(allowed(tmp_path, alice=alice), required)
    with pytest.raises(StoreError, match="hers-export.db.sig is no signature of .* ask for both again"):
        import_file(tmp_path / "own.db", signed, signatures=signers)
    assert not (tmp_path / "own.db").exists()


def test_unknown_key_is_named_and_refused_only_where_one_is_required(signed: Path, tmp_path: Path) -> None:
    signers = allowed(tmp_path, bob=new_key(tmp_path, "bob"))
    with pytest.raises(StoreError, match=r"is signed with the ED25519 key SHA256:\S+, which is nobody's"):
        import_file(tmp_path / "own.db", signed, signatures=Signatures(signers, required=True))
    taken = import_file(tmp_path / "own.db", signed, signatures=Signatures(signers))
    assert (taken.new, taken.signer and taken.signer.name) == (4, "")


def test_unsigned_file_is_refused_only_where_a_signature_is_required(signed: Path, alice: Path, tmp_path: Path) -> None:
    signature.signature_of(signed).unlink()
    with pytest.raises(StoreError, match="is not signed; ask for hers-export.db.sig as well"):
        import_file(tmp_path / "own.db", signed, signatures=Signatures(allowed(tmp_path, alice=alice), required=True))
    assert import_file(tmp_path / "own.db", signed).signer is None


def test_signer_whose_time_is_over_is_refused(signed: Path, alice: Path, tmp_path: Path) -> None:
    signers = tmp_path / "signers"
    signers.write_text(f'alice@team valid-before="20200101" {alice.with_suffix(".pub").read_text()}')
    with pytest.raises(StoreError, match=r"does not allow to|is nobody's in"):
        import_file(tmp_path / "own.db", signed, signatures=Signatures(signers, required=True))
    assert not (tmp_path / "own.db").exists()


def _link(place: Path) -> None:
    content = place.read_bytes()
    place.unlink()
    place.with_name("elsewhere").write_bytes(content)
    place.symlink_to(place.with_name("elsewhere"))


def _huge(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1 << 40)


def _folder(place: Path) -> None:
    place.unlink()
    place.mkdir()


@pytest.mark.parametrize("trick", [_link, _huge, _folder, lambda place: place.write_text("")])
def test_hostile_signature_is_one_line(signed: Path, tmp_path: Path, trick: Callable[[Path], None]) -> None:
    trick(signature.signature_of(signed))
    with pytest.raises(StoreError) as refused:
        import_file(tmp_path / "own.db", signed)
    assert "hers-export.db.sig" in str(refused.value) and "\n" not in str(refused.value)


def test_without_the_program_import_says_so_and_requiring_fails(
    signed: Path, alice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signers = allowed(tmp_path, alice=alice)
    monkeypatch.setattr(signature, "_PROGRAM", "no-such-ssh-keygen")
    taken = import_file(tmp_path / "own.db", signed)
    assert (taken.new, taken.signer) == (4, None)
    assert [note for note in taken.notes if "signature of hers-export.db was not looked at" in note]
    with pytest.raises(Exception, match="no-such-ssh-keygen is not installed"):
        import_file(tmp_path / "other.db", signed, signatures=Signatures(signers, required=True))


def test_key_that_cannot_sign_leaves_no_file(signed: Path, tmp_path: Path) -> None:
    (tmp_path / "no-key").write_text("hello")
    for key, said in (
        ("no-key", "nothing was signed with .* ssh-add"),
        ("missing", "there is no key .* ssh-keygen -t"),
    ):
        with pytest.raises((StoreError, NotFound), match=said):
            export_file(tmp_path / "hers.db", tmp_path / "two.db", Choice(), Form(key=tmp_path / key))
    assert not (tmp_path / "two.db").exists() and not (tmp_path / "two.db.sig").exists()


def test_export_as_lines_is_signed_as_well(alice: Path, signed: Path, tmp_path: Path) -> None:
    left = export_file(tmp_path / "hers.db", tmp_path / "x.jsonl", Choice(), Form(lines=True, key=alice))
    assert left.signature is not None and left.signature.name == "x.jsonl.sig"
    copy = tmp_path / "x.jsonl"
    assert signature.signer_of(copy, copy, left.signature, allowed(tmp_path, alice=alice)).name == "alice@team"
