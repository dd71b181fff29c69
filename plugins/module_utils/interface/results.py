# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes to what a module returns."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..model.objects import Ref
from ..model.pointer import JSON
from ..model.snapshot import Unreadable
from ..model.write import Write
from ..rules.faults import told
from .guard import READER, lacks_a_right_to_list


def written(
    writes: t.Sequence[Write], *, diff: bool, elsewhere: t.Container[Ref] = ()
) -> dict[str, JSON]:
    """`changed` and `writes`; with `diff` also before and after of each object, of nothing but
    what is ours in it. The patches of the objects in `elsewhere` are told in another part: hundreds
    of them twice would be most of what Ansible has to carry."""
    result: dict[str, JSON] = {
        "changed": bool(writes),
        "writes": [write_as_json(write, patch=write.target not in elsewhere) for write in writes],
    }
    if diff:
        result["diff"] = [
            {
                "before_header": str(write.target),
                "before": write.before,
                "after_header": str(write.target),
                "after": write.after,
            }
            for write in writes
        ]
    return result


def write_as_json(write: Write, *, patch: bool = True) -> dict[str, JSON]:
    target = write.target
    named = {"kind": target.kind, "namespace": target.namespace, "name": target.name}
    return {**named, "patch": write.changes()} if patch else named


def warn_once(warn: t.Callable[[str], None], findings: t.Iterable[Finding]) -> None:
    """One warning for each name of a finding: the first of its kind, with its rule and objects,
    and how many more."""
    by_name: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.severity != "info":
            by_name.setdefault(finding.name, []).append(finding)
    for same in by_name.values():
        more = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
        warn(told(same[:1]) + more)


def warn_unreadable(warn: t.Callable[[str], None], gaps: t.Iterable[Unreadable]) -> None:
    """One warning for each thing that could not be read: the right that is missing. The last one
    names the role that has them."""
    lines = [str(gap) for gap in gaps]
    rights = [number for number, line in enumerate(lines) if lacks_a_right_to_list(line)]
    if rights:
        lines[rights[-1]] += f"; {READER}"
    for line in lines:
        warn(line)
