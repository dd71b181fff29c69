# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the undo record of a workload hold: its placement before the last change of its rules, and that change?

`placement.virt/undo`, which each patch of rules writes anew, and which stays until the next one:

    {"version": 1,
     "uid": "<uid of the object>",
     "placement": {"affinity": ..., ...},
     "labels": {...},
     "rules": "<value of placement.virt/rules>",
     "change": {"rule_set": "<namespace>/<set>", "number": 3, "request": "<digest>"},
     "written": {"fields": {"affinity": "<digest>", ...}, "labels": {"<key>": "<value>"}, "rules": "<digest>"},
     "earlier": {"<namespace>/<set>": 2, ...},
     "since": {"<namespace>/<set>/<rule>": "2026-11-26T07:45:12Z", ...},
     "reverted": true}

`placement` has the placement fields of the template before the change, `labels` its labels, `rules` the ownership
then, null if there was none. `change` is the same on all workloads that one request has written: a rule set counts
its requests, and a request that is made again, since it was interrupted or since a term was lost, is not a new one.
`written` has what the change made of the fields and labels that it touched (null: removed), so that what others
changed since is recognized. `earlier` has the last change of other rule sets that wrote this workload before.
`since` says when a rule was written as the workload has it, by the clock of the job, where that is known.
`reverted` is there once the workload was restored.
"""

from __future__ import annotations

import contextlib
import json
import re
import typing as t
from dataclasses import dataclass, field, replace
from datetime import datetime

from ..model.json_pointer import JSON
from ..model.json_text import content_fault
from ..model.kinds import RULES, UNDO
from ..model.objects import Labels, Ref
from ..model.placement_manifests import placement_from_spec
from ..model.snapshot import Workload
from ..scheduler.labels import is_label_key, is_label_value
from ..view.label_input import is_reserved
from .ownership import (
    MOST_RULES,
    VERSION,
    Ownership,
    UnreadableAnnotation,
    damaged,
    decode,
    rule_id,
)
from .term_slots import FIELDS, digest, without_empties

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)

MOST_CHANGES = 10**9
"""Of one rule set."""


@dataclass(frozen=True, slots=True)
class RuleSetChange:
    """One request about a rule set (`namespace/set`), which may write many workloads. `request` is its digest, `at`
    when it is made (RFC 3339), which makes no other change of it."""

    rule_set: str
    number: int
    request: str
    at: str = field(default="", compare=False)

    @property
    def id(self) -> str:
        """As the result `change` of the module rules has it, and as an undo of this change alone names it."""
        return f"{self.number}-{self.request}"


@dataclass(frozen=True, slots=True)
class WrittenPlacement:
    """What a change made of the parts that it touched: digests of fields, values of labels (None: removed), and the
    digest of the ownership."""

    fields: t.Mapping[str, str] = field(default_factory=dict)
    labels: t.Mapping[str, str | None] = field(default_factory=dict)
    rules: str = ""


@dataclass(frozen=True)
class UndoRecord:
    """The placement to go back to; see the module for the fields."""

    uid: str
    placement: t.Mapping[str, JSON]
    labels: Labels
    rules: str | None
    change: RuleSetChange
    written: WrittenPlacement
    earlier: t.Mapping[str, int] = field(default_factory=dict)
    reverted: bool = False
    since: t.Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        content: dict[str, JSON] = {
            "version": VERSION,
            "uid": self.uid,
            "placement": self.placement,
            "labels": self.labels,
            "rules": self.rules,
            "change": {
                "rule_set": self.change.rule_set,
                "number": self.change.number,
                "request": self.change.request,
            },
            "written": {
                "fields": self.written.fields,
                "labels": self.written.labels,
                "rules": self.written.rules,
            },
        }
        if self.earlier:
            content["earlier"] = self.earlier
        if self.since:
            content["since"] = self.since
        if self.reverted:
            content["reverted"] = True
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    def is_of(self, change: RuleSetChange) -> bool:
        """Whether it has the placement before `change`, which is made again and keeps it."""
        return not self.reverted and self.change == change

    @property
    def changes(self) -> dict[str, int]:
        """The number of the last change of each rule set that wrote the workload."""
        return {**self.earlier, self.change.rule_set: self.change.number}


def undo_record_of(
    workload: Workload,
    change: RuleSetChange,
    written: WrittenPlacement,
    previous: UndoRecord | None = None,
    since: t.Mapping[str, str] | None = None,
) -> UndoRecord:
    """The record that restores the object as it is now, before `change` makes `written` of it. A change that writes
    over a later one gets the number of that, so that an undo sees two requests with one number."""
    spec = workload.template.get("spec") or {}
    earlier = previous.changes if previous is not None else {}
    number = max(change.number, earlier.get(change.rule_set, 0))
    return UndoRecord(
        uid=workload.uid,
        placement={name: spec[name] for name in FIELDS if name in spec},
        labels=dict(workload.template_labels),
        rules=workload.annotations.get(RULES),
        change=replace(change, number=number),
        written=written,
        earlier={x: n for x, n in earlier.items() if x != change.rule_set},
        since=since or {},
    )


def written_since(
    before: Ownership, after: Ownership, previous: UndoRecord | None, at: str
) -> dict[str, str]:
    """Since when the workload has each rule as it is after a change that is made `at` a time. Nothing of a rule that
    the change leaves as it is, and whose time the record before does not have."""
    known = previous.since if previous is not None and not previous.reverted else {}
    since = {}
    for rule, owned in after.rules.items():
        same = before.uid == after.uid and before.rules.get(rule) == owned
        if time := known.get(str(rule), "") if same else at:
            since[str(rule)] = time
    return since


def change_of_request(
    rule_set: str, request: str, workloads: t.Iterable[Workload], at: str
) -> RuleSetChange:
    """The change that a request makes, given its digest and the workloads that may have records: the last one of the
    rule set if that is the same request and was not reverted, otherwise the next one."""
    records = list(records_of(rule_set, workloads).values())
    number = max((record.changes[rule_set] for record in records), default=0)
    last = [x for x in records if x.changes[rule_set] == number]
    again = RuleSetChange(rule_set, number, request, at)
    if any(x.is_of(again) for x in last) and not any(x.reverted for x in last):
        return again
    return RuleSetChange(rule_set, min(number + 1, MOST_CHANGES), request, at)


def is_begun(change: RuleSetChange, workloads: t.Iterable[Workload]) -> bool:
    """Whether an earlier task has written some of the change."""
    return any(x.is_of(change) for x in records_of(change.rule_set, workloads).values())


def records_of(rule_set: str, workloads: t.Iterable[Workload]) -> dict[Ref, UndoRecord]:
    """The records that know a change of the rule set, also copies of another object's: its `uid` is another one
    then. Those that cannot be read are left out."""
    records: dict[Ref, UndoRecord] = {}
    mention = json.dumps(rule_set)
    for workload in workloads:
        if mention in workload.annotations.get(UNDO, ""):
            with contextlib.suppress(UnreadableAnnotation):
                record = _read_record(workload)
                if record is not None and rule_set in record.changes:
                    records[workload.ref] = record
    return records


def rules_left_by_undo(
    workloads: t.Iterable[Workload], carried: t.Mapping[str, t.Collection[Ref]]
) -> frozenset[str]:
    """The rules that an undo has taken from workloads while only such have them still as it left as they are: a policy
    gave them the rule when they were created, or another client has changed them since. `carried`: the workloads of
    each rule."""
    records: dict[Ref, UndoRecord] = {}
    for workload in workloads:
        with contextlib.suppress(UnreadableAnnotation):
            if record := read_undo_record(workload):
                records[workload.ref] = record
    undone = {
        rule: (record.change.rule_set, record.change.number)
        for ref, record in sorted(records.items(), key=lambda entry: entry[1].change.number)
        for rule in (record.since if record.reverted else ())
        if rule.startswith(f"{record.change.rule_set}/") and ref not in carried.get(rule, ())
    }
    return frozenset(
        rule
        for rule, change in undone.items()
        if all(
            ref not in records
            or (not records[ref].reverted and change in records[ref].changes.items())
            for ref in carried.get(rule, ())
        )
    )


def field_digest(value: JSON) -> str:
    """The digest of a placement field. Some kinds drop nulls and empty lists of what is written."""
    return digest(without_empties([value]), 12)


def written_placement(
    before: t.Mapping[str, JSON], after: t.Mapping[str, JSON], rules: str | None
) -> WrittenPlacement:
    """From the template's parts before and after a change (draft.placement_parts) to what it wrote."""
    fields = {
        name: field_digest(after["spec"].get(name))
        for name in FIELDS
        if field_digest(before["spec"].get(name)) != field_digest(after["spec"].get(name))
    }
    old, new = ((side.get("metadata") or {}).get("labels") or {} for side in (before, after))
    labels = {key: new.get(key) for key in {*old, *new} if old.get(key) != new.get(key)}
    return WrittenPlacement(fields, labels, digest(rules, 12))


