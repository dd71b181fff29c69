# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads cannot migrate or roll out, need a restart, bypass or copy rules, or are managed by GitOps?"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..compliance.declared import DeclaredReader
from ..compliance.terms import Term, TermKind
from ..kinds.deployment import POD_TEMPLATE_HASH
from ..kinds.registry import kind_of
from ..kubevirt.evacuation import evacuation_findings
from ..kubevirt.live_update import LIVE_UPDATE, SPREAD_FIELD, rollout_strategy
from ..kubevirt.moving import chooses_target, lagging_fields, why_never_migrated
from ..model.findings import Finding
from ..model.kinds import UNDO
from ..model.objects import Placement, PodTerm, Ref, Requirement
from ..model.placement_manifests import CREATED_BY
from ..model.rendering import listed, value_text
from ..model.rule import RuleId
from ..model.snapshot import Workload, managed_by
from ..model.topology import HOSTNAME
from ..rules.ownership import (
    UnreadableAnnotation,
    invalid_rules_annotation,
)
from ..rules.record import read_undo_record
from ..scheduler.labels import NAME_FIELD
from .lint_input import LintedWorkload, LintInput, of_each_rule, without_node_terms

_SPREADS = (TermKind.SPREAD, TermKind.PREFERRED_SPREAD)
_NOT_RUNNING = ("", "Stopped", "Unknown")
"""Values of a VM's status.printableStatus without a VMI, or of which that is not known (KubeVirt, api
core/v1/types.go, VirtualMachinePrintableStatus). A paused VM has a VMI."""

_IN_SERVICE = (
    "Put the cordoned nodes back in service (playbook maintenance with placement_maintenance_state:"
    " in_service, or kubectl uncordon)"
)


def migration_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    reader = DeclaredReader()
    for subject in lint_input.subjects:
        if not subject.is_vm:
            continue
        for term in subject.terms:
            if term.kind is TermKind.ANTI_AFFINITY:
                yield from _own_source(lint_input, subject, term)
        yield from _pinned(lint_input, subject)
        yield from _never_migrated(subject)
        if kind_of(subject.ref.kind).run_strategy:
            yield from _restart(lint_input, subject, reader)


def vmi_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    if lint_input.platform is not None:
        for subject in lint_input.subjects:
            yield from evacuation_findings(
                subject.vmis, lint_input.nodes or (), lint_input.platform, subject.ref
            )


def _own_source(lint_input: LintInput, subject: LintedWorkload, term: Term) -> t.Iterator[Finding]:
    """During a migration the source pod still exists, with the labels of the target."""
    if not lint_input.selects_itself(subject, term):
        return
    pod_term: PodTerm = term.source
    domains = lint_input.eligible_domains(subject, pod_term.topology_key)
    over = lint_input.over(term)
    aside = CREATED_BY in pod_term.mismatch_label_keys or pod_term.differs_in == CREATED_BY
    if aside or pod_term.topology_key == HOSTNAME or max(domains.values(), default=0) == 1:
        yield from _all_taken(lint_input, subject, term, domains)
        return
    yield subject.finding(
        term,
        "blocks_live_migration",
        "warning",
        f"While a VM migrates, its own source pod matches the {term.kind} term over"
        f" {over}, so no node with the same {over} is feasible for the target.",
        f"Add mismatchLabelKeys: [{CREATED_BY}] to the term, as keep_apart does: a VM then has"
        " anti-affinity to all others and not to itself.",
    )


