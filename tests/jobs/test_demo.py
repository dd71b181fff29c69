# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A demo ends with a report and prints its path, and fails where its playbook fails or leaves no page. What its steps
took is compared with the published text."""

from __future__ import annotations

import contextlib
import types
import typing as t
from pathlib import Path

import pytest

from demos import __main__ as demo
from demos import board
from demos.effort import PLAYED, Effort
from demos.stage import PlayResult, Stage, beyond


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
    monkeypatch.setattr(demo, "REPORTS", tmp_path / "demos")

    assert demo.run("kubevirt") == status

    assert stage.playbooks == ["report"]
    printed = capsys.readouterr().out
    path = tmp_path / "demos" / "kubevirt.html"
    assert (f"page for your browser: {path}\n" in printed) == (status == 0)
    assert ("FAILED to write the report" in printed) == (status == 1)
    assert ("output of the playbook" in printed) == (rc != 0)


class AuditedWrites:
    """The audit log of a stage: its marks are numbers of writes."""

    def __init__(self) -> None:
        self.events: list[types.SimpleNamespace] = []

    def mark(self) -> int:
        return len(self.events)

    def writes(self, since: int = 0) -> list[types.SimpleNamespace]:
        return self.events[since:]

    def add(self, verb: str, resource: str, subresource: str = "", code: int = 201) -> None:
        event = {"verb": verb, "resource": resource, "subresource": subresource, "code": code}
        self.events.append(types.SimpleNamespace(**event))


def test_steps_that_the_text_does_not_have_are_not_compared_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stage: t.Any = Played(rc=0, page=True)
    audit = AuditedWrites()
    stage.sandbox, stage.plays = types.SimpleNamespace(audit=audit), 0

    def migrate(_stage: Stage) -> None:
        """One is refused, and sent again."""
        stage.plays += 1
        for code in (409, 201):
            audit.add("create", "virtualmachineinstancemigrations", code=code)

    @beyond
    def drain_a_node(_stage: Stage) -> None:
        """Of this collection alone."""
        stage.plays += 2
        audit.add("create", "pods", "eviction")

    def delete_one(_stage: Stage) -> None:
        """By hand in the text."""
        stage.plays += 1
        audit.add("delete", "virtualmachineinstances")

    columns, published = {"zone": board.ZONE}, Effort(commands=9, ended=4, migrations=0)
    story = (migrate, drain_a_node, delete_one)
    steps = types.SimpleNamespace(STEPS=story, COLUMNS=columns, PUBLISHED=published)
    monkeypatch.setattr("importlib.import_module", lambda name: steps)
    monkeypatch.setattr(demo, "opened", lambda play: contextlib.nullcontext(stage))
    monkeypatch.setattr(demo, "REPORTS", tmp_path / "demos")
    monkeypatch.setattr(board, "draw", lambda *_args: "")

    assert demo.run("openshift") == 0

    printed = capsys.readouterr().out
    assert f"The published text needs {published}.\n" in printed
    assert f"Here it took {Effort(2, 1, 1, PLAYED)}.\n" in printed
    assert "Not counted, since the text has no such step: drain a node.\n" in printed