def read_undo_record(workload: Workload) -> UndoRecord | None:
    """The undo record of the object; None if it has none, or if it is a clone and the record is of
    another object. Raises UnreadableAnnotation."""
    record = _read_record(workload)
    return record if record is not None and record.uid == workload.uid else None


def _read_record(workload: Workload) -> UndoRecord | None:
    text = workload.annotations.get(UNDO)
    if text is None:
        return None
    content = decode(workload, UNDO, text)
    try:
        return _record(content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableAnnotation(damaged(workload, UNDO, content_fault(error))) from error


def _record(content: t.Mapping[str, JSON]) -> UndoRecord:
    change, written = _typed(content, "change", dict), _typed(content, "written", dict)
    record = UndoRecord(
        _typed(content, "uid", str),
        _typed(content, "placement", dict),
        _typed(content, "labels", dict),
        _typed(content, "rules", (str, type(None))),
        RuleSetChange(
            _typed(change, "rule_set", str),
            _typed(change, "number", int),
            _typed(change, "request", str),
        ),
        WrittenPlacement(
            _typed(written, "fields", dict),
            _typed(written, "labels", dict),
            _typed(written, "rules", str),
        ),
        _typed({"earlier": {}, **content}, "earlier", dict),
        content.get("reverted") is True,
        _typed({"since": {}, **content}, "since", dict),
    )
    for rule_set, number in record.changes.items():
        rule_id(f"{rule_set}/r")
        if isinstance(number, bool) or number not in range(1, MOST_CHANGES + 1):
            raise ValueError(f"a number of a change is not from 1 to {MOST_CHANGES}")
    if len(record.since) > MOST_RULES:
        raise ValueError(f"it has the times of more than {MOST_RULES} rules")
    if not is_label_value(record.change.request):
        raise ValueError("its request is no digest")
    if not {*record.written.fields, *record.placement} <= {*FIELDS}:
        raise ValueError("it names other fields than those of placement")
    placement_from_spec(record.placement)
    _check_types(record.placement)
    _check_labels(record)
    for rule, time in record.since.items():
        rule_id(rule)
        if not (isinstance(time, str) and _TIME.fullmatch(time)):
            raise ValueError("a time of since is no time")
        datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ")
    return record


_TYPES: t.Mapping[object, type] = {
    **dict.fromkeys(("key", "operator", "value", "effect", "topologyKey"), str),
    **dict.fromkeys(("whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy"), str),
    **dict.fromkeys(("values", "namespaces", "matchLabelKeys", "mismatchLabelKeys"), list),
    **dict.fromkeys(("nodeSelector", "matchLabels"), dict),
    **dict.fromkeys(("weight", "maxSkew", "minDomains", "tolerationSeconds"), int),
}
"""Of fields inside of a placement, by their names. Lists and maps hold texts."""


def _check_types(part: JSON) -> None:
    """Raises TypeError where a field inside of a placement has a type that no API server accepts: a client has written
    the annotation by itself."""
    listed = part if isinstance(part, list) else ()
    for name, value in part.items() if isinstance(part, dict) else enumerate(listed):
        kind = _TYPES.get(name)
        if kind is None:
            _check_types(value)
        elif value is not None and not _is_of_type(value, kind):
            raise TypeError(name)


def _is_of_type(value: JSON, kind: type) -> bool:
    texts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (
        isinstance(value, kind)
        and not isinstance(value, bool)
        and all(isinstance(text, str) for text in texts)
    )


def _check_labels(record: UndoRecord) -> None:
    """Raises an error for labels that rules never set. A template may have others."""
    if not all(isinstance(value, str) for value in record.labels.values()):
        raise ValueError("a label is no text")
    for key, value in record.written.labels.items():
        if is_reserved(key):
            raise ValueError("it names a label that rules never set")
        values = {value, record.labels.get(key)} - {None}
        if not is_label_key(key) or not all(map(is_label_value, values)):
            raise ValueError("it names a label that is none")


def _typed(content: t.Mapping[str, JSON], name: str, kind: type | tuple[type, ...]) -> JSON:
    """Raises ValueError where the value is missing or of another type."""
    if name not in content or not isinstance(content[name], kind):
        raise ValueError(f"{name} is missing, or is not of its type")
    return content[name]
