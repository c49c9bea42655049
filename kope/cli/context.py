"""`kope context`: the prompt that would be sent for a task, where its tokens go, and where those of sessions went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kope.cli import options
from kope.cli.output import print_json, print_rich, say
from kope.cli.setup import the_task

if TYPE_CHECKING:
    from kope.config import Settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("context", epilog="Example: kope context rms_norm --window 16000")(context)


def context(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="A folder, or a name on the task path.")] = None,
    target: options.TargetOption = None,
    chip: options.ChipOption = None,
    memory: options.MemoryOption = "on",
    context: options.ContextOption = "active",
    window: options.WindowOption = None,
    ledger: Annotated[bool, typer.Option("--ledger", help="Show only where the tokens go.")] = False,
    spent: Annotated[
        bool, typer.Option("--spent", help="Show where the tokens of all prompts went, by session and role, instead.")
    ] = False,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Show the prompt a model would get now, with its token ledger. Nothing is recorded."""
    from kope import asking, config, wiring
    from kope.report.prompt import ledger_table, prompt_document

    options.check_context(context)
    settings = config.load({"target": target, "chip": chip, "db": db, "window": window})
    if spent:
        if task is not None:
            raise typer.BadParameter("--spent is about sessions; leave TASK out")
        _spent(settings, as_json=json)
        return
    if task is None:
        raise typer.BadParameter("give TASK, or --spent")
    plan = wiring.Plan("ask", memory=memory, context=context)
    found = the_task(settings, task)
    with wiring.open_view(plan, settings) as opened:
        _, made = asking.prompt_for(found, opened.parts)
    budget = wiring.budget(plan, settings)
    if json:
        print_json(prompt_document(made, budget))
        return
    if not ledger:
        typer.echo(made.text)
    print_rich(ledger_table(made))
    say(f"{made.tokens} tokens of {budget.prompt}, {made.counted}")


def _spent(settings: Settings, *, as_json: bool) -> None:
    from kope import wiring
    from kope.report.prompt import spent_document, spent_table

    with wiring.open_existing(settings) as store:
        sums = store.prompt_sums()
    if as_json:
        print_json(spent_document(sums))
    elif sums:
        print_rich(spent_table(sums))
    else:
        say("no prompt was sent yet; kope ask TASK, or kope optimize TASK --proposer llm")
