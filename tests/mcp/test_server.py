"""kope mcp end to end, with the SDK's own client: over stdio on the real twin, over HTTP with its token."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.target.launching import changed, kernel

pytestmark = pytest.mark.extra("mcp")
ROOT = Path(__file__).parents[2]
TOOLS = {"tasks", "ask", "tell", "evaluate", "context", "best", "recall", "neighbourhood", "docs_search"}


def environment(cache: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "KOPE_CACHE": str(cache), **more}


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "kope", "mcp", "--folder", str(folder), *more]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "ops"
    made.mkdir()
    return made


def document(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def test_agent_works_on_a_task_over_stdio(folder: Path, twin_cache: Path) -> None:
    import anyio
    from mcp import Client, StdioServerParameters

    cache = twin_cache.parent
    program, *arguments = command(folder)
    server = StdioServerParameters(command=program, args=arguments, env=environment(cache), cwd=str(folder))
    heard: list[str] = []

    async def progress(value: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async def work() -> None:
        async with Client(server) as client:
            listed = await client.list_tools()
            assert {tool.name for tool in listed.tools} == TOOLS
            assert all(tool.description and tool.input_schema["type"] == "object" for tool in listed.tools)

            asked = document(await client.call_tool("ask", {"task": "exp"}))
            assert asked["template"] == "prompts/draft" and "## Operator: exp" in asked["prompt"]
            broken = changed(kernel("exp"), "Exp(y, x, n);", "Exb(y, x, n);")
            told = document(await client.call_tool("tell", {"task": "exp", "answer": broken, "ask": asked["ask"]}))
            assert told["attempt"]["stage"] == "compile" and told["next"].startswith("repair compile-error")

            again = document(await client.call_tool("ask", {"task": "exp"}))
            assert again["template"] == "prompts/repair_compile" and "Exb" in again["prompt"]
            reply = (
                "A typo.\n\nMove: fix-name\n\n<<<<<<< SEARCH\nExb(y, x, n);\n=======\nExp(y, x, n);\n>>>>>>> REPLACE\n"
            )
            call = {"task": "exp", "answer": reply, "ask": again["ask"]}
            told = document(await client.call_tool("tell", call, progress_callback=progress))
            assert told["attempt"]["verdict"] == "verified" and told["attempt"]["move"] == "fix-name"

            best = document(await client.call_tool("best", {"task": "exp"}))
            assert best["source"] == kernel("exp")
            recalled = document(await client.call_tool("recall", {"text": "fix-name", "task": "exp"}))
            assert "fix-name" in recalled["tree"]
            around = document(await client.call_tool("neighbourhood", {"experience": recalled["items"][0]["id"]}))
            assert around["experience"]["id"] == recalled["items"][0]["id"]
            found = document(await client.call_tool("docs_search", {"text": "SetFlag hang"}))
            assert found["passages"]

            refused = await client.call_tool("best", {"task": "../../etc"})
            assert refused.is_error and "outside" in refused.content[0].text

    anyio.run(work)
    assert "judging on the 20 cases of exp" in heard
    assert [path.name for path in folder.iterdir()] == ["kope.db"]


@contextmanager
def serving(folder: Path, env: dict[str, str]) -> Iterator[int]:
    """Start the server on a free port, and end it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(command(folder, "--http", str(port)), env=env, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, server.stderr
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait(timeout=20)
        if server.stderr is not None:
            server.stderr.close()


def test_http_needs_the_token_and_a_loopback_name(folder: Path, twin_cache: Path) -> None:
    import anyio
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    (folder / "kope.toml").write_text('mcp_token_env = "MY_TOKEN"\n')
    with serving(folder, environment(twin_cache.parent, MY_TOKEN="s3cret-token")) as port:
        url = f"http://127.0.0.1:{port}/mcp"

        async def work() -> None:
            headers = {"Authorization": "Bearer s3cret-token"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=60) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                found = document(await client.call_tool("docs_search", {"text": "DataCopyPad"}))
                assert found["passages"]

        anyio.run(work)
        for headers in ({}, {"Authorization": "Bearer s3cret"}, {"Authorization": "s3cret-token"}):
            answer = httpx2.post(url, json={}, headers=headers, trust_env=False)
            assert answer.status_code == 401
        rebound = {"Authorization": "Bearer s3cret-token", "Host": "evil.example"}
        assert httpx2.post(url, json={}, headers=rebound, trust_env=False).status_code in (400, 403, 421)
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.1", port)) != 0
