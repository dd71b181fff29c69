# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A demo ends with a report and prints its path, and fails where its playbook fails or leaves no page."""

from __future__ import annotations

import contextlib
import types
import typing as t
from pathlib import Path

import pytest

from demos import __main__ as demo
from demos import board
from demos.stage import PlayResult


class Played:
    """A stage on which only the playbook `report` runs. It writes its page if `page`."""

    namespace, sandbox = "shop", None

    def __init__(self, rc: int, page: bool) -> None:
        self.rc, self.page = rc, page
        self.playbooks: list[str] = []

    def play(self, playbook: str, wanted: dict[str, t.Any], **_how: t.Any) -> PlayResult:
        self.playbooks.append(playbook)
        if self.page:
            Path(wanted["placement_report_html"]).write_text("<html>")
        return PlayResult(self.rc, 0, "output of the playbook", ())


@pytest.mark.parametrize(
    ("rc", "page", "status"),
    [(0, True, 0), (0, False, 1), (2, True, 1)],
    ids=["report", "no page", "failed playbook"],
)
def test_demo_ends_with_a_report_and_prints_its_path(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    rc: int,
    page: bool,
    status: int,
) -> None:
    stage = Played(rc, page)
    steps = types.SimpleNamespace(STEPS=(), COLUMNS={"zone": board.ZONE}, PUBLISHED="2 pages")
    monkeypatch.setattr("importlib.import_module", lambda name: steps)
    monkeypatch.setattr(demo, "opened", lambda play: contextlib.nullcontext(stage))
    monkeypatch.setattr(demo, "effort", lambda stage: "a file")
    monkeypatch.setattr(demo, "REPORTS", tmp_path / "demos")

    assert demo.run("kubevirt") == status

    assert stage.playbooks == ["report"]
    printed = capsys.readouterr().out
    path = tmp_path / "demos" / "kubevirt.html"
    assert (f"page for your browser: {path}\n" in printed) == (status == 0)
    assert ("FAILED to write the report" in printed) == (status == 1)
    assert ("output of the playbook" in printed) == (rc != 0)
