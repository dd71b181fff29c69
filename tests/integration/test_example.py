# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""README's example, as it stands there, on the cluster that `make sandbox-up` starts."""

from __future__ import annotations

import typing as t

import pytest

from demos.stage import PlayResult, Stage
from sandbox import Sandbox
from tests.conftest import CHECKOUT

EXAMPLE = CHECKOUT / "docs" / "example"
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def stage() -> t.Iterator[Stage]:
    with Sandbox.start("article") as sandbox:
        yield Stage(sandbox, "shop", quiet=True)


def play(stage: Stage, name: str, identity: str = "labeller-mover") -> PlayResult:
    result = stage.play(str(EXAMPLE / name), {}, identity=identity)
    assert result.rc == 0, result.stdout
    return result


def test_the_example_does_what_it_says_and_a_second_run_writes_nothing(stage: Stage) -> None:
    play(stage, "create.yml", identity="admin")  # kubernetes.core alone
    uids = {name: vmi["metadata"]["uid"] for name, vmi in machines(stage).items()}

    play(stage, "place.yml")

    found = machines(stage)
    node = {name: vmi["status"]["nodeName"] for name, vmi in found.items()}
    assert node["db"] in ("kni-worker2", "kni-worker4", "kni-worker6")
    assert node["app"] == node["db"]
    web = {
        stage.sandbox.api.get(f"/api/v1/nodes/{node[f'web-{n}']}")["metadata"]["labels"][ZONE]
        for n in (1, 2, 3)
    }
    assert web == {"scu", "bcn", "sab"}
    assert {name: vmi["metadata"]["uid"] for name, vmi in found.items()} == uids

    mark = stage.sandbox.audit.mark()
    again = play(stage, "place.yml")
    assert again.changed == 0, again.stdout
    assert stage.sandbox.audit.writes(since=mark) == []


def machines(stage: Stage) -> dict[str, t.Any]:
    path = stage.sandbox.api.path("VirtualMachineInstance", "shop")
    return {vmi["metadata"]["name"]: vmi for vmi in stage.sandbox.api.list(path)}


def test_readme_shows_the_example_as_it_is() -> None:
    readme = (CHECKOUT / "README.md").read_text()
    example = (EXAMPLE / "place.yml").read_text().removeprefix("---\n")
    assert f"```yaml\n{example}```" in readme
