# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rules, node labels and labels of VMs does an export of DRS become, and what became of each part of it?

VM-VM rules are required whatever `mandatory` says, since DRS enforces them: neither vSphere Client nor PowerCLI sets
that field for them. Of VM-host rules it tells must from should.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass, field

from ..model.findings import InputError
from ..model.input import nearest
from ..model.kinds import DO_NOT_MOVE
from ..model.obstacle import NOT_IMPORTED, Obstacle
from ..model.rendering import listed, plural
from .contradictions import contradictions
from .export import DrsCluster, DrsOverride, DrsRule, DrsRuleKind, SourceVm
from .followers import FollowedRule, follow, follow_at_rest
from .host_groups import FreeNames, HostGroups
from .options import EXPECT, LEAVE_OUT, ImportOptions
from .report import ImportDecision, ImportedPart
from .vm_names import FoundVm, TargetVm, VmNames

RuleMap = dict[str, t.Any]

_REQUIRED = ImportDecision(
    "required",
    "It is required, since DRS enforces each VM-VM rule.",
    "Write preferred: true into the rule if it is a wish only.",
)
_RESTS = ImportDecision(
    "rests",
    "It is disabled in the export, so it rests here: enabled: false.",
    "To carry it over as an enabled rule, name it in enable_rules.",
)
_ENABLED = ImportDecision(
    "enabled",
    "It is disabled in the export, and enabled here by enable_rules.",
    "Take it from enable_rules.",
)
_STAYS = "true"


@dataclass
class ImportedCluster:
    """`rules` by namespace as the module rules takes them; `node_labels` as per_value of node_labels; `vm_labels` by
    VM; `parts` has each part of the export once; `expected` are VMs of rules that are not on the cluster yet."""

    rules: dict[str, list[RuleMap]] = field(default_factory=lambda: defaultdict(list))
    node_labels: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    vm_labels: dict[TargetVm, dict[str, str]] = field(default_factory=dict)
    parts: list[ImportedPart] = field(default_factory=list)
    expected: set[TargetVm] = field(default_factory=set)


def import_cluster(
    cluster: DrsCluster, options: ImportOptions, faults: list[InputError]
) -> ImportedCluster:
    """What a cluster of an export becomes. It is not to be used if faults were added."""
    return _Import(cluster, options, faults).run()