def _all_taken(
    lint_input: LintInput, subject: LintedWorkload, term: Term, inside: t.Mapping[str, int]
) -> t.Iterator[Finding]:
    """In a domain of one node, a migration needs another domain in which no VM of the group runs."""
    group = lint_input.selected(subject, term) or ()
    members = sum(member.replicas or 0 for member in group)
    key = term.source.topology_key
    if 1 == len(inside) == sum(inside.values()) < len(lint_input.nodes or ()):
        yield _one_node(lint_input, subject, "Only one node takes its pods")
        return
    domains = len(lint_input.shared_domains(subject, term, key))
    if members < domains or not (single := [name for name, nodes in inside.items() if nodes == 1]):
        return
    room = lint_input.topology.counted(key, domains)
    where = f"{'each of ' * (len(single) > 1)}{listed(list(map(value_text, sorted(single))))}"
    taken = (
        f". Node affinity, taints or cordons leave only one node in {where}. While an instance runs in each of the"
        f" {room}, an instance on such a node cannot be live-migrated, and"
        " the node cannot be drained."
    )
    if key == HOSTNAME:
        taken = (
            ". While an instance runs on each of these, none can be live-migrated, and the nodes cannot be"
            " drained."
        )
    cordoned = _cordoned(lint_input, subject, key, inside)
    finding = subject.finding(
        term,
        "blocks_live_migration",
        "warning",
        f"The {term.kind} term over {lint_input.over(term)} selects {members} instances, and only {room} can run"
        f" them{taken}" + (f" Cordoned: {listed(cordoned)}." if cordoned else ""),
        f"{_IN_SERVICE if cordoned else 'Add a node'}, or make the term preferred.",
    )
    wider = lint_input.eligible_domains(without_node_terms(subject), key)
    node_rules = [rule for rule, _parts in subject.node_rules()]
    excluding = node_rules if any(wider.get(name, 0) > 1 for name in single) else []
    yield from of_each_rule(finding, [subject.owner(term), *excluding])


def _cordoned(
    lint_input: LintInput, subject: LintedWorkload, key: str, inside: t.Mapping[str, int]
) -> list[str]:
    """The cordoned nodes that would give a domain a second node, or be a domain more."""
    over, table = lint_input.topology.name_of(key), lint_input.table
    values = {
        name: table.labels[table.numbers[name]].get(key)
        for name in table.names_of(lint_input.cordoned(subject))
    }
    return [
        name if key == HOSTNAME else f"{name} ({over} {value_text(value)})"
        for name, value in values.items()
        if value is not None and inside.get(value, 0) < 2
    ]


def _pinned(lint_input: LintInput, subject: LintedWorkload) -> t.Iterator[Finding]:
    placement = subject.declared.placement
    parts = [Requirement(key, "In", (value,)) for key, value in placement.node_selector]
    if placement.node_terms and len(placement.node_terms) == 1:
        parts += (*placement.node_terms[0].expressions, *placement.node_terms[0].fields)
    if any(
        part.key in (HOSTNAME, NAME_FIELD) and part.operator == "In" and len(part.values) == 1
        for part in parts
    ):
        yield _one_node(lint_input, subject, "Its node terms name a single node")


def _never_migrated(subject: LintedWorkload) -> t.Iterator[Finding]:
    """Whatever the cluster. The VMs of a pool or replica set have names of their own."""
    named = subject.ref.is_vmi or kind_of(subject.ref.kind).run_strategy
    name = subject.ref.name if named else ""
    if why := why_never_migrated(name, subject.spec or {}):
        finding = subject.finding(
            None,
            "blocks_live_migration",
            "warning",
            f"No live migration of it succeeds: {why}.",
            "Change that, or restart or stop the VM for the maintenance of its node"
            " (placement_maintenance_vm_policy).",
        )
        yield replace(finding, never_migrates=True)


def _one_node(lint_input: LintInput, subject: LintedWorkload, why: str) -> Finding:
    advice = "Use a label that several nodes have."
    if lint_input.platform is None or chooses_target(lint_input.platform):
        advice += (
            " To choose the target of one migration, set spec.addedNodeSelector of the"
            " VirtualMachineInstanceMigration."
        )
    return subject.finding(
        None,
        "blocks_live_migration",
        "warning",
        f"{why}, so a migration has no target and a drain of that node cannot end.",
        advice,
    )


