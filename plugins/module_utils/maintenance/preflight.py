# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands against the maintenance of these nodes, before anything is touched?

`preflight` returns findings. One of severity `error` refuses the drain, unless it is allowed by its name:
the drain could not end, or would lose something. docs/maintenance.md explains each. Pure; the input is read
by `read_preflight`.
"""

from __future__ import annotations

import math
import typing as t
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from ..forecast.result import NAMED, Forecast
from ..kubevirt.moving import eviction_strategy
from ..model.findings import Finding
from ..model.objects import Labels, Ref
from ..model.obstacle import CODES, NAMES_NODE, TOLERATES_CORDON, Obstacle
from ..model.plan import Method, Move
from ..model.rendering import listed
from ..model.snapshot import Unreadable, Vmi
from ..model.topology import Topology
from ..scheduler.node_affinity import allows_only
from ..scheduler.nodes import takes_pods
from ..view.view import view_of
from .budget_findings import BudgetFacts, EvictionAnswer, budget_findings
from .drain_plan import DrainView
from .holders import holder_of
from .options import VM_POLICIES
from .places import drain_forecast, nodes_text, place_findings
from .pods import PodAction, drain_finding, sentence
from .preflight_findings import (
    BACKUP_RUNNING,
    CONFIG_POOL_UPDATING,
    CONTROL_PLANE_QUORUM,
    DO_NOT_MOVE_FINDING,
    HEALTH_CHECK,
    INVALID_POLICY,
    JOB_ON_NODE,
    KUBEVIRT_UPDATING,
    LAST_NODE_OF_DOMAIN,
    MIGRATION_REFUSED,
    NODE_NOT_READY,
    NOT_CHECKED,
    NOT_EVICTABLE,
    NOT_MIGRATABLE,
    NOT_RESTARTABLE,
    OTHER_MAINTENANCE,
    OTHER_ZONE_NOT_READY,
    PENDING_CHANGES,
    POLICY_FALLBACK,
    REFUSED_BY_POLICY,
    SHARED_DOMAIN,
)
from .returns import RETURNS
from .vm_ways import LABEL_SEPARATOR, VM_POLICY

ETCD = "node-role.kubernetes.io/etcd"
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


@dataclass(frozen=True, slots=True)
class Automation:
    """Another controller that acts on `nodes`: its object, and what it would do."""

    finding: str
    ref: Ref
    nodes: frozenset[str]
    effect: str


@dataclass(frozen=True, slots=True)
class PreflightInput:
    """`view` is the drain. `evictions` and `migrations` are those of `DryRuns`. `job_pod` is the namespace (empty if
    unknown) and the name of the pod that this job runs in."""

    view: DrainView
    reboot_expected: bool = False
    topology: Topology = field(default_factory=Topology.of)
    automation: tuple[Automation, ...] = ()
    kubevirt_update: str | None = None
    evictions: t.Mapping[str, EvictionAnswer] = field(default_factory=dict)
    migrations: t.Mapping[str, Obstacle] = field(default_factory=dict)
    job_pod: tuple[str, str] | None = None
    deleted: t.Mapping[str, Labels] = field(default_factory=dict)
    """The labels of nodes whose Node objects were deleted in their maintenance, by name."""
    gaps: tuple[Unreadable, ...] = ()


def preflight(inputs: PreflightInput) -> tuple[Finding, ...]:
    """All findings, errors first."""
    checks = _Checks(inputs)
    rank = ("error", "warning", "info")
    return tuple(sorted(checks.findings(), key=lambda finding: rank.index(finding.severity)))


class _Checks:
    def __init__(self, inputs: PreflightInput) -> None:
        self.inputs = inputs
        self.view = inputs.view
        self.with_nothing_allowed = replace(inputs.view, allowed=frozenset())
        self.snapshot = inputs.view.snapshot
        self.drained = inputs.view.nodes
        self.decisions = inputs.view.decisions

    def findings(self) -> t.Iterator[Finding]:
        yield from self._pods()
        yield from self._vms()
        yield from self._migrations()
        facts = BudgetFacts(
            self.view.workload_of, self.view.ways.why_not_migrated, self._where_policies_are
        )
        yield from budget_findings(self.view.ended, self.view.budgets, self.inputs.evictions, facts)
        result = drain_forecast(self.view, self.inputs.topology)
        for finding in place_findings(self.view, result):
            yield replace(finding, codes=result.codes)
        yield from self._shared_domains(result)
        yield from self._nodes()
        yield from self._others()

    def _where_policies_are(self, vmi: Vmi) -> str:
        return _LABEL if self.view.ways.has_own_policy(vmi) else _CHOICE

    # Pods and VMs of the nodes.

    def _pods(self) -> t.Iterator[Finding]:
        for decision in self.with_nothing_allowed.decisions:
            for name in decision.refused_by:
                yield drain_finding(
                    name,
                    "error",
                    f"{decision.pod.ref} on node {decision.pod.node_name} is not evicted:"
                    f" {decision.obstacle}.",
                    CODES[name].advice,
                    decision.pod.ref,
                )
        yield from self._returns()
        for decision in self.decisions:
            if (why := self.view.why_pod_stays(decision)) is not None:
                yield drain_finding(
                    DO_NOT_MOVE_FINDING,
                    "error",
                    f"{decision.pod.ref} on node {decision.pod.node_name} is not evicted: {why}.",
                    "Remove the label for the maintenance.",
                    decision.pod.ref,
                )
        job = self.inputs.job_pod
        for decision in self.decisions:
            pod = decision.pod
            if job is not None and job in ((pod.namespace, pod.name), ("", pod.name)):
                yield drain_finding(
                    JOB_ON_NODE,
                    "error",
                    f"This job runs in {pod.ref} on node {pod.node_name}, and the drain would end it.",
                    "Run the job on another node: cordon this one first, then start the job again.",
                    pod.ref,
                )

    def _returns(self) -> t.Iterator[Finding]:
        """Instances whose successors may be on the node again."""
        ending = {x.pod.uid for x in self.view.ended}
        for decision in self.decisions:
            pod, vmi = decision.pod, decision.vmi
            stops = vmi is not None and self.view.way_of_vm(vmi).method is Method.STOP
            if not decision.returns or stops or pod.uid not in ending:
                continue
            then = "it is left there" if vmi is None else "the drain fails"
            yield drain_finding(
                TOLERATES_CORDON,
                "warning",
                f"{vmi.ref if vmi is not None else pod.ref} tolerates the cordon: the scheduler may place its successor"
                f" on node {pod.node_name} again. If it comes back {RETURNS} times, {then}.",
                CODES[TOLERATES_CORDON].advice,
                vmi.ref if vmi is not None else pod.ref,
            )
        for left, stays in self.view.left_behind:
            yield drain_finding(
                stays.code,
                "warning",
                f"{left.instance} is left on node {left.node}: {stays}.",
                stays.advice,
                left.instance,
            )

    def _vms(self) -> t.Iterator[Finding]:
        for decision in self.decisions:
            vmi = decision.vmi
            if decision.action is not PodAction.MOVE_VM or vmi is None:
                continue
            where = f"{vmi.ref} on node {decision.pod.node_name}"
            way = self.with_nothing_allowed.way_of_vm(vmi)
            strategy = eviction_strategy(vmi, self.snapshot.platform)
            if way.method is Method.MIGRATE and vmi.live_migratable is None:
                yield drain_finding(
                    NOT_MIGRATABLE,
                    "warning",
                    f"{where} does not report whether it can be migrated (no condition LiveMigratable).",
                    "Check the VMI if its migration fails.",
                    vmi.ref,
                )
            elif way.obstacle is not None and not way.obstacle.temporary:
                seen = way.obstacle.text
                if way.finding == NOT_MIGRATABLE:
                    seen += f" (its own eviction strategy, or else the cluster's, is {strategy})"
                yield drain_finding(
                    way.finding,
                    "error",
                    f"{where} cannot leave: {seen}.",
                    self._advice(way.finding, vmi),
                    vmi.ref,
                )
            way = self.view.way_of_vm(vmi)
            if vmi.backup and way.method is not None:
                yield self._backup(vmi, where, way.method)
            if way.method is not None and way.passed_over:
                yield drain_finding(
                    POLICY_FALLBACK,
                    "warning",
                    f"{where} leaves by vm_policy {way.policy}: {way.passed_over_text}.",
                    "Remove the obstacle if it is to leave by a better way.",
                    vmi.ref,
                )

    def _backup(self, vmi: Vmi, where: str, method: Method) -> Finding:
        """KubeVirt holds a migration until the backup has ended, and aborts the backup for one of its own evacuations
        (since 1.8, pkg/virt-controller/watch/migration/migration.go, handleVMBackup). The end of a VMI ends it, too."""
        effect = (
            "KubeVirt holds its migration until the backup has ended"
            if method is Method.MIGRATE
            else "the drain would abort it"
        )
        return drain_finding(
            BACKUP_RUNNING,
            "error",
            f"{where} is being backed up ({vmi.backup}), and {effect}.",
            "Wait until the backup has ended, or allow the finding backup_running.",
            vmi.ref,
        )

    def _migrations(self) -> t.Iterator[Finding]:
        """Migrations that the server refuses, in its own words: each text once."""
        refused: dict[tuple[str, str, str], list[Ref]] = defaultdict(list)
        for decision in self.decisions:
            vmi = decision.vmi
            refusal = self.inputs.migrations.get(vmi.uid) if vmi is not None else None
            if vmi is not None and refusal is not None:
                key = (refusal.text, decision.pod.node_name, self._advice(MIGRATION_REFUSED, vmi))
                refused[key].append(vmi.ref)
        for (text, node, advice), refs in refused.items():
            yield drain_finding(
                MIGRATION_REFUSED,
                "error",
                f"The API server refuses the migration of {listed(refs)} on node {node}: {sentence(text)}",
                advice,
                *refs,
            )

    def _advice(self, finding: str, vmi: Vmi) -> str:
        """What to do, with the policies by which the VM could leave. Where a label of the VM decides, vm_policy changes
        nothing."""
        possible = self._other_policies(vmi, () if finding != MIGRATION_REFUSED else ("migrate",))
        policies = self._where_policies_are(vmi)
        ways = " or ".join(filter(None, [", ".join(possible[:-1]), *possible[-1:]]))
        change = f"set {policies} to {ways}" if ways else "end it by hand for the maintenance"
        advice = _ADVICE[finding].format(change=change, policies=policies)
        return f"{advice[0].upper()}{advice[1:]}"

    def _other_policies(self, vmi: Vmi, without: t.Collection[str]) -> list[str]:
        """One that needs another node is none where node selector and node affinity allow no other."""
        movable = self.view.by_uid.get(vmi.uid)
        others = (x for x in self.snapshot.nodes if x.name not in self.drained)
        source = [x for x in self.snapshot.nodes if x.name == vmi.node_name]
        tied = movable is not None and allows_only(
            movable.declared_pod.placement, vmi.node_name, [*source, *others]
        )
        left_out = {*without, *(("migrate", "restart") if tied else ())}
        return [policy for policy in self.view.ways.possible(vmi) if policy not in left_out]

    # Places for what leaves.

    def _shared_domains(self, result: Forecast) -> t.Iterator[Finding]:
        """Workloads that are spread evenly over zones, and cannot be afterwards."""
        key = self.inputs.topology.resolve("zone")
        zone_of = {node.name: node.labels.get(key, "") for node in self.snapshot.nodes}
        zones = {zone for zone in zone_of.values() if zone}
        moves: dict[Ref, list[Move]] = defaultdict(list)
        for move in result.moves:
            moves[move.workload].append(move)
        running: dict[Ref, dict[str, str]] = {workload: {} for workload in moves}
        for instance in view_of(self.snapshot).instances:
            if instance.workload in running and zone_of.get(instance.node_name):
                running[instance.workload][instance.uid] = zone_of[instance.node_name]
        for workload, leaving in sorted(moves.items()):
            before = running[workload]
            most = max(Counter(before.values()).values(), default=0)
            gone = {move.uid for move in leaving}
            staying = Counter(zone for uid, zone in before.items() if uid not in gone)
            for move in leaving:
                targets = {zone_of.get(name, "") for name in move.targets}
                spread_now = most <= math.ceil(len(before) / max(1, len(zones)))
                if not (
                    spread_now
                    and len(move.targets) < NAMED
                    and all(zone and staying[zone] >= most for zone in targets)
                ):
                    continue
                yield drain_finding(
                    SHARED_DOMAIN,
                    "warning",
                    f"{workload} will have {most + 1} in one zone ({' or '.join(sorted(targets))}), and"
                    f" has at most {most} of its {len(before)} instances in a zone now.",
                    "Write a rule keep_apart or spread over zone, or move them back afterwards.",
                    workload,
                )
                break

    # The nodes themselves.

    def _nodes(self) -> t.Iterator[Finding]:
        yield from self._quorum()
        yield from self._other_zones()
        for node in self.snapshot.nodes:
            if node.name in self.drained and not node.ready:
                yield drain_finding(
                    NODE_NOT_READY,
                    "error",
                    f"Node {node.name} is not Ready: its VMs cannot be migrated, and its pods cannot end.",
                    "Bring it back; if it is down for good, power it off and give it the taint"
                    " node.kubernetes.io/out-of-service, so that its pods are replaced.",
                    node.ref,
                )
        usable = [node for node in self.snapshot.nodes if takes_pods(node)]
        for name, key in sorted(self.inputs.topology.keys.items()):
            if name == "node":
                continue
            nodes_of: dict[str, set[str]] = defaultdict(set)
            for node in usable:
                if value := node.labels.get(key):
                    nodes_of[value].add(node.name)
            for value, names in sorted(nodes_of.items()):
                if names <= self.drained:
                    yield drain_finding(
                        LAST_NODE_OF_DOMAIN,
                        "warning",
                        f"No node but {listed(sorted(names))} takes pods in {name} {value}: nothing is"
                        " scheduled there during the maintenance.",
                        f"If other nodes of {name} {value} are cordoned, put them in service first.",
                        *(Ref("Node", "", each) for each in sorted(names)),
                    )

    def _other_zones(self) -> t.Iterator[Finding]:
        """Nodes that are down in other zones, such as one whose Node object was deleted in its maintenance, or
        replaced: the new one has no mark."""
        key = self.inputs.topology.resolve("zone")
        nodes = self.snapshot.nodes
        zones = {node.labels.get(key, "") for node in nodes if node.name in self.drained}
        not_ready = {node.name: (node.labels.get(key, ""), "") for node in nodes if not node.ready}
        deleted = {
            name: (labels.get(key, ""), ", deleted in its maintenance")
            for name, labels in self.inputs.deleted.items()
        }
        down = {
            name: f"{name} ({zone}{why})"
            for name, (zone, why) in {**not_ready, **deleted}.items()
            if zone not in {"", *zones}
        }
        if down:
            named = listed(list(down.values()))
            yield drain_finding(
                OTHER_ZONE_NOT_READY,
                "warning",
                f"Nodes of other zones are not Ready: {named}. With {nodes_text(sorted(self.drained))},"
                " nodes of more than one zone would be out of service.",
                "Bring them back first, unless they are down for good.",
                *(Ref("Node", "", name) for name in down),
            )

    def _quorum(self) -> t.Iterator[Finding]:
        members = [node for node in self.snapshot.nodes if ETCD in node.labels] or [
            node for node in self.snapshot.nodes if any(key in node.labels for key in CONTROL_PLANE)
        ]
        lost = [node for node in members if node.name in self.drained]
        left = [
            node
            for node in members
            if node.name not in self.drained and node.ready and not node.unschedulable
        ]
        quorum = len(members) // 2 + 1
        down = [node.name for node in members if node not in (*left, *lost)]
        if lost and len(left) < quorum:
            yield drain_finding(
                CONTROL_PLANE_QUORUM,
                "error",
                f"Without {nodes_text([node.name for node in lost])}, {len(left)} of"
                f" {len(members)} control-plane nodes are in service, and etcd needs {quorum}.",
                _advice_on_quorum(len(members) - quorum, down),
                *(node.ref for node in lost),
            )

    def _others(self) -> t.Iterator[Finding]:
        for node in self.snapshot.nodes:
            if node.name in self.drained and (holder := holder_of(node)):
                yield drain_finding(
                    OTHER_MAINTENANCE,
                    "error",
                    f"Node {node.name} is in another maintenance: {holder} holds it.",
                    holder.advice,
                    node.ref,
                )
        for automation in self.inputs.automation:
            nodes = sorted(automation.nodes & self.drained)
            if not nodes:
                continue
            harmless = automation.finding == HEALTH_CHECK and not self.inputs.reboot_expected
            yield drain_finding(
                automation.finding,
                "warning" if harmless else "error",
                f"{automation.ref} covers {nodes_text(nodes)}: {automation.effect}.",
                _ADVICE[automation.finding],
                automation.ref,
                *(Ref("Node", "", name) for name in nodes),
            )
        if self.inputs.kubevirt_update:
            yield drain_finding(
                KUBEVIRT_UPDATING,
                "error",
                f"KubeVirt is being updated: {self.inputs.kubevirt_update}.",
                "Wait until its phase is Deployed.",
            )
        for gap in self.inputs.gaps:
            yield drain_finding(
                NOT_CHECKED,
                "warning",
                f"Not checked: {gap.what}.",
                f"{gap.reason[:1].upper()}{gap.reason[1:]}.",
            )


def _advice_on_quorum(spare: int, down: t.Sequence[str]) -> str:
    """`spare`: how many members etcd can be without. `down`: the others that are out of service."""
    if not spare:
        return (
            "Add control-plane nodes until there are three, or allow the finding control_plane_quorum and expect no API"
            " server during the work."
        )
    at_a_time = f"take {'one' if spare == 1 else f'at most {spare}'} at a time"
    if down:
        return f"Bring {nodes_text(sorted(down))} into service first, and {at_a_time}."
    return f"{at_a_time[0].upper()}{at_a_time[1:]}."


_LABEL: t.Final = f"the label {VM_POLICY}"
_CHOICE: t.Final = f"vm_policy or {_LABEL}"

_ADVICE: t.Final = {
    NOT_MIGRATABLE: "remove the obstacle, or {change}.",
    MIGRATION_REFUSED: "change what refuses it, or {change}.",
    NOT_RESTARTABLE: "{change}.",
    REFUSED_BY_POLICY: "move or stop it, or change {policies}.",
    PENDING_CHANGES: "apply them, {change}, or allow the finding pending_changes.",
    INVALID_POLICY: f"Set the label {VM_POLICY} to one of {', '.join(VM_POLICIES)}, or to several of them in order"
    f" of preference, with a dot between them, such as {LABEL_SEPARATOR.join(('migrate', 'stop'))}.",
    NOT_EVICTABLE: "{change}.",
    DO_NOT_MOVE_FINDING: f"Remove the label for the maintenance, or set the label {VM_POLICY} of the VM, which says how"
    " it leaves its node in a maintenance.",
    **{name: CODES[name].advice for name in (TOLERATES_CORDON, NAMES_NODE)},
    HEALTH_CHECK: "Pause it, or exclude the nodes from it, until they are in service again.",
    CONFIG_POOL_UPDATING: "Wait until its condition Updating is False, or pause the pool.",
}
