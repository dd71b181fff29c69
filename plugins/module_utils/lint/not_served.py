# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Input about virtual machines for a cluster that has none: nothing could be said of it there."""

from __future__ import annotations

import typing as t

from ..model.finding import Fault
from ..model.kinds import KINDS, MACHINE_INSTANCE
from ..model.pointer import JSON
from ..model.rule import PodSelector, Rule
from ..model.snapshot import Snapshot
from ..rules.members import targets_of, without_kubevirt

_OF_KUBEVIRT = (*(kind.name for kind in KINDS.values() if kind.virtual_machines), MACHINE_INSTANCE)


def not_served(
    rules: t.Iterable[Rule], manifests: t.Iterable[t.Mapping[str, JSON]], cluster: Snapshot
) -> t.Iterator[Fault]:
    """A fault for each reference of a rule and each manifest of a kind of KubeVirt, where KubeVirt
    is not installed. `manifests` have names and namespaces."""
    if cluster.platform.kubevirt is not None:
        return
    for rule in rules:
        listed = [(f"workloads[{index}]", each) for index, each in enumerate(rule.workloads)]
        for where, target in (*listed, *targets_of(rule)):
            if not isinstance(target, PodSelector) and target.kind in _OF_KUBEVIRT:
                yield without_kubevirt(f"{rule.where}, {where}", target.kind)
    for each in manifests:
        if each["kind"] in _OF_KUBEVIRT:
            metadata = each["metadata"]
            name = metadata.get("name") or metadata.get("generateName")
            where = f"{each['kind']} {metadata['namespace']}/{name}"
            yield without_kubevirt(where, str(each["kind"]))
