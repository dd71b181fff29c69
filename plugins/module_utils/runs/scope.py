# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a roll-out is about: names and labels turned into workloads that exist.

Pure.
"""

from __future__ import annotations

from ..model.finding import Fault, Refused
from ..model.kinds import DEPLOYMENT, KINDS, POOL, REPLICA_SET, STATEFUL_SET, VIRTUAL_MACHINE
from ..model.objects import Ref
from ..model.rule import WorkloadSelector
from ..model.snapshot import Snapshot
from ..planning.candidates import Wanted
from ..rules.values import nearest
from .parameters import Parameters

READ_KINDS = tuple(
    kind.name for kind in (VIRTUAL_MACHINE, REPLICA_SET, POOL, DEPLOYMENT, STATEFUL_SET)
)


def namespaces_of(parameters: Parameters) -> tuple[str, ...]:
    """The namespaces whose workloads have to be read."""
    if parameters.namespaces is not None:
        return parameters.namespaces
    return tuple(dict.fromkeys(selector.namespace for selector in parameters.workloads))


def wanted(parameters: Parameters, snapshot: Snapshot) -> Wanted:
    """Raises Refused for namespaces and workloads that do not exist, and where something that
    is needed could not be read: who cannot see all may not move anything."""
    faults = [
        Fault("not permitted", f"{gap}; without it nobody knows what may be moved")
        for gap in snapshot.unreadable
        if gap.resource != POOL.plural
    ]
    known = {found.name for found in snapshot.namespaces}
    for namespace in namespaces_of(parameters) if not faults else ():
        if namespace not in known:
            hint = nearest(namespace, known)
            faults.append(Fault("namespaces", f"there is no namespace '{namespace}'{hint}"))
    refs: set[Ref] = set()
    for index, selector in enumerate(parameters.workloads):
        refs |= _resolve(selector, snapshot, Fault(f"workloads[{index}]", ""), faults)
    if faults:
        raise Refused(faults)
    if parameters.namespaces is not None:
        return Wanted(namespaces=frozenset(parameters.namespaces))
    return Wanted(workloads=frozenset(refs))


def _resolve(
    selector: WorkloadSelector, snapshot: Snapshot, where: Fault, faults: list[Fault]
) -> set[Ref]:
    kind = KINDS[selector.kind]
    if snapshot.gap(kind.plural, selector.namespace) is not None:
        return set()
    if kind.virtual_machines and snapshot.platform.kubevirt is None:
        faults.append(Fault(where.where, "KubeVirt is not installed on this cluster"))
        return set()
    of_kind = {
        found.ref.name: found
        for found in snapshot.workloads
        if (found.ref.kind, found.ref.namespace) == (selector.kind, selector.namespace)
    }
    if selector.labels is not None:
        asked = selector.labels.items()
        return {w.ref for w in of_kind.values() if asked <= dict(w.template_labels).items()}
    for name in selector.names:
        if name not in of_kind:
            text = f"there is no {selector.kind} '{name}' in namespace '{selector.namespace}'"
            faults.append(Fault(where.where, f"{text}{nearest(name, of_kind)}"))
    return {of_kind[name].ref for name in selector.names if name in of_kind}