def _restart(
    lint_input: LintInput, subject: LintedWorkload, reader: DeclaredReader
) -> t.Iterator[Finding]:
    declared = [term for term in subject.terms if term.kind in _SPREADS]
    if subject.vmis and subject.workload is not None:
        for vmi in subject.vmis:
            if SPREAD_FIELD in lagging_fields(subject.workload, vmi, subject.spec):
                running = reader.placement(vmi.spec)[1].terms
                missing = next((term for term in declared if term not in running), None)
                yield _restart_required(lint_input, subject, missing)
    elif lint_input.pods is None and declared:
        manifest = subject.workload.manifest if subject.workload is not None else {}
        state = (manifest.get("status") or {}).get("printableStatus", "")
        if subject.workload is None or state not in _NOT_RUNNING:
            yield _restart_required(lint_input, subject, declared[0])


def _restart_required(lint_input: LintInput, subject: LintedWorkload, term: Term | None) -> Finding:
    advice, platform = "Restart the VM", lint_input.platform
    if platform is None or rollout_strategy(platform) == LIVE_UPDATE:
        advice += ", or use keep_apart, which takes effect by live migration"
    return subject.finding(
        term,
        "restart_required",
        "warning",
        "KubeVirt does not copy topologySpreadConstraints to a running VMI. Until the VM is"
        " restarted, no other change of its placement reaches the VMI either.",
        f"{advice}.",
    )


def rollout_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    for subject in lint_input.subjects:
        room = subject.workload.rollout_room if subject.workload is not None else None
        stops_old_pods = room is not None and (room.unavailable > 0 or room.surge == 0)
        if stops_old_pods or not kind_of(subject.ref.kind).revision_label:
            continue
        for term in subject.terms:
            if term.kind is TermKind.ANTI_AFFINITY and lint_input.selects_itself(subject, term):
                yield from _deadlock(lint_input, subject, term)


def _deadlock(lint_input: LintInput, subject: LintedWorkload, term: Term) -> t.Iterator[Finding]:
    if POD_TEMPLATE_HASH in term.source.match_label_keys:
        return
    room = len(lint_input.eligible_domains(subject, term.source.topology_key))
    followed = _most_followed(lint_input, subject, term.source.topology_key)
    most = room if followed is None else min(room, followed)
    beside = lint_input.nodes is not None and most < room
    if lint_input.nodes is not None and subject.replicas is not None and subject.replicas < most:
        return
    over = lint_input.over(term)
    room_text = f" of which there are {room}" if lint_input.nodes is not None else ""
    if beside:
        room_text = f" of which at most {most} can have a pod that it has to run beside,"
    yield subject.finding(
        term,
        "rollout_deadlock",
        "warning" if lint_input.nodes is None or beside else "error",
        f"Each old pod keeps the new ones out of its domain of {over},{room_text or ' if all are taken,'}"
        " and none may stop before a new one is Ready: any change of the template, by whatever"
        " client, then waits forever.",
        f"Add matchLabelKeys: [{POD_TEMPLATE_HASH}] to the term, as keep_apart does, or set"
        " maxSurge 0 and maxUnavailable 1.",
    )


def _most_followed(lint_input: LintInput, subject: LintedWorkload, key: str) -> int | None:
    """In how many domains of the key the pods can be that the subject has to run beside, at most. None if it has to run
    beside none, or their number is not known."""
    numbers = []
    for term in subject.terms:
        if term.kind is not TermKind.AFFINITY or term.source.topology_key != key:
            continue
        selected = lint_input.selected(subject, term)
        if not selected or lint_input.selects_itself(subject, term):
            continue
        replicas = [workload.replicas for workload in selected]
        declared = sum(x for x in replicas if x is not None)
        if None not in replicas:
            numbers.append(max(declared, len(lint_input.running(subject, term) or ())))
    return min(numbers, default=None)


