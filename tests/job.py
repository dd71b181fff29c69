# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A play with one rollout task, as a person or a job engine runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import yaml

from sandbox.fault_actions import Freeze
from sandbox.fault_proxy import Rule
from tests.shop import Object, Shop

BIN = Path(sys.executable).parent
INVENTORY = "[cluster]\nlab ansible_connection=local ansible_python_interpreter={python}\n"


class Job:
    """Writes the play into `folder` and runs it as an identity of the sandbox."""

    def __init__(
        self, shop: Shop, folder: Path, module: str = "rollout", identity: str = "mover"
    ) -> None:
        self.shop, self.folder, self.module, self.identity = shop, folder, module, identity
        (folder / "hosts").write_text(INVENTORY.format(python=sys.executable))

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
        path = os.pathsep.join([str(BIN), os.environ["PATH"]])
        return {
            **os.environ,
            "PATH": path,
            "KUBECONFIG": str(found),
            "ANSIBLE_NOCOLOR": "1",
            "TMPDIR": str(self.folder),  # a module that is killed leaves files
        }

    def start(
        self, *arguments: str, through: Path | None = None, **options: t.Any
    ) -> subprocess.Popen[str]:
        """`through`: a kubeconfig of the identity other than the sandbox's own."""
        return self.start_play(self.write(**options), *arguments, through=through)

    def start_play(
        self, play: Path, *arguments: str, through: Path | None = None
    ) -> subprocess.Popen[str]:
        """As `start`, for a play that is in a file."""
        command = [str(BIN / "ansible-playbook"), "-i", str(self.folder / "hosts"), str(play)]
        return subprocess.Popen(
            [*command, *arguments],
            env=self.environment(through),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **options: t.Any) -> tuple[int, str]:
        process = self.start(*arguments, **options)
        output, _errors = process.communicate(timeout=120)
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
                assert freeze.frozen.wait(60)
                result = take_over()
                arrives.set()
                freeze.thaw()
                output, _errors = process.communicate(timeout=90)
            finally:
                freeze.thaw()
                process.kill()
                process.wait(10)
        return result, process.returncode, output