class _Import:
    def __init__(
        self, cluster: DrsCluster, options: ImportOptions, faults: list[InputError]
    ) -> None:
        self._cluster, self._options, self._faults = cluster, options, faults
        self._result = ImportedCluster()
        self._rule_names = FreeNames("rule")
        self._hosts = HostGroups(cluster.host_groups, options, faults)
        self._vms = VmNames(
            options.vms,
            options.vm_names or {},
            options.namespace,
            _vms_of(cluster),
            expects=options.missing_vms == EXPECT,
        )
        self._in_fault: set[str] = set()
        self._members: dict[str, tuple[SourceVm, ...]] = {}
        self._missing: dict[str, tuple[SourceVm, ...]] = {}
        self._bound: dict[str, set[str]] = defaultdict(set)
        """By the key of a VM: the rules that bind it to hosts."""

    def run(self) -> ImportedCluster:
        self._check_names()
        rules: list[DrsRule] = []
        parts: dict[str, ImportedPart] = {}
        for rule in self._cluster.rules:
            why = self._why_not(rule) or self._read_members(rule)
            if why is not None:
                parts[rule.where] = _left_out(rule, why)
            else:
                rules.append(rule)
        active = [rule for rule in rules if self._is_enabled(rule)]
        affinity = [rule for rule in active if rule.kind is DrsRuleKind.AFFINITY]
        self._faults += contradictions(active, self._members, self._hosts)
        leaders, hosted = self._options.leaders, self._read_hosted(active)
        followed = follow(affinity, self._members, leaders, self._faults, hosted)
        resting = [
            rule
            for rule in rules
            if rule.kind is DrsRuleKind.AFFINITY and rule.where not in followed
        ]
        followed |= follow_at_rest(resting, self._members, followed.values(), leaders, hosted)
        for rule in rules:
            parts[rule.where] = self._import_rule(rule, followed.get(rule.where))
        self._result.parts += [parts[rule.where] for rule in self._cluster.rules]
        self._result.parts += self._import_host_groups()
        self._result.parts += [self._import_override(x) for x in self._cluster.overrides]
        self._result.parts += [
            ImportedPart(other.kind, other.name, other.where, reason=other.reason)
            for other in self._cluster.others
        ]
        return self._result

    def _read_hosted(self, active: t.Iterable[DrsRule]) -> dict[str, int]:
        """By the key of a VM: 2 where a rule binds it to hosts, 1 where it prefers some, and the names of the former in
        `_bound`."""
        ranks: dict[str, int] = {}
        for rule in active:
            if rule.kind is DrsRuleKind.VM_HOST:
                for vm in self._members[rule.where]:
                    ranks[vm.key] = max(ranks.get(vm.key, 0), 2 if rule.mandatory else 1)
                    if rule.mandatory:
                        self._bound[vm.key].add(rule.name)
        return ranks

    def _check_names(self) -> None:
        """Rules and VMs that options name have to be in the export."""
        rules = {rule.name for rule in self._cluster.rules}
        vms = {name for vm in _vms_of(self._cluster) for name in (vm.name, vm.moref) if name}
        for option, names, known in (
            ("skip_rules", self._options.skip_rules, rules),
            ("enable_rules", self._options.enable_rules, rules),
            ("leaders", self._options.leaders, vms),
            ("vm_names", self._options.vm_names or (), vms),
        ):
            for name in names:
                if name not in known:
                    self._faults.append(
                        InputError(option, f"{name!r} is not in the export{nearest(name, known)}")
                    )

    def _why_not(self, rule: DrsRule) -> Obstacle | None:
        """Why a rule is left out before its VMs are looked at."""
        if rule.name in self._options.skip_rules:
            return Obstacle(NOT_IMPORTED, "It is named in skip_rules.")
        if rule.not_applied:
            advice = "Mend it there and export again, or write a rule by hand."
            return Obstacle(NOT_IMPORTED, rule.not_applied, advice=advice)
        if rule.kind is None:
            return Obstacle(NOT_IMPORTED, f"Its type {rule.type_name} is not known here.")
        if rule.kind is DrsRuleKind.DEPENDENCY:
            text = "VMs have no start order that depends on other VMs."
            advice = "Let the application wait for what it needs."
            return Obstacle(NOT_IMPORTED, text, advice=advice)
        return None

    def _is_enabled(self, rule: DrsRule) -> bool:
        return rule.enabled or rule.name in self._options.enable_rules

    def _read_members(self, rule: DrsRule) -> Obstacle | None:
        """Look up the VMs of a rule. Returns why it has no effect."""
        vms = rule.vms
        if rule.kind is DrsRuleKind.VM_HOST:
            if rule.mandatory is None:
                fault = "the export does not say whether it is a must or a should: export it again"
                self._faults.append(InputError(str(rule), fault))
            if (why := self._why_no_groups(rule)) is not None:
                return why
            vms = self._cluster.vm_groups[rule.vm_group]
        self._refuse_repeated(rule, vms)
        vms = tuple({vm.key: vm for vm in vms}.values())
        found = {vm.key: self._find(vm, rule) for vm in vms}
        self._missing[rule.where] = tuple(vm for vm in vms if found[vm.key].missing)
        self._members[rule.where] = tuple(vm for vm in vms if not found[vm.key].missing)
        least = 1 if rule.kind is DrsRuleKind.VM_HOST else 2
        if len(vms) < least:
            reason = f"It has {plural(len(vms), 'VM')}, so that it does nothing."
            left_out = f" Without counterpart: {rule.left_out}" if rule.left_out else ""
            return Obstacle(NOT_IMPORTED, reason + left_out)
        if len(self._members[rule.where]) < least:
            lacking = ", ".join(map(str, self._missing[rule.where]))
            text = f"Too few of its VMs are on the cluster: {lacking} not."
            return Obstacle(NOT_IMPORTED, text, advice="Import again when they are.")
        return None

    def _why_no_groups(self, rule: DrsRule) -> Obstacle | None:
        group = rule.affine_host_group or rule.anti_affine_host_group
        if not self._cluster.vm_groups.get(rule.vm_group):
            text = f"Its VM group {rule.vm_group!r} is empty or does not exist."
        elif not group:
            text = "It names no host group."
        elif not rule.anti_affine_host_group and self._hosts.has_all_nodes(group):
            text = (
                f"Its host group {group!r} has all nodes of the cluster, so that it does nothing."
            )
        else:
            return self._why_no_hosts(group)
        return Obstacle(NOT_IMPORTED, text)

    def _why_no_hosts(self, group: str) -> Obstacle | None:
        text = f"Its host group {group!r} is empty or does not exist."
        return None if self._cluster.host_groups.get(group) else Obstacle(NOT_IMPORTED, text)

    def _refuse_repeated(self, rule: DrsRule, vms: t.Sequence[SourceVm]) -> None:
        seen: set[str] = set()
        for vm in vms:
            if vm.key in seen:
                self._faults.append(
                    InputError(
                        str(rule),
                        f"VM {str(vm)!r} occurs twice: two VMs have this name there. Rename one of them, or use"
                        " an export with MoRefs, such as that of govc",
                    )
                )
            seen.add(vm.key)

    def _find(self, vm: SourceVm, rule: DrsRule) -> FoundVm:
        """A VM of a rule; it is a fault of the first rule that names it."""
        found = self._vms.find(vm)
        fault = found.fault
        if found.target is not None and found.is_expected:
            self._result.expected.add(found.target)
        if found.missing and self._options.missing_vms != LEAVE_OUT:
            fault = f"{found.missing}. Name it in vm_names, or set missing_vms to {LEAVE_OUT} until it is there"
        if fault and vm.key not in self._in_fault:
            self._in_fault.add(vm.key)
            self._faults.append(InputError(str(rule), fault))
        return found

    def _import_rule(self, rule: DrsRule, followed: FollowedRule | None) -> ImportedPart:
        if followed is not None and not followed.followers:
            return self._adds_nothing(rule, followed)
        if rule.kind is DrsRuleKind.VM_HOST:
            rules = self._vm_host(rule)
        else:
            rules = self._apart(rule) if followed is None else self._followers(rule, followed)
        for namespace, made in rules:
            if not self._is_enabled(rule):
                made["enabled"] = False
            self._result.rules[namespace].append(made)
        became = ", ".join(
            f"{namespace}/{made['name']}: {_type(made)}" for namespace, made in rules
        )
        decisions = tuple(self._decisions(rule, followed, rules))
        return ImportedPart("rule", rule.name, rule.where, became or rule.name, decisions)

    def _adds_nothing(self, rule: DrsRule, followed: FollowedRule) -> ImportedPart:
        reason = "It is disabled, and enabled rules keep its VMs together already."
        if followed.kept_by:
            by = listed([repr(name) for name in followed.kept_by])
            reason = f"Its VMs are kept together already by {by}."
        missing = listed(self._missing[rule.where])
        advice = f"Import again when {missing} are there." if missing else ""
        return _left_out(rule, Obstacle(NOT_IMPORTED, reason, advice=advice))

    def _decisions(
        self,
        rule: DrsRule,
        followed: FollowedRule | None,
        rules: t.Sequence[tuple[str, RuleMap]],
    ) -> t.Iterator[ImportDecision]:
        if missing := self._missing[rule.where]:
            yield ImportDecision(
                "missing_vms",
                f"It leaves out {listed(missing)}, not on the cluster.",
                "Import again when they are.",
            )
        expected = [
            found.target
            for vm in self._members[rule.where]
            if (found := self._vms.find(vm)).is_expected
        ]
        if expected:
            yield ImportDecision(
                "expected_vms",
                f"It names {listed(expected)}, not on the cluster yet.",
                "Name the right VMs in vm_names. Write the rules with new_members: policy.",
            )
        for vm in self._members[rule.where]:
            if text := self._vms.find(vm).decision:
                yield ImportDecision("vm_annotations", text, "Name the right VM in vm_names.")
        if not self._is_enabled(rule):
            yield _RESTS
        elif not rule.enabled:
            yield _ENABLED
        if rule.kind is not DrsRuleKind.VM_HOST and not rule.mandatory:
            yield _REQUIRED
        group = rule.anti_affine_host_group
        if left_out := rule.left_out or (group and self._why_no_hosts(group)):
            yield ImportDecision(
                "left_out",
                f"Without counterpart, and left out: {left_out}",
                "Write what you need into the rule.",
            )
        if followed is not None:
            itself = "has no constraint by it, so that it can migrate"
            if len(followed.leaders) > 1:
                itself = f"follows {followed.leaders[1]} by another rule"
            led = listed([f"{vm} follows {leader}" for vm, leader in followed.led])
            yield ImportDecision(
                "leader",
                f"On the node of {followed.leader}: {listed(followed.followers)}. {followed.leader} itself"
                f" {itself}.{led and f' By enabled rules {led}.'}{self._bound_followers(followed)}",
                "Name another VM in leaders.",
            )
        namespaces = sorted({namespace for namespace, _rule in rules})
        if len(namespaces) > 1:
            yield ImportDecision(
                "namespaces",
                f"It is {plural(len(rules), 'rule')} in the namespaces {', '.join(namespaces)}, where its VMs are.",
                "Apply all of them, or none.",
            )

    def _bound_followers(self, followed: FollowedRule) -> str:
        """Which followers are bound to hosts to which their leader is not: they start only where that one runs. What
        binds a VM binds its followers."""
        leaders_bound = set().union(*(self._bound[vm.key] for vm in followed.leaders))
        bound = [
            f"{vm} (by {listed(sorted(more))})"
            for vm in followed.followers
            if (more := self._bound[vm.key] - leaders_bound)
        ]
        if not bound:
            return ""
        return (
            f" Bound to hosts: {listed(bound)}. While {followed.leader} runs elsewhere, a forecast says impossible:"
            " write that rule for it, too, or let such a VM lead."
        )

    def _by_namespace(self, vms: t.Iterable[SourceVm]) -> dict[str, list[str]]:
        names: dict[str, list[str]] = defaultdict(list)
        for vm in vms:
            target = self._vms.find(vm).target
            if target is not None:  # otherwise it is a fault
                names[target.namespace].append(target.name)
        return dict(names)

    def _apart(self, rule: DrsRule) -> list[tuple[str, RuleMap]]:
        """A rule for the VMs of each namespace, and one from those of the namespaces after it: anti-affinity of one
        side keeps both apart."""
        by_namespace = self._by_namespace(self._members[rule.where])
        name = self._rule_names.name(rule.name)
        rules: list[tuple[str, RuleMap]] = []
        for index, (namespace, names) in enumerate(by_namespace.items()):
            others = list(by_namespace.items())[index + 1 :]
            if len(names) > 1:
                made: RuleMap = {"name": name, "workloads": names, "keep_apart": "node"}
                rules.append((namespace, made))
            if others:
                targets = [{"namespace": other, "names": vms} for other, vms in others]
                made = {
                    "name": self._rule_names.name(rule.name, "-from-others"),
                    "workloads": names,
                    "keep_apart": {"topology_key": "node", "from": targets},
                }
                rules.append((namespace, made))
        return rules

    def _followers(self, rule: DrsRule, followed: FollowedRule) -> list[tuple[str, RuleMap]]:
        leader = self._vms.find(followed.leader).target
        if leader is None:
            return []
        name = self._rule_names.name(rule.name)
        rules: list[tuple[str, RuleMap]] = []
        for namespace, names in self._by_namespace(followed.followers).items():
            beside: t.Any = leader.name
            if namespace != leader.namespace:
                beside = {"namespace": leader.namespace, "name": leader.name}
            together = {"topology_key": "node", "with": beside}
            rules.append((namespace, {"name": name, "workloads": names, "keep_together": together}))
        return rules

    def _vm_host(self, rule: DrsRule) -> list[tuple[str, RuleMap]]:
        by_namespace = self._by_namespace(self._members[rule.where])
        rules: list[tuple[str, RuleMap]] = []
        for rule_type, group in (
            ("run_on", rule.affine_host_group),
            ("avoid", rule.anti_affine_host_group),
        ):
            if not group or self._why_no_hosts(group):
                continue
            label = self._hosts.label(group, str(rule))
            if label is None:
                continue
            name = self._rule_names.name(rule.name)
            for namespace, names in by_namespace.items():
                made: RuleMap = {"name": name, "workloads": names, rule_type: label.as_rule()}
                if not rule.mandatory:
                    made["preferred"] = True
                rules.append((namespace, made))
        return rules

    def _import_host_groups(self) -> t.Iterator[ImportedPart]:
        for group in self._cluster.host_groups:
            where = f"host group {group!r}"
            label = self._hosts.used.get(group)
            if label is None:
                reason = "No rule that is carried over names it."
                yield ImportedPart("host_group", group, where, reason=reason)
                continue
            if label.nodes:
                nodes = self._result.node_labels.setdefault(label.key, {})
                nodes[label.values[0]] = list(label.nodes)
            became = f"node label {label.key}={','.join(label.values)}"
            if label.nodes:
                became += f" on {listed(label.nodes, 10)}"
            lowered = ImportDecision(
                "node_names",
                f"Names of nodes are in lower case, so {listed(label.lowered)} became such a node.",
                "Name other nodes in host_names.",
            )
            decisions = (lowered,) if label.lowered else ()
            yield ImportedPart("host_group", group, where, became, decisions)

    def _import_override(self, override: DrsOverride) -> ImportedPart:
        name = str(override.vm)
        if override.enabled and override.behavior != "manual":
            return ImportedPart(
                "override",
                name,
                override.where,
                reason=f"Automation {override.behavior or 'as in the cluster'} has no counterpart: VMs move only when"
                " a playbook moves them.",
            )
        found = self._vms.find(override.vm)
        if found.fault and override.vm.key not in self._in_fault:
            self._in_fault.add(override.vm.key)
            self._faults.append(InputError(f"{override.where}, override", found.fault))
        if found.target is None or found.is_expected:
            return ImportedPart(
                "override",
                name,
                override.where,
                reason=f"The VM is not on the cluster: {found.missing or found.fault or found.target}.",
                advice="Import again when it is, or name it in vm_names.",
            )
        self._result.vm_labels[found.target] = {DO_NOT_MOVE: _STAYS}
        state = override.behavior if override.enabled else "disabled"
        return ImportedPart(
            "override",
            name,
            override.where,
            f"{found.target}: label {DO_NOT_MOVE}={_STAYS} (automation {state})",
        )


def _vms_of(cluster: DrsCluster) -> list[SourceVm]:
    return [
        *(vm for rule in cluster.rules for vm in rule.vms),
        *(vm for vms in cluster.vm_groups.values() for vm in vms),
        *(override.vm for override in cluster.overrides),
    ]


def _left_out(rule: DrsRule, why: Obstacle) -> ImportedPart:
    return ImportedPart("rule", rule.name, rule.where, reason=why.text, advice=why.advice)


def _type(rule: RuleMap) -> str:
    """The rule type, as the module rules names it."""
    kind = next(key for key in rule if key not in _NO_TYPES)
    words = [
        *(["preferred"] if rule.get("preferred") else []),
        *([] if rule.get("enabled", True) else ["rests"]),
    ]
    return f"{kind} ({'; '.join(words)})" if words else kind


_NO_TYPES = ("name", "workloads", "preferred", "enabled")
