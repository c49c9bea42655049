"""`kope mcp`: memory, evaluator and documentation for other agents, over the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kope.cli.output import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("mcp", epilog="Example: kope mcp --folder ops")(mcp)


def mcp(
    folder: Annotated[
        Path, typer.Option(help="Where the database and the tasks are; nothing outside of it is reached.")
    ] = Path(),
    http: Annotated[
        int | None,
        typer.Option("--http", min=1, max=65535, help="Serve HTTP on this port of 127.0.0.1 instead of stdio."),
    ] = None,
) -> None:
    """Serve the memory and the evaluator to an agent over MCP.

    Over stdio the agent starts this command itself. With --http a token is needed: the one in the variable that
    mcp_token_env names, else one is made and printed.
    """
    from kope import config, resources
    from kope.errors import ConfigError
    from kope.mcp.workbench import Workbench

    try:
        from kope.mcp.http import new_token, serve
        from kope.mcp.server import make_server
    except ImportError as missing:
        raise ConfigError(f"kope mcp needs the extra mcp ({missing.name}): {resources.install('mcp')}") from None
    settings = config.load(cwd=folder.resolve()) if folder.is_dir() else None
    server = make_server(Workbench(folder, settings))
    if http is None:
        server.run("stdio")
        return
    token = settings.secret(settings.mcp_token_env) if settings is not None and settings.mcp_token_env else ""
    if not token:
        token = new_token()
        say(f"token: {token}", to_stderr=True)
    say(f"http://127.0.0.1:{http}/mcp", to_stderr=True)
    serve(server, http, token)
