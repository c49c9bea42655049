"""An SSH server on loopback that runs what it is asked to in a shell; prints its port, serves until it is killed."""

from __future__ import annotations

import asyncio
import sys

import asyncssh


class Server(asyncssh.SSHServer):
    """Lets everybody in who comes with the key of the test."""

    def begin_auth(self, username: str) -> bool:
        return True


async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run the command as sshd does: in the user's shell, all three streams passed on."""
    shell = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        process.command or "exit 1",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
    )
    await process.redirect(stdin=shell.stdin, stdout=shell.stdout, stderr=shell.stderr)
    status = await shell.wait()
    await process.stdout.drain()
    process.exit(status)


async def serve(host_key: str, known_keys: str) -> None:
    """Serve on a free port."""
    server = await asyncssh.create_server(
        Server,
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        authorized_client_keys=known_keys,
        process_factory=run,
        encoding=None,
    )
    sys.stdout.write(f"{server.get_port()}\n")
    sys.stdout.flush()
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
