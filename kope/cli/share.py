"""`kope db export|import|merge|verify|trust|distrust|snapshot`: experience between databases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kope.cli import options
from kope.cli.output import print_json, print_table, progress, say
from kope.cli.setup import the_task

if TYPE_CHECKING:
    from kope.config import Settings
    from kope.memory.share import Claim, Redactor
    from kope.model import Attempt

_TrustOption = Annotated[
    bool, typer.Option("--trust", help="Believe it like what was tried here: only for files you know the way of.")
]

_SignedOption = Annotated[
    bool, typer.Option("--signed", help="Only when signed by somebody in the file that the setting signers names.")
]


def register(group: typer.Typer) -> None:
    """Add the commands to the group `db`."""
    group.command("export", epilog="Example: kope db export team.db --task rms_norm --label alice")(export)
    group.command("import", epilog="Example: kope db import team.db")(take_in)
    group.command("merge", epilog="Example: kope db merge alice.db bob.db -o team.db")(merge)
    group.command("verify", epilog="Example: kope db verify --top 3")(verify)
    group.command("trust", epilog="Example: kope db trust alice")(trust_origin)
    group.command("snapshot", epilog="Example: kope db snapshot backup.db")(snapshot)
    group.command("distrust", epilog="Example: kope db distrust alice")(distrust_origin)


def export(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A new file; .jsonl gives JSON Lines.")] = None,
    task: Annotated[
        list[str] | None, typer.Option(help="Only this operator, by name or digest; may be repeated.")
    ] = None,
    since: Annotated[datetime | None, typer.Option(help="Only what was tried since then, UTC.")] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="Only from this target: twin, ascend; may be repeated.")
    ] = None,
    best_only: Annotated[
        bool, typer.Option("--best-only", help="Of every operator and hardware the fastest verified kernel only.")
    ] = False,
    no_code: Annotated[bool, typer.Option("--no-code", help="Without sources, and what quotes them.")] = False,
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Without free texts: numbers, moves and plans only.")
    ] = False,
    no_vectors: Annotated[
        bool, typer.Option("--no-vectors", help="Without embeddings; made anew where it is taken in.")
    ] = False,
    no_redact: Annotated[
        bool, typer.Option("--no-redact", help="Keep secrets, paths, names: for your own backups only.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; list what would be taken out.")] = False,
    sign: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Sign it with an SSH key; the signature is FILE.sig.")
    ] = None,
    label: Annotated[str, typer.Option(help="Who made the file, as others will see it.")] = "",
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Write what the database knows into one file for others. Secrets, paths, names and addresses are taken out."""
    if file is None and not dry_run:
        raise typer.BadParameter("give FILE, or --dry-run")
    from datetime import UTC

    from kope import config
    from kope.memory import share
    from kope.report import sharing

    settings = config.load({"db": db})
    choice = share.Choice(
        tuple(task or ()), since.replace(tzinfo=since.tzinfo or UTC) if since else None, tuple(target or ()), best_only
    )
    form = share.Form(
        lines=file is not None and file.suffix == ".jsonl",
        redactor=None if no_redact else _redactor(settings),
        code=not no_code,
        text=not no_text,
        vectors=not no_vectors,
        label=label,
        key=sign,
    )
    place = None if dry_run else file
    with progress() as tell:
        left = share.export_file(settings.db, place, choice, form, _shown(tell))
    if json:
        print_json(sharing.export_document(left, place))
        return
    if dry_run and left.removals:
        rows = [(each.kind, each.where, each.row, each.shown) for each in left.removals]
        print_table("would be taken out", ("kind", "where", "row", "what"), rows)
    for line in sharing.export_lines(left, place):
        say(line)


