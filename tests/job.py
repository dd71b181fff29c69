# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A play with one rollout task, or a playbook, as a person or a job engine runs it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import yaml

from dev.matrix import Prepared
from sandbox.fault_actions import Freeze
from sandbox.fault_proxy import Rule
from tests import process_tree
from tests.shop import PATIENCE, Object, Shop

CHECKOUT = Path(__file__).resolve().parent.parent
INVENTORY = "[cluster]\nlab ansible_connection=local ansible_python_interpreter={python}\n"


class Play(subprocess.Popen[str]):
    """ansible-playbook with its children. It ends with its test at the latest."""

    def lines(self) -> t.Generator[str, None, None]:
        """The lines that it prints from now on. It is killed where it takes longer than PATIENCE."""
        assert self.stdout is not None
        limit = threading.Timer(PATIENCE, self.end)
        limit.start()
        try:
            while line := self.stdout.readline():
                yield line
        finally:
            limit.cancel()

    def until_line(self, text: str) -> str:
        """What it prints up to a line with this text.

        Raises AssertionError with all that it printed where it ends without such a line.
        """
        output = ""
        with contextlib.closing(self.lines()) as lines:
            for line in lines:
                output += line
                if text in line:
                    return output
        raise AssertionError(f"no line with {text!r}:\n{output}")

    def rest(self) -> str:
        """What it prints from now on until it has ended."""
        output = "".join(self.lines())
        self.wait(PATIENCE)
        return output

    def end(self) -> None:
        """Kill it and its children, where it has not ended."""
        if self.returncode is None:
            process_tree.kill(self.pid)
            self.wait(PATIENCE)


_STARTED: list[Play] = []


def end_plays() -> None:
    """End all that jobs have started, which a test that failed has left running."""
    while _STARTED:
        with _STARTED.pop() as play:
            play.end()


class Job:
    """Writes the play into `folder` and runs it as an identity of the sandbox, with the ansible-core of the tests or
    that of `release`."""

    def __init__(
        self,
        shop: Shop,
        folder: Path,
        module: str = "rollout",
        identity: str = "mover",
        release: Prepared | None = None,
    ) -> None:
        self.shop, self.folder, self.module, self.identity = shop, folder, module, identity
        self._release = release
        python = release.venv / "bin" / "python" if release else sys.executable
        (folder / "hosts").write_text(INVENTORY.format(python=python))

    def write(self, *, keywords: Object | None = None, **options: t.Any) -> Path:
        if self.module == "rollout":
            options = {"namespaces": [self.shop.namespace], **options}
        task = {
            "name": "Roll out",
            f"virt.placement.{self.module}": options,
            "register": "rolled_out",
            **(keywords or {}),
        }
        play = {"hosts": "cluster", "gather_facts": False, "tasks": [task]}
        path = self.folder / "play.yml"
        path.write_text(yaml.safe_dump([play]))
        return path

    def environment(self, kubeconfig: Path | None = None) -> dict[str, str]:
        found = kubeconfig or self.shop.sandbox.kubeconfig(self.identity)
        environment = {
            **os.environ,
            "KUBECONFIG": str(found),
            "ANSIBLE_NOCOLOR": "1",
            "TMPDIR": str(self.folder),  # a module that is killed leaves files
        }
        if self._release is not None:
            programs = str(self._release.venv / "bin")
            environment["PATH"] = os.pathsep.join([programs, environment["PATH"]])
            trees = [CHECKOUT / "build" / "collections", self._release.collections]
            environment["ANSIBLE_COLLECTIONS_PATH"] = os.pathsep.join(map(str, trees))
            environment["PYTHONDONTWRITEBYTECODE"] = "1"  # several Pythons read the same checkout
        return environment

    def start(self, *arguments: str, through: Path | None = None, **options: t.Any) -> Play:
        """`through`: a kubeconfig of the identity other than the sandbox's own."""
        return self.start_play(self.write(**options), *arguments, through=through)

    def start_play(self, play: Path | str, *arguments: str, through: Path | None = None) -> Play:
        """As `start`, for a play that is in a file, or a playbook of a collection."""
        command = ["ansible-playbook", "-i", str(self.folder / "hosts"), str(play)]
        started = Play(
            [*command, *arguments],
            env=self.environment(through),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        _STARTED.append(started)
        return started

    def run(self, *arguments: str, **options: t.Any) -> tuple[int, str]:
        process = self.start(*arguments, **options)
        output = process.rest()
        return process.returncode, output

    def run_playbook(self, name: str, **variables: t.Any) -> tuple[int, str]:
        """Exit code and output of `virt.placement.NAME`, with variables as extra vars."""
        given = self.folder / "variables.yml"
        given.write_text(yaml.safe_dump({"placement_clusters": "lab", **variables}))
        process = self.start_play(f"virt.placement.{name}", "-e", f"@{given}")
        output = process.rest()
        return process.returncode, output

    def frozen(
        self,
        rule: t.Callable[[Freeze], Rule],
        take_over: t.Callable[[], Object],
        *,
        late: bool = False,
        **options: t.Any,
    ) -> tuple[Object, int, str]:
        """A job that is stopped at a request, until another task has taken over and ended. Returns the result
        of that, and exit code and output of the job. `late`: the request arrives after all, else it is lost."""
        arrives = threading.Event()
        freeze = Freeze(arrives if late else None)
        with self.shop.sandbox.fault_proxy([rule(freeze)]) as proxy:
            process = self.start(through=proxy.kubeconfig(self.identity), **options)
            try:
                assert freeze.frozen.wait(PATIENCE)
                result = take_over()
                arrives.set()
                freeze.thaw()
                output = process.rest()
            finally:
                freeze.thaw()
                process.end()
        return result, process.returncode, output
