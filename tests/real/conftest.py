# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One sandbox with three real nodes in three zones, for all tests of this folder. Its guests are counted at the end."""

from __future__ import annotations

import sys
import typing as t
import uuid

import pytest

from sandbox import Sandbox, binaries
from sandbox.namespaces import delete_namespace
from sandbox.real_nodes import files, ground
from sandbox.real_nodes.guests import Witness
from tests.conftest import RunModule
from tests.guests import Guests
from tests.maintenance import maintenance
from tests.shop import forget_runs

CLUSTER = "3-real-nodes-3-zones"
TALLY = pytest.StashKey["Tally"]()


class Tally:
    """What all tests saw of their guests."""

    migrated = 0
    lost = 0
    guests = 0


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TALLY] = Tally()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    tally = config.stash[TALLY]
    if tally.guests:
        terminalreporter.write_line(
            f"real nodes: {tally.guests} guests, {tally.migrated} live migrations, {tally.lost} ticks lost"
        )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A lost tick is a failure, in whichever test it was."""
    if session.config.stash[TALLY].lost:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def real() -> t.Iterator[Sandbox]:
    """The sandbox with real nodes; where one cannot run the session ends, with what is missing."""
    try:
        ground.check()
        binaries.build(_say)
        files.build(_say)
    except (ground.GroundError, binaries.BinariesError) as error:
        pytest.exit(str(error), 1)
    with Sandbox.start(CLUSTER) as sandbox:
        yield sandbox


def _say(line: str) -> None:
    print(line, file=sys.__stderr__, flush=True)


@pytest.fixture
def guests(
    real: Sandbox, run_module: RunModule, request: pytest.FixtureRequest
) -> t.Iterator[Guests]:
    """A namespace of the test; afterwards all nodes are as they were."""
    name = f"real-{uuid.uuid4().hex[:6]}"
    real.api.create(real.api.path("Namespace"), {"metadata": {"name": name}})
    forget_runs(real.api)
    tally = request.config.stash[TALLY]
    with Witness(real.api, name) as witness:
        guests = Guests(real, name, run_module, witness)
        try:
            with maintenance(real, name, run_module):
                yield guests
        finally:
            real.restore_nodes()
            counts = witness.counts()
            tally.guests += len(counts)
            tally.migrated += guests.migrated()
            tally.lost += sum(count.lost for count in counts.values())
            delete_namespace(real.api, name, patience=60)