def workload_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """Findings about the rules on a workload: `bypassed_by_node_term`, `copied_annotation`,
    `invalid_rules_annotation` and `externally_managed`."""
    for subject in lint_input.subjects:
        if damage := subject.declared.damaged or _damaged_undo_record(subject.workload):
            yield invalid_rules_annotation(subject.ref, damage)
        for rule in subject.declared.rules:
            if rule.nodes is not None and rule.nodes.bypasses:
                yield _bypassed(rule.rule, subject.ref)
        if subject.declared.copied_from:
            yield Finding(
                "copied_annotation",
                "warning",
                "The annotation with the rules was written for another object, so this one is a copy: it carries the"
                " terms, but no rule owns them.",
                "List the copy in a rule with adopt set to true, or remove the terms and the annotation from it.",
                (subject.ref,),
                names_option=True,
                named=(),
            )
        carrying = subject.workload if subject.declared.rules else None
        if (
            carrying is not None
            and _is_written_by_task(carrying)
            and (manager := managed_by(carrying))
        ):
            yield subject.finding(
                None,
                "externally_managed",
                "warning",
                f"It carries rules and is managed by {manager}, which may revert them.",
                "Commit the terms to the source of the object, and let the rules adopt them.",
            )


def node_name_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """Templates and manifests of pods that name a node. The kubelet of that node takes such a pod, and kube-scheduler
    never sees it (kubernetes pkg/scheduler/eventhandlers.go, assignedPod). A pod that was read from a cluster has the
    node that the scheduler chose."""
    nodes = None if lint_input.nodes is None else {node.name for node in lint_input.nodes}
    for subject in lint_input.subjects:
        name = (subject.spec or {}).get("nodeName")
        if not name or subject.is_vm or kind_of(subject.ref.kind).per_node:
            continue
        alone = subject.ref.kind == "Pod"
        if alone and subject.source is not None and subject.source[0]["metadata"].get("uid"):
            continue
        what, pods, them = ("It", "it", "it") if alone else ("Its template", "its pods", "them")
        why = (
            f"{what} names node {name} (nodeName), so kube-scheduler does not place {pods}, and checks none of the"
            " constraints."
        )
        if nodes is not None and name not in nodes:
            why += f" There is no such node, so {pods} cannot run, and the garbage collector deletes {them}."
        elif not alone:
            why += f" They start there also while {name} is cordoned, and have no other node when it is drained."
        yield subject.finding(
            None,
            "names_node",
            "error" if nodes is not None and name not in nodes else "warning",
            why,
            f"Remove nodeName. To keep {pods} on that node, use nodeSelector with {HOSTNAME}.",
        )


_OF_GROUPS = (
    TermKind.ANTI_AFFINITY,
    TermKind.PREFERRED_ANTI_AFFINITY,
    TermKind.AFFINITY,
    TermKind.PREFERRED_AFFINITY,
    *_SPREADS,
)


def new_member_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """Workloads that lack a rule by whose labels they are its members."""
    for workload, rule in lacking_by_labels(lint_input):
        yield Finding(
            "rule_not_on_new_member",
            "warning",
            f"It has the labels by which rule {rule.in_namespace} selects its members, and lacks the rule: it was"
            " created or got the labels later, or another client wrote it without the rule. The rule has no effect on"
            " its placement.",
            f"Write the rules of the set {rule.rule_set} again (playbook apply, or module rules), or give it other"
            " labels if it is no member.",
            (workload,),
            rule.name,
            named=(),
        )


def lacking_by_labels(lint_input: LintInput) -> t.Iterator[tuple[Ref, RuleId]]:
    """Workloads that lack a rule of whose members they are: by the labels by which the rule names them, or since its
    term selects their pods among those of its members. Nothing of rules that an undo has left."""
    for ref, rule in (*_with_labels_of_rules(lint_input), *_in_groups(lint_input)):
        if str(rule) not in lint_input.rules_left_by_undo:
            yield ref, rule


