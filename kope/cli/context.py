"""`kope context`: the prompt that would be sent for a task, and where its tokens go."""

from __future__ import annotations

from typing import Annotated

import typer

from kope.cli import options
from kope.cli.output import print_json, print_rich, say
from kope.cli.setup import the_task


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("context", epilog="Example: kope context rms_norm --window 16000")(context)


def context(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A folder, or a name on the task path.")],
    target: options.TargetOption = None,
    chip: options.ChipOption = None,
    memory: Annotated[str, typer.Option(help="What may be recalled: on, off, placebo or only:FILE.")] = "on",
    window: Annotated[int | None, typer.Option(min=1, help="Tokens of the model's window.")] = None,
    ledger: Annotated[bool, typer.Option("--ledger", help="Show only where the tokens go.")] = False,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Show the prompt a model would get for a task now, with its token ledger. Nothing is recorded."""
    from kope import asking, config, wiring
    from kope.report.prompt import ledger_table, prompt_document

    settings = config.load({"target": target, "chip": chip, "db": db})
    plan = wiring.Plan("ask", memory=memory, window=window or wiring.DEFAULT_WINDOW)
    found = the_task(settings, task)
    with wiring.open_view(plan, settings) as opened:
        _, made = asking.prompt_for(found, opened.parts)
    budget = wiring.budget(plan)
    if json:
        print_json(prompt_document(made, budget))
        return
    if not ledger:
        typer.echo(made.text)
    print_rich(ledger_table(made))
    say(f"{made.tokens} tokens of {budget.prompt}")
