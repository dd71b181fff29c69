# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A case's objects as the engine takes them."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod, Service
from ansible_collections.virt.placement.plugins.module_utils.model.placement_manifests import (
    placement_from_spec,
    spread_from_json,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import Options
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index

Case = t.Mapping[str, t.Any]


def build_index(case: Case) -> Index:
    """The cluster of a case, with the scheduler configuration that it names."""
    return Index.build(
        map(node_from_manifest, case["nodes"]),
        map(pod_from_manifest, case.get("pods", ())),
        map(namespace_from_manifest, case.get("namespaces", ())),
        services=map(_service, case.get("services", ())),
        options=_options(case.get("args", {}), case.get("featureGates", {})),
    )


def incoming(manifest: t.Mapping[str, t.Any]) -> Pod:
    """The pod to be placed. A node name in its spec pins it: it does not say that it runs there."""
    pod = pod_from_manifest(manifest)
    return dataclasses.replace(pod, node_name="", required_node_name=pod.node_name)


def _options(args: Case, gates: Case) -> Options:
    listed = args.get("defaultConstraints")
    if listed is None and args.get("defaultingType") == "List":
        listed = ()
    added = args.get("addedAffinity")
    return Options(
        added_affinity=added and placement_from_spec({"affinity": {"nodeAffinity": added}}),
        default_constraints=None if listed is None else tuple(map(spread_from_json, listed)),
        hard_pod_affinity_weight=args.get("hardPodAffinityWeight", 1),
        ignore_preferred_terms_of_existing_pods=bool(
            args.get("ignorePreferredTermsOfExistingPods")
        ),
        taint_comparison=bool(gates.get("TaintTolerationComparisonOperators")),
        ignored_resources=frozenset(args.get("ignoredResources", ())),
        ignored_resource_groups=frozenset(args.get("ignoredResourceGroups", ())),
    )


def _service(manifest: Case) -> Service:
    metadata = manifest["metadata"]
    selector = (manifest.get("spec") or {}).get("selector")
    return Service(metadata.get("namespace") or "", metadata["name"], selector)
