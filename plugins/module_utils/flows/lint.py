# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""lint_info from its options to its result: manifests and rules, with a cluster or without one."""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from dataclasses import dataclass, replace

from ..api.yaml_text import InvalidYaml, refuse_endless
from ..interface.arguments import rules_data, topology_of
from ..interface.results import advice_entries, warn_once, warn_unreadable
from ..kubevirt.instance_types import InstanceType
from ..model.findings import Finding, InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.json_text import HALF_A_CHARACTER, is_text
from ..model.rendering import as_json, listed, one_line, plural
from ..model.rule import Rule
from ..model.snapshot import Platform, Snapshot
from ..model.topology import Topology
from ..repository.documents import Document, reasons_as_json, summary
from ..repository.manifests import ReadManifests, in_namespace, read_manifests
from ..repository.offline import (
    CONTEXT_KINDS,
    lint_manifests,
    lint_nodes,
    lint_rules,
    names_instance_type,
    not_served,
    plan_of_policies,
    render,
    types_not_read,
    without_findings_of_rules,
)
from ..repository.offline_rules import checked_without_manifests
from ..repository.unfilled import certain, restored, with_unknown_labels
from ..rules.parse import Parsed, read_rules
from ..rules.policy_plan import NONE, WrittenPolicies
from ..view.label_input import assumed_node_labels, with_node_labels
from .manifest_files import documents_in, documents_of
from .rule_policies import policy_result

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from ..api.client import ApiClient

Params = t.Mapping[str, t.Any]


