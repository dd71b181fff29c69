# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From results of modules to the files of a report. The results may come from elsewhere, and be damaged."""

from __future__ import annotations

import contextlib
import json
import typing as t
from datetime import datetime, timezone

from .content import Content
from .files import ReportFile, Unwritable, write_file
from .junit import junit_xml
from .markdown import markdown_text
from .metrics import prometheus_text
from .page import html_page
from .read_content import read_content
from .results import DamagedResult
from .words import sentence

FORMATS = ("html", "markdown", "junit", "prometheus")

Result = t.Mapping[str, t.Any]


class WrittenReport(t.NamedTuple):
    """`answer` is empty where the placement is damaged. `files` have format, path and whether they changed."""

    answer: str
    files: list[dict[str, t.Any]]
    errors: list[str]

    @property
    def changed(self) -> bool:
        return any(file["changed"] for file in self.files)


def files_of(options: t.Mapping[str, t.Any]) -> list[ReportFile]:
    """The files that have a path in `options`, whose keys are formats."""
    return [ReportFile(name, options[name]) for name in FORMATS if options.get(name)]


def write_report(
    files: t.Sequence[ReportFile],
    placement: Result,
    drill: Result | None,
    rollout: Result | None,
    *,
    cluster_name: str | None,
    host: str,
    fail_on: t.Collection[str],
    only_check: bool,
) -> WrittenReport:
    """Each file is tried, also after one that cannot be written. None is where a result is damaged."""
    about = {
        "cluster": cluster_name or ("" if host == "localhost" else host),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    plain = _plain(placement)
    try:
        content = read_content(plain, drill=_plain(drill), rollout=_plain(rollout), **about)
    except DamagedResult as error:
        answer = ""
        with contextlib.suppress(DamagedResult):
            answer = sentence(read_content(plain, **about))
        return WrittenReport(answer, [], [f"{error}. No report was written."])
    written, errors = [], []
    for file in files:
        try:
            changed = write_file(file, _text(file.format, content, fail_on), only_check=only_check)
        except Unwritable as error:
            errors.append(str(error))
        else:
            written.append({"format": file.format, "path": file.path, "changed": changed})
    return WrittenReport(sentence(content), written, errors)


def _text(name: str, content: Content, fail_on: t.Collection[str]) -> str:
    if name == "html":
        return html_page(content)
    if name == "markdown":
        return markdown_text(content)
    return junit_xml(content, fail_on) if name == "junit" else prometheus_text(content)


def _plain(value: Result | None) -> t.Any:
    """Without the types of ansible-core, which are slow to walk. None for an empty map, and for the result of a task
    that was skipped."""
    if not value or value.get("skipped") is True:
        return None
    return json.loads(json.dumps(value, default=str))
