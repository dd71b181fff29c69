# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of a sandbox with real nodes: a network namespace with a bridge, with the control plane and its nodes.

The process of this file holds the namespace. It also listens on loopback, outside, at the ports of the control plane,
and forwards what comes, so that clients need not enter the namespace. The addresses exist inside alone.

Standard library only, since it runs as a program.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import subprocess
import sys
from pathlib import Path

BRIDGE = "br-nodes"
ADDRESS = "10.77.0.1"
"""Where nodes reach the API server."""

MOST_NODES = 9
_CLONE_NEWNET = 0x40000000
_CHUNK = 1 << 16


def node_address(number: int) -> str:
    """The address of node 1, 2 ..."""
    return f"10.77.0.{10 + number}"


def pod_range(number: int) -> str:
    """The addresses of the pods of node 1, 2 ..."""
    return f"10.77.{100 + number}.0/24"


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        sys.exit(
            f"port {port} of 127.0.0.1 is taken: {error.strerror}; start the sandbox again, for other ports"
        )
    return listener


def _make() -> None:
    """Move this process into a network namespace of its own, with the bridge and the ways to the pods of each node."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace can be made")
    commands = [
        "link set lo up",
        f"link add {BRIDGE} type bridge",
        f"address add {ADDRESS}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ]
    for number in range(1, MOST_NODES + 1):
        commands.append(f"route add {pod_range(number)} via {node_address(number)}")
    for command in commands:
        done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"ip {command}: {done.stderr.strip()}")


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
        target.write_eof()


async def _forward(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
        inner_writer.close()
    writer.close()


async def _serve(listeners: dict[int, socket.socket], ready: Path) -> None:
    for port, listener in listeners.items():
        await asyncio.start_server(
            lambda reader, writer, port=port: _forward(port, reader, writer),  # type: ignore[misc]
            sock=listener,
        )
    ready.write_text(str(os.getpid()))
    await asyncio.Event().wait()


def main(arguments: list[str]) -> None:
    ready, *ports = arguments
    listeners = {int(port): _listen(int(port)) for port in ports}
    _make()
    asyncio.run(_serve(listeners, Path(ready)))


if __name__ == "__main__":
    main(sys.argv[1:])
