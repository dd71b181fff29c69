# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rights did the collection use, of those that the shipped roles grant?

Each sandbox writes what its audit log holds to a file when it ends, if the variable PLACEMENT_RIGHTS
names a directory. `dev/rights.py` compares all of these files with rbac/.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import typing as t
import uuid
from pathlib import Path

from . import identities
from .audit import COLLECTION

DIRECTORY = "PLACEMENT_RIGHTS"
_AGENT = b'"userAgent":"virt-placement"'
_ROLE = re.compile(r'of (?:Cluster)?Role "(?:[a-z-]+/)?virt-placement-([a-z-]+)')
_USERS = {identities.IDENTITIES[name].username: name for name in COLLECTION}


class Right(t.NamedTuple):
    """A right of one object or list, in the words of RBAC; `name` only where a role limits it."""

    verb: str
    group: str
    resource: str
    name: str = ""

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}{f' {self.name}' if self.name else ''}"


@dataclasses.dataclass(frozen=True, order=True)
class Use:
    """`role` is the one that allowed the request, empty where another one did, or none."""

    identity: str
    role: str
    right: Right
    allowed: bool


def record(audit_log: Path) -> None:
    """Write what the log of a sandbox holds, if that is wanted."""
    wanted = os.environ.get(DIRECTORY)
    if not wanted or not audit_log.is_file():
        return
    directory = Path(wanted)
    directory.mkdir(parents=True, exist_ok=True)
    with audit_log.open("rb") as lines:
        uses = sorted({use for line in lines if _AGENT in line for use in _use(line)})
    file = directory / f"{uuid.uuid4().hex}.json"
    file.write_text(json.dumps([dataclasses.astuple(use) for use in uses]))


def _use(line: bytes) -> t.Iterator[Use]:
    try:
        event = json.loads(line)
    except ValueError:
        return  # the last line of a server that was killed
    identity = _USERS.get(event["user"].get("username", ""))
    target = event.get("objectRef") or {}
    if identity is None or "resource" not in target:
        return
    subresource = target.get("subresource")
    right = Right(
        event["verb"],
        target.get("apiGroup", ""),
        f"{target['resource']}/{subresource}" if subresource else target["resource"],
        target.get("name", "") if target["resource"] == "leases" else "",
    )
    notes = event.get("annotations") or {}
    role = _ROLE.search(notes.get("authorization.k8s.io/reason", ""))
    allowed = notes.get("authorization.k8s.io/decision") == "allow"
    yield Use(identity, role[1] if role else "", right, allowed)


def read(directory: Path) -> set[Use]:
    """What all sandboxes of a run of the suites recorded there."""
    return {
        Use(identity, role, Right(*right), allowed)
        for file in directory.glob("*.json")
        for identity, role, right, allowed in json.loads(file.read_text())
    }
