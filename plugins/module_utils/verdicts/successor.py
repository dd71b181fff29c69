# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pod that would come next, if an instance were restarted or live-migrated now.

It asks for what the running pod asks for, with the user's part of the placement put in anew:
KubeVirt's own node selectors, requests and overhead are already on the running pod.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.manifest import merge_match_label_keys
from ..model.objects import Labels, NodeTerm, Placement, Pod, PodTerm, Requirement, Selector
from ..model.snapshot import MachineInstance
from ..model.topology import HOSTNAME
from . import platform_terms

NEXT = "-next"
"""Ends the name of a pod that does not exist."""


def restarted(pod: Pod, declared: Placement, labels: Labels) -> Pod:
    """The pod of the next VirtualMachineInstance, or the one that replaces an evicted pod: made
    from the template, while the old one is gone."""
    return _next(pod, declared, {**platform_terms.carried_labels(pod.labels), **labels})


def migrated(pod: Pod, vmi: MachineInstance, said: Placement) -> Pod:
    """The target pod of a live migration: made from the VirtualMachineInstance, while the source
    still runs, and kept off its node (virt-controller, migration.go)."""
    target = _next(pod, said, {**platform_terms.carried_labels(pod.labels), **vmi.labels})
    source = Selector((Requirement(platform_terms.CREATED_BY, "In", (vmi.uid,)),))
    apart = PodTerm(HOSTNAME, source)
    placement = replace(target.placement, anti_affinity=(*target.placement.anti_affinity, apart))
    return replace(target, placement=placement)


def _next(pod: Pod, said: Placement, labels: Labels) -> Pod:
    placement = merge_match_label_keys(_with_platform_part(said, pod.placement), labels)
    return replace(
        pod, name=f"{pod.name}{NEXT}", uid="", node_name="", labels=labels, placement=placement
    )


def _with_platform_part(said: Placement, running: Placement) -> Placement:
    """`said`, with what the platform put on the running pod and will put on the next one."""
    own_keys = {key for key, _value in said.node_selector}
    selector = tuple(
        (key, value)
        for key, value in running.node_selector
        if platform_terms.adds_node_key(key) and key not in own_keys
    )
    tolerations = tuple(
        toleration
        for toleration in running.tolerations
        if platform_terms.adds_toleration(toleration) and toleration not in said.tolerations
    )
    if not selector and not tolerations and not _platform_expressions(running):
        return said
    return replace(
        said,
        node_selector=(*said.node_selector, *selector),
        node_terms=_with_expressions(said.node_terms, _platform_expressions(running)),
        tolerations=(*said.tolerations, *tolerations),
    )


def _platform_expressions(running: Placement) -> tuple[Requirement, ...]:
    """Expressions that stand in every required node term of a pod and are the platform's."""
    terms = running.node_terms or ()
    return tuple(
        expression
        for expression in (terms[0].expressions if terms else ())
        if platform_terms.adds_node_key(expression.key)
        and all(expression in term.expressions for term in terms)
    )


def _with_expressions(
    terms: tuple[NodeTerm, ...] | None, added: tuple[Requirement, ...]
) -> tuple[NodeTerm, ...] | None:
    if not added:
        return terms
    if terms is None:
        return (NodeTerm(added),)
    return tuple(
        replace(term, expressions=_joined(term.expressions, added))
        if term.expressions or term.fields
        else term
        for term in terms
    )


def _joined(
    own: tuple[Requirement, ...], added: tuple[Requirement, ...]
) -> tuple[Requirement, ...]:
    return (*own, *(expression for expression in added if expression not in own))
