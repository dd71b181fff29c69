# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says at the end, however quiet the run was, how its random cases are made again, and what decided them."""

from __future__ import annotations

import pytest

from .random_cases import CLUSTERS, FIRST_SEED, VMS, summary_of_codes


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(
        f"random cases: PLACEMENT_SEED={FIRST_SEED} PLACEMENT_RANDOM_CLUSTERS={CLUSTERS}"
        f" PLACEMENT_RANDOM_VMS={VMS}"
    )
    for line in summary_of_codes():
        terminalreporter.write_line(line)
