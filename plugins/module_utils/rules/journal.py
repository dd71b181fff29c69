# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was last effective, kept until a roll-out ends well: the annotation `placement.virt/journal`.

    {"version": 1,
     "uid": "<uid of the object>",
     "placement": {"affinity": ..., ...},
     "labels": {...},
     "rules": "<value of placement.virt/rules>"}

`placement` holds those of the template's placement fields that were there, `labels` the
template's labels, `rules` the ownership that belonged to them, null where there was none. It is
written in the patch that first changes the terms and left alone by later ones.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass

from ..model.names import JOURNAL, RULES
from ..model.objects import Labels
from ..model.pointer import JSON
from ..model.snapshot import Workload
from .ownership import VERSION, UnreadableAnnotation, decode
from .slots import FIELDS


@dataclass(frozen=True)
class Journal:
    """The terms to go back to; see the module for the fields."""

    uid: str
    placement: t.Mapping[str, JSON]
    labels: Labels
    rules: str | None

    def text(self) -> str:
        content = {
            "version": VERSION,
            "uid": self.uid,
            "placement": self.placement,
            "labels": self.labels,
            "rules": self.rules,
        }
        return json.dumps(content, sort_keys=True, separators=(",", ":"))


def journal_of(workload: Workload) -> Journal:
    """The journal that would lead back to the object as it is now."""
    spec = workload.template.get("spec") or {}
    return Journal(
        uid=workload.uid,
        placement={name: spec[name] for name in FIELDS if name in spec},
        labels=dict(workload.template_labels),
        rules=workload.annotations.get(RULES),
    )


def read_journal(workload: Workload) -> Journal | None:
    """The journal that the object carries; None where there is none, or where the object is a
    copy and the journal another object's. Raises UnreadableAnnotation."""
    text = workload.annotations.get(JOURNAL)
    if text is None:
        return None
    content = decode(workload, JOURNAL, text)
    try:
        found = Journal(content["uid"], content["placement"], content["labels"], content["rules"])
    except KeyError as error:
        raise UnreadableAnnotation(
            f"{workload.ref}: annotation {JOURNAL} is damaged (it has no {error}): remove it if"
            " nothing has to be undone, and write the rules again"
        ) from error
    return found if found.uid == workload.uid else None
