# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process is at the other end of a loopback connection (Linux, IPv4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

Address = tuple[str, int]


class NoOwnerError(LookupError):
    """The other end belongs to no process that could be found, or to this one."""


def owners_of_peer(transport: asyncio.BaseTransport | None) -> list[int]:
    """Process ids that hold the other end of this connection. Raises NoOwnerError."""
    if transport is None:
        raise NoOwnerError("the connection is closed: its owner is unknown")
    peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    inode = _inode((peer[0], peer[1]), (own[0], own[1]))
    owners = [pid for pid in _processes() if f"socket:[{inode}]" in _open_files(pid)]
    if os.getpid() in owners or not owners:
        raise NoOwnerError(
            f"{peer[0]}:{peer[1]} belongs to {owners or 'no process'}, this is process {os.getpid()}"
        )
    return owners


def _inode(local: Address, remote: Address) -> str:
    wanted = [_kernel_form(local), _kernel_form(remote)]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == wanted:
            return fields[9]
    raise NoOwnerError(f"no connection from {local} to {remote}")


def _kernel_form(address: Address) -> str:
    """Bytes of the address as the kernel prints them: a number in the machine's byte order."""
    number = int.from_bytes(socket.inet_aton(address[0]), "little")
    return f"{number:08X}:{address[1]:04X}"


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _open_files(pid: int) -> set[str]:
    files = set()
    with contextlib.suppress(OSError):  # it ended, or belongs to another user
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                files.add(os.readlink(entry))
    return files