def take_in(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export, or somebody's kope.db.")],
    trust: _TrustOption = False,
    signed: _SignedOption = False,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Take in what another database knows, checked and in quarantine."""
    from kope import config
    from kope.memory import share
    from kope.report import sharing

    settings = config.load({"db": db})
    signatures = share.Signatures(settings.signers, signed)
    with progress() as tell:
        taken = share.import_file(settings.db, file, trusted=trust, signatures=signatures, progress=_shown(tell))
    if json:
        print_json(sharing.import_document(taken))
        return
    for line in sharing.import_lines(taken):
        say(line)
    if taken.without_vector and taken.new:
        say(f"{taken.without_vector} came without a vector; kope db reembed makes them")


def merge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Exports or databases; none is changed.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The new database.")],
    trust: _TrustOption = False,
    signed: _SignedOption = False,
    json: options.JsonOption = False,
) -> None:
    """Make one new database of several, whatever their order."""
    from kope import config
    from kope.memory import share
    from kope.report import sharing

    signatures = share.Signatures(config.load().signers, signed)
    with progress() as tell:
        taken, content_hash = share.merge_files(
            files, output, trusted=trust, signatures=signatures, progress=_shown(tell)
        )
    if json:
        print_json(sharing.merge_document(output, taken, content_hash))
        return
    for each in taken:
        for line in sharing.import_lines(each):
            say(line)
    say(f"{output}: content {content_hash[:12]}")


def verify(
    top: Annotated[int, typer.Option(min=1, max=1000, help="How many kernels, the best of every operator first.")] = 1,
    task: Annotated[str | None, typer.Option("--task", help="Only of this operator: a folder, or a name.")] = None,
    target: options.TargetOption = None,
    chip: options.ChipOption = None,
    compiler: options.CompilerOption = None,
    jobs: options.JobsOption = None,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Judge the best kernels from elsewhere here, in the sandbox. What holds is evidence of our own."""
    from kope import config, proof, wiring
    from kope.memory import share
    from kope.report import sharing

    settings = config.load({"target": target, "chip": chip, "compiler": compiler, "jobs": jobs, "db": db})
    wanted = the_task(settings, task).digest if task is not None else ""
    hardware = wiring.evaluator(settings).fingerprint().hardware
    claims = share.claims_of(settings.db, hardware, task=wanted, count=top)
    found: list[sharing.Proof] = []
    with progress() as tell:
        for number, claim in enumerate(claims):
            tell(f"judging {number + 1} of {len(claims)}: {claim.task_name} from {claim.origin}")
            found.append(sharing.Proof(claim, *_proved(claim, settings, proof, wiring)))
    if json:
        print_json(sharing.proof_document(hardware, found))
    elif not found:
        say(f"nothing from elsewhere waits to be judged on {hardware}")
    else:
        print_table(*sharing.proof_table(found))


def _proved(claim: Claim, settings: Settings, proof: Any, wiring: Any) -> tuple[Attempt | None, str]:
    """Return the attempt that came of a claim, or why it could not be judged."""
    from kope.errors import TaskError

    try:
        task = the_task(settings, claim.task_name)
    except TaskError:
        return None, f"there is no task {claim.task_name} here"
    if task.digest != claim.task_digest:
        return None, f"task {claim.task_name} is another version here"
    with wiring.open_session([task], wiring.Plan("ask", agent=proof.AGENT), settings) as opened:
        return proof.prove(claim, task, opened.parts, opened.memory), ""


def trust_origin(
    origin: Annotated[str, typer.Argument(help="Its label, id, or the beginning of it; kope db info lists them.")],
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Believe what came from an origin like what was tried here."""
    _set_trust(origin, "trusted", db, json)


def distrust_origin(
    origin: Annotated[str, typer.Argument(help="Its label, id, or the beginning of it; kope db info lists them.")],
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Never recall what came from an origin, nor take in more of it. `kope db forget --origin` removes it."""
    _set_trust(origin, "distrusted", db, json)


def snapshot(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A new file [beside the database, with the time in its name].")
    ] = None,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Write a whole copy of the database, whoever is writing it. Never copy the file by other means."""
    from kope import config
    from kope.memory import share
    from kope.report import sharing

    place = share.snapshot_file(config.load({"db": db}).db, file)
    if json:
        print_json(sharing.snapshot_document(place))
    else:
        say(f"{place}: {sharing.size(place.stat().st_size)}")


def _set_trust(origin: str, trust: str, db: Path | None, json: bool) -> None:
    from kope import config
    from kope.memory import share
    from kope.report import sharing

    source = share.trust_origin(config.load({"db": db}).db, origin, trust)
    if json:
        print_json(sharing.trust_document(source))
    else:
        say(sharing.source_line(source))


def _redactor(settings: Settings) -> Redactor:
    from kope.memory import share

    return share.Redactor(share.names_here([settings.llm_base_url] if settings.llm_base_url else []))


def _shown(tell: Callable[[str], None]) -> Callable[[str, int, int], None]:
    return lambda what, done, count: tell(f"{what}: {done} of {count}")