def run_online(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """The input as if it stood on the cluster. Raises InvalidInput and ApiError."""
    from ..api.errors import Forbidden
    from ..cluster.identity import unreadable
    from ..cluster.read_instance_types import instance_types
    from ..cluster.reading import ReadScope, read_snapshot

    snapshot = read_snapshot(api, ReadScope(pods="metadata", migrations=""))
    request = _request(module.params, snapshot, module.warn)
    if any(map(names_instance_type, request.manifests)):
        try:
            request = replace(request, instance_types=instance_types(api))
        except Forbidden as error:
            snapshot = replace(snapshot, unreadable=(*snapshot.unreadable, unreadable(error)))
            request = replace(request, cluster=snapshot)
    return _result(module, request)


def run(module: AnsibleModule) -> dict[str, t.Any]:
    """The result without a cluster. Raises InvalidInput with every fault."""
    return _result(module, _request(module.params, None, module.warn))


def _result(module: AnsibleModule, request: _LintRequest) -> dict[str, t.Any]:
    findings, kinds = request.findings(), request.kinds()
    objects = sum(kinds.values()) - sum(kinds[kind] for kind in CONTEXT_KINDS)
    request.warn_of_input(module.warn, objects)
    warn_once(module.warn, findings)
    severities = Counter(finding.severity for finding in findings)
    gaps = request.cluster.unreadable if request.cluster is not None else ()
    warn_unreadable(module.warn, gaps)
    passed_over = request.read.passed_over
    return {
        "ok": not severities["error"] and not gaps,
        "findings": [finding.as_json() for finding in findings],
        **advice_entries(findings),
        "counts": {
            "objects": objects,
            "rules": len(request.rules),
            "nodes": kinds["Node"] or len(request.cluster.nodes if request.cluster else ()),
            "passed_over": len(passed_over),
            **{name: severities[name] for name in ("error", "warning", "info")},
        },
        "rendered": restored(
            render(request.rules, manifests=request.manifests, platform=request.server_of_rules()),
            request.read.texts,
        ),
        **request.policies(module.params["new_members"]),
        "passed_over": reasons_as_json(passed_over),
        "permission_gaps": as_json(gaps),
    }


@dataclass(frozen=True)
class _LintRequest:
    """What is linted, and for which server. `read` is the input as it was read, `manifests` are its manifests, each
    with a namespace. There are no findings about the namespaces in `excluded`."""

    read: ReadManifests
    manifests: list[t.Mapping[str, JSON]]
    rules: tuple[Rule, ...]
    excluded: frozenset[str]
    topology: Topology
    platform: Platform | None
    cluster: Snapshot | None
    instance_types: tuple[InstanceType, ...] = ()

    def findings(self) -> list[Finding]:
        """Those of which it matters not what templates fill in."""
        findings: t.Sequence[Finding] = self._findings(self.manifests)
        if texts := self.read.texts:
            widened = self._findings(with_unknown_labels(self.manifests))
            findings = certain(findings, widened, texts)
        return [
            finding
            for finding in findings
            if finding.rule
            or not finding.objects
            or any(ref.namespace not in self.excluded for ref in finding.objects)
        ]

    def _findings(self, manifests: t.Sequence[t.Mapping[str, JSON]]) -> tuple[Finding, ...]:
        context: dict[str, t.Any] = {
            "topology": self.topology,
            "platform": self.platform,
            "cluster": self.cluster,
            "instance_types": self.instance_types,
        }
        return without_findings_of_rules(
            (
                *lint_manifests(manifests, **context),
                *lint_rules(self.rules, manifests=manifests, **context),
                *lint_nodes(manifests, topology=self.topology),
                *self.read.findings,
            )
        )

    def policies(self, new_members: str) -> dict[str, JSON]:
        """The policy for workloads that are created later, as the module rules plans it. Raises InvalidInput where
        there can be none."""
        if new_members == NONE or not self.rules:
            return {}
        plan = plan_of_policies(
            self.rules,
            new_members,
            manifests=self.manifests,
            cluster=self.cluster,
            platform=self.server_of_rules(),
        )
        if (why := plan.why_none) is not None:
            raise InvalidInput([InputError("new_members", f"{why}. {why.advice}".strip())])
        return {"new_members": policy_result(WrittenPolicies(plan))}

    def kinds(self) -> Counter[str]:
        """How many manifests of each kind are checked."""
        return Counter(
            str(manifest["kind"])
            for manifest in self.manifests
            if manifest["metadata"].get("namespace") not in self.excluded
        )

    def warn_of_input(self, warn: t.Callable[[str], None], objects: int) -> None:
        """Warnings about what was not checked, and about nodes that count as all. `objects` were checked."""
        if not (objects or self.rules or self.read.findings):
            warn("nothing was checked: the input has no rule, workload, VMI or pod")
        if not_checked := summary(self.read.passed_over):
            warn(one_line(not_checked))
        for kind in ("Node",) if self.cluster else ("Node", "Pod"):
            if not (places := [where for x, where in self.read.whole if x == kind]):
                continue
            count, them = ("count", "them") if len(places) != 1 else ("counts", "it")
            counted = f"{plural(len(places), f'{kind} manifest')} ({listed(places, 1)}) {count} as all {kind.lower()}s"
            warn(one_line(f"{counted} of the cluster: exclude {them} if there are others"))
        if self.read.unrendered:
            warn(one_line(_unrendered(self.read.unrendered)))
        if missing := types_not_read(self.manifests, self.instance_types, self.excluded):
            what = f"{len(missing)} of the instance types and preferences that VMs name"
            advice = "What they ask of nodes is not checked: add them to the files"
            warn(one_line(f"not read: {what} ({listed(missing, 2)}). {advice}"))
        if alone := checked_without_manifests(self.rules, self.manifests):
            warn(one_line("; ".join(alone)))

    def server_of_rules(self) -> Platform | None:
        """The server that rules are rendered for. Without the option KubeVirt is not taken for too old."""
        if self.platform is None:
            return self.cluster.platform if self.cluster is not None else None
        return replace(self.platform, kubevirt=self.platform.kubevirt or "")


def _request(
    params: Params, cluster: Snapshot | None, warn: t.Callable[[str], None]
) -> _LintRequest:
    """Raises InvalidInput with every fault of the options, and of what the cluster does not serve."""
    faults: list[InputError] = []
    topology = topology_of(params)
    assumed = assumed_node_labels(params["assume_node_labels"], topology, faults)
    if assumed and cluster is None:
        faults.append(
            InputError("assume_node_labels", "needs online; offline, list Node manifests")
        )
    read = _manifests_option(params, faults, warn)
    parsed = _rules_option(params, faults)
    platform = _platform_option(params, faults)
    manifests, namespace = in_namespace(read.manifests, params["namespace"]), params["namespace"]
    excluded = frozenset(params["exclude_namespaces"])
    if parsed.rules and namespace in excluded:
        faults.append(
            InputError("exclude_namespaces", f"{namespace!r} is the namespace of the rules")
        )
    if cluster is not None:
        cluster = with_node_labels(cluster, assumed, faults)
        faults += not_served((*parsed.rules, *parsed.broken), manifests, cluster)
    if faults:
        raise InvalidInput(faults)
    return _LintRequest(read, manifests, parsed.rules, excluded, topology, platform, cluster)


def _unrendered(places: t.Sequence[tuple[str, str]]) -> str:
    """What it means that names or labels are still to be filled in."""
    where, value = places[0]
    has = "has" if len(places) == 1 else "have"
    shown = listed([f"{where}: {value!r}"], 1, count=len(places))
    manifests = f"{plural(len(places), 'manifest')} {has} a name or label that a template fills in ({shown})"
    return f"{manifests}: what depends on its value is not checked. Lint the rendered files"


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
    read = documents_of(params["files"], params["exclude"], faults)
    for pattern in params["exclude"]:
        if pattern not in read.used:
            warn(
                f"exclude: {pattern!r} matches nothing in the folders of files: correct or remove it"
            )
    items = [item for item in items if _is_plain(item, faults)]
    manifests = read_manifests([*read.documents, *items], params["namespace"])
    faults += manifests.faults
    return manifests


def _is_plain(document: Document, faults: list[InputError]) -> bool:
    """Whether an object of the option can be read: it is neither too deep nor has half a character."""
    try:
        refuse_endless(document.value)
    except InvalidYaml as error:
        faults.append(InputError(document.where, str(error)))
        return False
    if not is_text(document.value):
        faults.append(InputError(document.where, HALF_A_CHARACTER))
        return False
    return True


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
    # Only a cluster has the workloads of a rule that is named alone.
    return replace(parsed, rules=tuple(x for x in parsed.rules if not x.is_named_alone))