def _in_groups(lint_input: LintInput) -> t.Iterator[tuple[Ref, RuleId]]:
    chosen = {subject.ref for subject in lint_input.subjects}
    known: set[t.Hashable] = set()
    for subject in lint_input.all_subjects:
        for term in subject.terms if subject.declared.rules else ():
            rules = subject.declared.owners.get(term, ())
            if term.kind not in _OF_GROUPS or not rules:
                continue
            selected = lint_input.selected(subject, term) or ()
            group = selected, rules, subject.ref.kind
            if group in known or not lint_input.selects_itself(subject, term):
                continue
            known.add(group)
            for other in selected:
                carried = {rule.rule for rule in other.declared.rules}
                alike = (other.ref.kind, other.ref.namespace)
                if alike != (subject.ref.kind, subject.ref.namespace) or other.ref not in chosen:
                    continue
                for rule in rules:
                    if rule not in carried and not other.declared.copied_from:
                        yield other.ref, RuleId.parse(rule)


def lacks(workload: LintedWorkload, rule: str) -> bool:
    """Whether it does not have a rule, at rest or not. False where that is unknown: its annotation is damaged, or that
    of another object."""
    declared = workload.declared
    carried = {*declared.resting, *(x.rule for x in declared.rules)}
    return not (rule in carried or declared.copied_from or declared.damaged)


def _with_labels_of_rules(lint_input: LintInput) -> t.Iterator[tuple[Ref, RuleId]]:
    """Each rule is looked up once for each kind: its members have the same labels."""
    alike: dict[tuple[str, str], list[LintedWorkload]] = {}
    for subject in lint_input.subjects:
        alike.setdefault((subject.ref.kind, subject.ref.namespace), []).append(subject)
    chosen = {
        (subject.ref.kind, rule): labels
        for subject in lint_input.all_subjects
        for rule, labels in subject.declared.chosen.items()
    }
    for (kind, name), labels in sorted(chosen.items()):
        rule = RuleId.parse(name)
        for other in alike.get((kind, rule.namespace), ()):
            if lacks(other, name) and labels.items() <= dict(other.labels).items():
                yield other.ref, rule


TERMS_LIMIT = 32
"""Terms of one pod whose cost grows with the pods of the cluster. The rules of this collection write one
for each rule."""


def count_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """Each term is compared with every pod, by kube-scheduler for each pod that it places, too."""
    for subject in lint_input.subjects:
        yield from too_many_terms(subject.ref, subject.declared.placement)


def too_many_terms(ref: Ref, placement: Placement) -> t.Iterator[Finding]:
    """The finding about an object whose pods have this placement, if there is one."""
    lists: tuple[t.Sequence[object], ...] = (
        placement.affinity,
        placement.anti_affinity,
        placement.preferred_affinity,
        placement.preferred_anti_affinity,
        placement.spread,
    )
    number = sum(map(len, lists))
    if number > TERMS_LIMIT:
        yield Finding(
            "too_many_terms",
            "warning",
            f"Its pods have {number} pod affinity, anti-affinity and spread terms, more than"
            f" {TERMS_LIMIT}: each is compared with every pod, which slows down kube-scheduler and this"
            " collection.",
            "Select all pods that are meant with one term: by a common label, or by several values of"
            " one label.",
            (ref,),
            named=(),
        )


def _is_written_by_task(workload: Workload) -> bool:
    """Whether a task wrote the rules, or a controller, as to the VMs of a pool: what comes with the object itself, from
    a policy or its source, has no undo record, and no tool reverts it."""
    return workload.owner is not None or UNDO in workload.annotations


def _damaged_undo_record(workload: Workload | None) -> str:
    try:
        if workload is not None:
            read_undo_record(workload)
    except UnreadableAnnotation as error:
        return str(error)
    return ""


def _bypassed(rule: str, workload: Ref) -> Finding:
    """Required node terms are OR-ed: one that lacks the rule's expression allows other nodes."""
    return Finding(
        "bypassed_by_node_term",
        "error",
        "An added required node term lacks the rule's expression, and terms are OR-ed,"
        " so a node that matches that term need not satisfy the rule.",
        "Write the rules again, which puts the expression into every term, or remove the term.",
        (workload,),
        RuleId.parse(rule).name,
        named=(),
    )
