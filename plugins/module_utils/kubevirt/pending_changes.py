# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would a new VMI have that the running one lacks, beside placement?

KubeVirt makes each VMI from the template as it is then. So a restart or a recreation, which is meant to apply
placement, applies every other change that waits for it, too.
"""

from __future__ import annotations

import typing as t

from ..model.json_pointer import JSON
from ..model.kinds import PREFIX
from ..model.obstacle import PENDING_CHANGES, Obstacle
from ..model.snapshot import Platform, Vmi, Workload
from .labels import POOL_REVISION
from .live_update import PLACEMENT_FIELDS, waiting_fields

UNNAMED = "what the condition RestartRequired stands for"
"""A change that nothing else explains."""


def staged_changes(workload: Workload, vmi: Vmi) -> tuple[str, ...]:
    """Paths under spec.template.spec that a restart would change beside placement.

    The VMI's spec must have everything that the template has. It holds more: defaults, and what an
    instancetype or preference adds. Volumes and networks are compared by name.
    """
    declared = workload.template.get("spec") or {}
    return tuple(
        path
        for name, value in declared.items()
        if name not in PLACEMENT_FIELDS
        for path in _differences(value, vmi.spec.get(name), name)
    )


def changes_since_start(
    started: t.Mapping[str, JSON], workload: Workload, vmi: Vmi, platform: Platform
) -> tuple[str, ...]:
    """What a restart would apply beside placement: what differs between the VM's spec and the one
    that the VMI was `started` from, unless the VMI has it already (a live update).

    `started` is `data.spec` of the VMI's ControllerRevision (KubeVirt, pkg/virt-controller/watch/vm/vm.go,
    createVMRevision). A VMI is created with all labels and annotations of the template (SetupVMIFromVM), and
    KubeVirt sets RestartRequired for none of them. Labels of rules are placement, and the revision of a pool is that
    of what changed. The condition
    RestartRequired that nothing else explains is a change without a name, also one that the VMI has
    already. Placement explains it only where it waits for a restart (vm.go, syncRestartRequired).
    """
    spec = workload.spec
    changed, revisions = [], []
    for name in ("instancetype", "preference"):
        old, new = _mapping(started.get(name)), _mapping(spec.get(name))
        if any(old.get(key) != new.get(key) for key in ("kind", "name")):
            changed.append(name)
        elif _other_revision(old, new, workload, name):
            revisions.append(f"{name}.revisionName")
    changed += revisions
    before, now = started.get("template") or {}, workload.template
    specs = [_mapping(template.get("spec")) for template in (before, now)]
    for name in sorted({*specs[0], *specs[1]} - set(PLACEMENT_FIELDS)):
        changed += _changes((specs[0].get(name), specs[1].get(name), vmi.spec.get(name)), name)
    for kind, running in (("labels", vmi.labels), ("annotations", vmi.annotations)):
        old, new = (
            _mapping(_mapping(template.get("metadata")).get(kind)) for template in (before, now)
        )
        changed += [
            f"{kind[:-1]} {key}"
            for key in sorted({*old, *new})
            if not key.startswith(PREFIX)
            and key != POOL_REVISION
            and old.get(key) != new.get(key) != running.get(key)
        ]
    placed = any(specs[0].get(x) != specs[1].get(x) for x in waiting_fields(platform))
    if not changed and not placed and workload.condition("RestartRequired"):
        changed.append(UNNAMED)
    return tuple(changed)


def why_applies_more(action: str, changes: t.Sequence[str], permission: str) -> Obstacle | None:
    """Why an action is not taken that would apply these changes, too."""
    if not changes:
        return None
    return Obstacle(
        PENDING_CHANGES,
        f"{action} would also apply other pending changes ({', '.join(changes)}): apply them, or"
        f" {permission}",
    )


def without_empty(value: JSON) -> JSON:
    """`value` without nulls, empty lists and empty mappings, which consoles add and remove.

    Inside a list an empty mapping stays, since there it means "everything".
    """
    if isinstance(value, dict):
        kept = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, {}, [])} or None
    if isinstance(value, list):
        return [without_empty(item) or {} for item in value] or None
    return value


def _other_revision(
    old: t.Mapping[str, JSON], new: t.Mapping[str, JSON], workload: Workload, name: str
) -> bool:
    """Whether the VM has another revision of its instance type or preference since. KubeVirt before 1.5 fills
    in the one that it has made for the VM (pkg/instancetype/revision, GenerateName). Later releases have it
    in the status, and may exchange it for one with the same content there (pkg/instancetype/upgrade)."""
    before, now = old.get("revisionName") or "", new.get("revisionName") or ""
    if not now and workload.condition("RestartRequired"):
        reference = _mapping(workload.status.get(f"{name}Ref"))
        now = _mapping(reference.get("controllerRevisionRef")).get("name") or ""
    is_first = not before and now.startswith(f"{workload.ref.name}-")
    return bool(now) and now != before and not is_first


def _mapping(value: JSON) -> t.Mapping[str, JSON]:
    return value if isinstance(value, dict) else {}


def _changes(values: tuple[JSON, JSON, JSON], path: str) -> t.Iterator[str]:
    """Paths at which what was before became what is now, and what runs has not followed. `values`
    are these three."""
    before, now, running = map(without_empty, values)
    if before == now or now == running:
        return
    old: t.Mapping[str, JSON] | None = None
    new: t.Mapping[str, JSON] | None = None
    if isinstance(before, dict) and isinstance(now, dict):
        old, new, followed, label = before, now, _mapping(running), "{}.{}"
    elif isinstance(before, list) or isinstance(now, list):
        old, new, followed = _by_name(before), _by_name(now), _by_name(running) or {}
        label = "{}[{}]"
    if old is None or new is None:
        yield path
        return
    for name in sorted({*old, *new}):
        inner = (old.get(name), new.get(name), followed.get(name))
        yield from _changes(inner, label.format(path, name))


def _by_name(value: JSON) -> t.Mapping[str, JSON] | None:
    """The items of a list by their names; None where some have none. The data of a ControllerRevision has
    no schema, so a name may be no text."""
    items = value or []
    if not isinstance(items, list):
        return None
    named = {x["name"]: x for x in items if isinstance(x, dict) and isinstance(x.get("name"), str)}
    return named if len(named) == len(items) else None


def _differences(declared: JSON, running: JSON, path: str) -> t.Iterator[str]:
    if isinstance(declared, dict):
        for key, value in declared.items():
            yield from _differences(value, _mapping(running).get(key), f"{path}.{key}")
    elif isinstance(declared, list):
        items = running if isinstance(running, list) else []
        named = {x["name"]: x for x in items if isinstance(x, dict) and "name" in x}
        for position, item in enumerate(declared):
            label, there = position, items[position : position + 1]
            if isinstance(item, dict) and "name" in item:
                label = item["name"]
                there = [named[label]] if label in named else []
            if there:
                yield from _differences(item, there[0], f"{path}[{label}]")
            else:
                yield f"{path}[{label}]"
    elif declared != running and declared not in (None, "", False):
        yield path
