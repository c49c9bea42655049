"""What export, import, merge and trust came to, as documents (schema/db_export.json and its kin) and as lines.

What is taken and why not is memory's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kope.memory.repair import Repaired
from kope.memory.share import Claim, Left, Source, Taken
from kope.model import Attempt
from kope.objective import typical_us

_SHOWN = 10


def export_document(left: Left, place: Path | None) -> dict[str, Any]:
    """Return what left as a JSON-able value; of what was taken out only what may be shown."""
    return {
        "file": None if place is None else str(place),
        "attempts": left.attempts,
        "content_hash": left.content_hash,
        "size_bytes": left.size_bytes,
        "rows": left.rows,
        "signature": None if left.signature is None else str(left.signature),
        "removed": [asdict(removal) for removal in left.removals],
    }


def export_lines(left: Left, place: Path | None) -> list[str]:
    """Return what left in sentences; with no place, what would."""
    what = f"{left.attempts} attempts"
    what = f"{place}: {what}, {size(left.size_bytes)}" if place else f"{what} would leave"
    lines = [f"{what}, content {left.content_hash[:12]}"]
    if left.signature is not None:
        lines.append(f"{left.signature}: its signature; whoever gets the one needs the other")
    counts: dict[str, int] = {}
    for removal in left.removals:
        counts[removal.kind] = counts.get(removal.kind, 0) + 1
    if counts:
        lines.append(
            ("taken out: " if place else "would be taken out: ")
            + ", ".join(f"{count} of kind {kind}" for kind, count in counts.items())
        )
    return lines


def import_document(taken: Taken) -> dict[str, Any]:
    """Return what came of taking a file in as a JSON-able value."""
    return {
        "file": taken.name,
        "origin": taken.origin,
        "attempts": taken.attempts,
        "new": taken.new,
        "known": taken.known,
        "completed": taken.completed,
        "forgotten": taken.forgotten,
        "distrusted": taken.distrusted,
        "without_vector": taken.without_vector,
        "conflicts": taken.conflicts,
        "refused": taken.refused,
        "signer": None if taken.signer is None else asdict(taken.signer),
        "reasons": [{"row": row, "why": why} for row, why in taken.reasons],
        "notes": taken.notes,
    }


def import_lines(taken: Taken) -> list[str]:
    """Return what came of taking a file in, in sentences."""
    parts = [f"{taken.new} new", f"{taken.known} known already"]
    for count, what in (
        (taken.completed, "completed by a fuller copy"),
        (taken.forgotten, "left out: forgotten here"),
        (taken.distrusted, "left out: their origin is distrusted"),
        (len(taken.conflicts), "disagreed on"),
        (taken.refused, "rows refused"),
    ):
        if count:
            parts.append(f"{count} {what}")
    lines = [f"{taken.name}: {taken.attempts} attempts: {', '.join(parts)}", *taken.notes]
    if taken.signer is not None:
        lines.append(f"signed by {taken.signer.name or 'nobody known here'}, {taken.signer.key}")
    lines += [f"refused: {row}: {why}" for row, why in taken.reasons[:_SHOWN]]
    if taken.refused > _SHOWN:
        lines.append(f"refused: {taken.refused - _SHOWN} more, see --json")
    if taken.conflicts:
        shown = ", ".join(name[:24] for name in taken.conflicts[:_SHOWN])
        lines.append(f"files disagree on {shown}; all versions are kept, none is believed (see kope db info --json)")
    return lines


def merge_document(place: Path, taken: Sequence[Taken], content_hash: str) -> dict[str, Any]:
    """Return what came of a merge as a JSON-able value."""
    return {
        "file": str(place),
        "content_hash": content_hash,
        "sources": [import_document(each) for each in taken],
    }


@dataclass(frozen=True, slots=True)
class Proof:
    """A claim, and the attempt it came to here; None, with the reason, when it could not be judged."""

    claim: Claim
    attempt: Attempt | None
    why_not: str


def proof_document(hardware: str, found: Sequence[Proof]) -> dict[str, Any]:
    """Return what became of claims as a JSON-able value; times in microseconds."""
    return {"hardware": hardware, "claims": [_proof(each) for each in found]}


def _proof(each: Proof) -> dict[str, Any]:
    claim, attempt = each.claim, each.attempt
    return {
        "task": claim.task_name,
        "origin": claim.origin,
        "claimed_attempt": claim.attempt_id,
        "claimed_us": claim.typical_us,
        "claimed_on": claim.hardware,
        "attempt": None if attempt is None else attempt.id,
        "verdict": None if attempt is None else attempt.outcome.verdict.value,
        "here_us": None if attempt is None else typical_us(attempt.outcome),
        "why_not": each.why_not,
    }


def proof_table(found: Sequence[Proof]) -> tuple[str, tuple[str, ...], list[tuple[str, ...]]]:
    """Return title, headings and a row per claim: what was claimed, and what was found here."""
    rows: list[tuple[str, ...]] = []
    for each in map(_proof, found):
        there = f"{each['claimed_us']:.3g} us on {each['claimed_on']}" if each["claimed_us"] else "no time"
        here = each["verdict"] or each["why_not"]
        here += f", {each['here_us']:.3g} us" if each["here_us"] else ""
        rows.append((each["task"], each["origin"], there, here))
    return "kernels from elsewhere", ("task", "from", "claimed", "here"), rows


def snapshot_document(place: Path) -> dict[str, Any]:
    """Return a snapshot as a JSON-able value."""
    return {"file": str(place), "size_bytes": place.stat().st_size}


def repair_document(path: Path, done: Repaired) -> dict[str, Any]:
    """Return what a repair came to as a JSON-able value: as a check, and what was done."""
    return {
        "path": str(path),
        "ok": not done.left,
        "problems": [asdict(problem) for problem in done.left],
        "repair": {
            "how": done.how,
            "file": None if done.file is None else str(done.file),
            "attempts": done.attempts,
            "lost": done.lost,
        },
    }


def repair_line(path: Path, done: Repaired) -> str:
    """Return what a repair came to in a sentence that ends with the next step."""
    if done.how == "nothing":
        return f"{path}: {done.attempts} attempts, nothing wrong"
    if done.how == "rebuilt":
        return f"{path}: made again what is derived of {done.attempts} attempts; as it was before: {done.file}"
    lost = f", {done.lost} could not be read or are not what their digests say" if done.lost else ""
    return f"{path}: saved {done.attempts} attempts into {done.file}{lost}; go on with --db {done.file}"


def trust_document(source: Source) -> dict[str, Any]:
    """Return an origin as a JSON-able value."""
    return asdict(source)


def source_line(source: Source) -> str:
    """Return an origin in a sentence."""
    label = f" ({source.label})" if source.label else ""
    return f"{source.id[:8]}{label}: {source.trust}, {source.attempts} attempts, {source.verified} verified there"


def size(size_bytes: int) -> str:
    """Return a size in words."""
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 100_000 else f"{size_bytes / 1e3:.0f} kB"
