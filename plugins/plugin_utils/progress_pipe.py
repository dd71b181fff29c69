# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A named pipe on which a module writes lines while it runs, and the thread that shows them."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import typing as t

from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import folder_of_run

SECONDS = 0.5
"""How long the end of a module waits for its lines to be shown."""

_DRAINED = b"null\n"
_CLOSED = b"false\n"


class PipeReader:
    """A named pipe, and a thread that shows each line that a module writes to it. Ansible removes its folder
    at the end of the play."""

    def __init__(self, show: t.Callable[[str], None]) -> None:
        folder = tempfile.mkdtemp(prefix="virt-placement-", dir=folder_of_run())
        self.path = os.path.join(folder, "progress")
        os.mkfifo(self.path, 0o600)
        self._show = show
        self._file = open(self.path, "r+b", buffering=0)  # noqa: SIM115  the thread closes it
        self._drained = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def drain(self) -> None:
        """Wait until all that was written is shown."""
        self._end(_DRAINED)

    def close(self) -> None:
        """The same, and the thread ends."""
        self._end(_CLOSED)

    def _end(self, mark: bytes) -> None:
        self._drained.clear()
        self._file.write(mark)
        self._drained.wait(SECONDS)

    def _read(self) -> None:
        rest = b""
        with self._file:
            while True:
                *lines, rest = (rest + self._file.read(1 << 16)).split(b"\n")
                for line in lines:
                    if line == _CLOSED.strip():
                        self._drained.set()
                        return
                    if line == _DRAINED.strip():
                        self._drained.set()
                    else:
                        self._show(json.loads(line))
