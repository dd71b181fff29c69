# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""lint_info from its options to its result: manifests and rules, with a cluster or without one."""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from dataclasses import replace

from ..interface.arguments import rules_data, topology_of
from ..interface.results import warn_once, warn_unreadable
from ..lint.documents import Document, reasons_as_json, summary
from ..lint.manifests import ReadManifests, in_namespace, read_manifests
from ..lint.offline import (
    CONTEXT_KINDS,
    lint_manifests,
    lint_nodes,
    lint_rules,
    not_served,
    render,
)
from ..lint.offline_rules import checked_without_manifests
from ..lint.path_patterns import InvalidPattern, PathPattern
from ..lint.run import without_findings_of_rules
from ..model.findings import InputError, InvalidInput
from ..model.rendering import as_json, listed, one_line, plural
from ..model.snapshot import Platform, Snapshot
from ..rules.parse import Parsed, read_rules
from ..view.label_input import assumed_node_labels, with_node_labels
from .manifest_files import documents_in, documents_of

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from ..api.client import ApiClient

Params = t.Mapping[str, t.Any]


def run_online(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """The input as if it stood on the cluster. Raises InvalidInput and ApiError."""
    from ..cluster.reading import ReadScope, read_snapshot

    return run(module, read_snapshot(api, ReadScope(pods="metadata", migrations="")))


def run(module: AnsibleModule, cluster: Snapshot | None = None) -> dict[str, t.Any]:
    """The result; `cluster` None: no server is asked. Raises InvalidInput with every fault."""
    params = module.params
    faults: list[InputError] = []
    assumed = assumed_node_labels(params["assume_node_labels"], topology_of(params), faults)
    if assumed and cluster is None:
        faults.append(
            InputError("assume_node_labels", "needs online; offline, list Node manifests")
        )
    read = _manifests_option(params, faults, module.warn)
    parsed = _rules_option(params, faults)
    platform = _platform_option(params, faults)
    manifests, rules = in_namespace(read.manifests, params["namespace"]), parsed.rules
    excluded = frozenset(params["exclude_namespaces"])
    if rules and params["namespace"] in excluded:
        faults.append(
            InputError(
                "exclude_namespaces", f"{params['namespace']!r} is the namespace of the rules"
            )
        )
    if cluster is not None:
        cluster = with_node_labels(cluster, assumed, faults)
        faults += not_served((*rules, *parsed.broken), manifests, cluster)
    if faults:
        raise InvalidInput(faults)
    context: dict[str, t.Any] = {
        "topology": topology_of(params),
        "platform": platform,
        "cluster": cluster,
    }
    findings = [
        finding
        for finding in without_findings_of_rules(
            (
                *lint_manifests(manifests, **context),
                *lint_rules(rules, manifests=manifests, **context),
                *lint_nodes(manifests, topology=context["topology"]),
                *read.findings,
            )
        )
        if finding.rule
        or not finding.objects
        or any(ref.namespace not in excluded for ref in finding.objects)
    ]
    kinds = Counter(
        str(manifest["kind"])
        for manifest in manifests
        if manifest["metadata"].get("namespace") not in excluded
    )
    objects = sum(kinds.values()) - sum(kinds[kind] for kind in CONTEXT_KINDS)
    if not (objects or rules or read.findings):
        module.warn("nothing was checked: the input has no rule, workload, VMI or pod")
    if not_checked := summary(read.passed_over):
        module.warn(one_line(not_checked))
    if read.nodes:
        module.warn(one_line(_counted_nodes(read.nodes)))
    if alone := checked_without_manifests(rules, manifests):
        module.warn(one_line("; ".join(alone)))
    warn_once(module.warn, findings)
    severities = Counter(finding.severity for finding in findings)
    gaps = cluster.unreadable if cluster is not None else ()
    warn_unreadable(module.warn, gaps)
    return {
        "ok": not severities["error"] and not gaps,
        "findings": [finding.as_json() for finding in findings],
        "counts": {
            "objects": objects,
            "rules": len(rules),
            "nodes": kinds["Node"] or len(cluster.nodes if cluster is not None else ()),
            "passed_over": len(read.passed_over),
            **{name: severities[name] for name in ("error", "warning", "info")},
        },
        "rendered": render(rules, manifests=manifests, platform=_server(platform, cluster)),
        "passed_over": reasons_as_json(read.passed_over),
        "permission_gaps": as_json(gaps),
    }


def _counted_nodes(places: t.Sequence[str]) -> str:
    """What Node manifests in a folder mean: few repositories have one for each node."""
    count, them = ("count", "them") if len(places) != 1 else ("counts", "it")
    manifests = f"{plural(len(places), 'Node manifest')} ({listed(places, 1)})"
    return f"{manifests} {count} as all nodes of the cluster: exclude {them} if there are others"


def _server(platform: Platform | None, cluster: Snapshot | None) -> Platform | None:
    """The server that rules are rendered for. Without the option KubeVirt is not taken for too old."""
    if platform is None:
        return cluster.platform if cluster is not None else None
    return replace(platform, kubevirt=platform.kubevirt or "")


_RELEASE = re.compile(r"v?(\d+)\.(\d+)(?:[.+-].*)?")


def _platform_option(params: Params, faults: list[InputError]) -> Platform | None:
    """The server of these versions; None where no version is given."""
    releases = {}
    for option in ("kubernetes_version", "kubevirt_version"):
        if params[option] is not None:
            releases[option] = _RELEASE.fullmatch(params[option])
            if releases[option] is None:
                faults.append(InputError(option, f"must be like 1.34, not {params[option]!r}"))
    release = releases.get("kubernetes_version")
    if release is None:
        return None
    return Platform(
        kubernetes=(int(release[1]), int(release[2])), kubevirt=params["kubevirt_version"]
    )


def _manifests_option(
    params: Params, faults: list[InputError], warn: t.Callable[[str], None]
) -> ReadManifests:
    """The manifests in the files and in the option."""
    given = params["manifests"]
    if isinstance(given, str):
        items = documents_in(given, "manifests", faults)
    elif isinstance(given, dict):
        items = [Document("manifests", given)]
    elif isinstance(given, list):
        items = [
            Document(f"manifests[{number}]", item)
            for number, item in enumerate(given)
            if item is not None
        ]
    else:
        faults.append(
            InputError("manifests", "must be a list of Kubernetes objects, or the text of some")
        )
        items = []
    exclude = _exclude_option(params, faults)
    read = documents_of(params["files"], exclude, faults)
    for pattern in exclude:
        if pattern not in read.used:
            warn(
                f"exclude: {pattern.text!r} matches nothing in the folders of files: correct or remove it"
            )
    manifests = read_manifests([*read.documents, *items], params["namespace"])
    faults += manifests.faults
    return manifests


def _exclude_option(params: Params, faults: list[InputError]) -> tuple[PathPattern, ...]:
    patterns = []
    for number, text in enumerate(params["exclude"]):
        try:
            patterns.append(PathPattern.parse(text))
        except InvalidPattern as error:
            faults.append(InputError(f"exclude[{number}]", f"{text!r} {error}"))
    return tuple(patterns)


def _rules_option(params: Params, faults: list[InputError]) -> Parsed:
    """The rules, and those that have faults."""
    try:
        listed = rules_data(params["rules"])
    except InvalidInput as error:
        faults += error.errors
        return Parsed((), ())
    if not listed:
        return Parsed((), ())
    parsed = read_rules(
        listed,
        namespace=params["namespace"],
        rule_set=params["rule_set"],
        topology=topology_of(params),
    )
    faults += parsed.faults
    return parsed
