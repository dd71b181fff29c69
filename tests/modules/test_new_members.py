# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A policy for new members does to a created object exactly what a task of rules does to one that exists.

Random pairs of an object and a rule set: each object is created with the policy of its rule set and without one, and
the rules are merged into the latter. Creations are dry runs, which pass the same admission.
"""

from __future__ import annotations

import collections
import copy
import itertools
import json
import os
import time
import typing as t
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.kinds.registry import (
    KINDS,
    RULE_KINDS,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InputError
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    workload_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Namespace, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.placement_manifests import (
    REQUIRED,
)
from ansible_collections.virt.placement.plugins.module_utils.model.rule import (
    Rule,
    RuleId,
    WorkloadSelector,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.new_members import plan
from ansible_collections.virt.placement.plugins.module_utils.new_members.members import (
    NewMember,
    NewMembers,
    new_members,
)
from ansible_collections.virt.placement.plugins.module_utils.new_members.policy import (
    mutating_policy,
    warning_policy,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.checks import (
    EMPTY_NODE_TERM,
    MULTIPLE_REQUIRED_AFFINITY,
    NEVER_ALLOWED,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.compile import compile_rule
from ansible_collections.virt.placement.plugins.module_utils.rules.draft import RequestedRules
from ansible_collections.virt.placement.plugins.module_utils.rules.members import (
    GroupSelectorBuilder,
    resolve,
    targets_of,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.merge import Merged, merge
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import (
    OwnedRule,
    read_ownership,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership_index import (
    OwnershipIndex,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.plan import requested_rules
from ansible_collections.virt.placement.plugins.module_utils.rules.record import RuleSetChange
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_request import RulesRequest
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import (
    LISTS,
    NODE_TERMS,
    TemplateTerm,
    TermLocation,
    pair,
)
from ansible_collections.virt.placement.plugins.module_utils.view.view import view_of
from sandbox import ApiFailure, Sandbox, objects
from sandbox.admin_api import AdminApi
from tests.parsed import parsed
from tests.unit.rules import strategies
from tests.unit.rules.builders import applied, snapshot, workload

Object = dict[str, t.Any]
CLUSTER = Path(__file__).resolve().parents[1] / "bench" / "live.yml"
PLAIN = "no-policy"
NAMES = ("a", "b")
RULE_SETS = int(os.environ.get("PLACEMENT_EXAMPLES", "40"))
OBJECTS = 5
"""Objects for each rule set."""
SEED = int(os.environ.get("PLACEMENT_SEED", "1"))
CHANGE = RuleSetChange("shop/default", 1, "")
PATIENCE = 60
_NUMBERS = itertools.count()
OUTCOMES = ("same", "no_rule", "refused", "left_alone", "invalid")
"""The object is as rules would write it; no rule is about it; rules would refuse it; the policy writes nothing where
rules would, as in `left_alone`; the API server refuses it without a policy, too."""

MAKERS: t.Mapping[str, t.Callable[..., Object]] = {
    "VirtualMachine": objects.virtual_machine,
    "VirtualMachineInstanceReplicaSet": objects.replica_set,
    "VirtualMachinePool": objects.pool,
    "Deployment": objects.deployment,
    "StatefulSet": objects.stateful_set,
}

names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True).map(tuple)
labels = st.dictionaries(
    st.sampled_from(("app", "tier")), st.sampled_from(strategies.VALUES), min_size=1, max_size=2
)
allowed = st.frozensets(st.sampled_from((EMPTY_NODE_TERM, MULTIPLE_REQUIRED_AFFINITY)))


class Part(t.NamedTuple):
    """A part of a random rule: its members of a kind, by names or by labels."""

    kind: str
    names: tuple[str, ...]
    labels: t.Mapping[str, str] | None


kinds = st.sampled_from(("VirtualMachine", *RULE_KINDS))
parts = st.one_of(
    st.builds(Part, kinds, names, st.none()), st.builds(Part, kinds, st.just(()), labels)
)


class RandomSet(t.NamedTuple):
    """Rules with random terms; kind, name (empty for a generated one) and template of some objects."""

    rules: t.Mapping[RuleId, tuple[t.Any, ...]]
    parts: t.Mapping[RuleId, list[Part]]
    allowed: t.Mapping[RuleId, frozenset[str]]
    objects: list[tuple[str, str, Object]]


@st.composite
def random_sets(draw: t.Any, kind: str) -> RandomSet:
    """Most rules are about the same objects of the kind, so that their terms meet."""
    rules = draw(
        st.dictionaries(strategies.rule_ids, strategies.term_lists, min_size=2, max_size=3)
    )
    common = st.sampled_from((Part(kind, NAMES, None), Part(kind, (), {"app": "a"})))
    all_parts = {rule: [draw(common), *draw(st.lists(parts, max_size=2))] for rule in rules}
    of_other_parts = [part for listed in all_parts.values() for part in listed[1:]]
    about = [Part(kind, NAMES, {"app": "a"})] * 4 + of_other_parts
    return RandomSet(
        rules,
        all_parts,
        {rule: draw(allowed) for rule in rules},
        [draw(objects_of(about)) for _number in range(OBJECTS)],
    )


@st.composite
def objects_of(draw: t.Any, chosen_by: list[Part]) -> tuple[str, str, Object]:
    """An object that one of the parts may choose."""
    part, template = draw(st.sampled_from(chosen_by)), copy.deepcopy(draw(strategies.templates))
    if part.labels is not None and draw(st.integers(0, 3)):
        present = template.get("metadata", {}).get("labels", {})
        template["metadata"] = {"labels": {**present, **part.labels}}
    name = draw(st.sampled_from(("c", "", "a", *part.names, *part.names)))
    return part.kind, name, template


def examples(count: int, number: int) -> list[RandomSet]:
    """That many random rule sets with objects, as many for each kind; the same ones for the same number."""
    collected: list[RandomSet] = []
    for kind in RULE_KINDS:

        @seed(number)
        @settings(
            max_examples=max(1, count // len(RULE_KINDS)),
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(random_sets(kind))
        def collect(example: RandomSet) -> None:
            collected.append(example)

        collect()
    return collected


def built(kind: str, name: str, template: Object) -> Object:
    """An object of the kind with the placement of a random template."""
    manifest: Object = copy.deepcopy(MAKERS[kind]("x", PLAIN))
    place = manifest
    for part in KINDS[kind].template:
        place = place[part]
    place["spec"] |= copy.deepcopy(template["spec"])
    metadata = copy.deepcopy(template.get("metadata"))
    if kind == "VirtualMachine":
        if metadata is None:
            del place["metadata"]
        else:
            place["metadata"] = metadata
    else:
        place["metadata"]["labels"] |= (metadata or {}).get("labels") or {}
    manifest["metadata"] = {"name": name} if name else {"generateName": "x-"}
    return manifest


def members_of(example: RandomSet, namespace: str, of_set: str = "") -> list[NewMember]:
    """All of them in one rule set; or those of one of the two sets `first` and `second`."""
    rules = [
        rule for rule in example.rules if not of_set or (rule.name == "one") == (of_set == "first")
    ]
    return [
        NewMember(
            RuleId(namespace, of_set or "default", rule.name),
            KINDS[part.kind],
            terms,
            stored(part),
            part.names,
            part.labels,
            example.allowed[rule],
        )
        for rule in rules
        for terms in [example.rules[rule]]
        for part in example.parts[rule]
    ]


def stored(part: Part) -> OwnedRule:
    chosen = tuple(sorted((part.labels or {}).items()))
    return OwnedRule(declared='{"terms":{}}', chosen=chosen)


def requested(workload: Workload, name: str, members: t.Sequence[NewMember]) -> RequestedRules:
    """What a task of rules wants of the object."""
    listed: dict[RuleId, t.Any] = {}
    stored_rules: dict[RuleId, OwnedRule] = {}
    for member in members:
        chosen = member.kind is workload.kind and (
            name in member.names
            if member.labels is None
            else member.labels.items() <= dict(workload.template_labels).items()
        )
        if chosen and member.rule not in listed:
            listed[member.rule] = member.terms
            stored_rules[member.rule] = member.stored
    return RequestedRules(listed, CHANGE, stored=stored_rules)


def is_refused(merged: Merged, members: t.Sequence[NewMember]) -> bool:
    allows = {member.rule.name: member.allowed for member in members}
    return any(
        finding.name in NEVER_ALLOWED or finding.name not in allows[finding.rule]
        for finding in merged.findings
    )


def left_alone(
    template: t.Mapping[str, t.Any], wanted: RequestedRules, after: t.Mapping[str, t.Any]
) -> bool:
    """Where the policy writes nothing, and rules would: required pod affinity that means the same but is written in
    another way, and node terms of which one lacks a list and another has an empty one."""
    affinity = LISTS[TermLocation.AFFINITY].read(after, None) or []
    several = {json.dumps(term, sort_keys=True) for term in affinity}
    terms = [x for x in NODE_TERMS.read(template, None) or () if any(x.values())]
    locations = {x.location for terms in wanted.listed.values() for x in terms or ()}
    mixed = any(
        any(x.get(key) == [] for x in terms) and any(x.get(key) is None for x in terms)
        for location, key in (
            (TermLocation.NODE_EXPRESSION, "matchExpressions"),
            (TermLocation.NODE_FIELD, "matchFields"),
        )
        if location in locations
    )
    return mixed or (len(several) > 1 and TermLocation.AFFINITY in locations)


class Ground(t.NamedTuple):
    """An API server without controllers."""

    api: AdminApi

    def namespace(self, name: str) -> None:
        try:
            self.api.create(self.api.path("Namespace"), {"metadata": {"name": name}})
        except ApiFailure as failure:
            if failure.status != 409:
                raise

    def write(self, manifest: Object) -> None:
        plural = {
            "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
            "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
            "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
            "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
        }[manifest["kind"]]
        path = f"/apis/{manifest['apiVersion']}/{plural}"
        self.api.delete(f"{path}/{manifest['metadata']['name']}")
        self.api.create(path, manifest)

    def add_policy(self, namespace: str, members: t.Sequence[NewMember]) -> None:
        """The policy; an error in it fails the creation, so that no difference is hidden."""
        policy, binding = mutating_policy(namespace, members[0].rule.rule_set, members)
        policy["spec"]["failurePolicy"] = "Fail"
        self.write(policy)
        self.write(binding)

    def created(self, namespace: str, manifest: Object) -> Object:
        """The object as it would be."""
        path = self.api.path(manifest["kind"], namespace)
        answer = self.api.request("POST", path, manifest, query={"dryRun": "All"})
        return t.cast(Object, answer.json())

    def wait_for_policies(self) -> None:
        """All policies that were written are in force, for each kind.

        The API server reads the list of bindings and then one policy after the other, without waiting for either
        (apiserver, pkg/admission/plugin/policy/generic/policy_source.go, calculatePolicyData): the last policy may be
        in force before another one. It has read them all when one is in force that was written later.
        """
        for _pass in range(2):
            self._wait_for_another()

    def _wait_for_another(self) -> None:
        """A policy that is written now is in force. Until the API server has the schema of a kind, it answers that the
        kind is unavailable (mutating/patch/typeconverter.go)."""
        name = f"last-{next(_NUMBERS)}"
        self.namespace(name)
        owned, rule = OwnedRule(declared="{}"), RuleId(name, "default", "last")
        self.add_policy(name, [NewMember(rule, KINDS[kind], (), owned, ("a",)) for kind in MAKERS])
        end = time.monotonic() + PATIENCE
        for make in MAKERS.values():
            while not self._is_in_force(name, make("a", name)):
                assert time.monotonic() < end
                time.sleep(0.1)

    def _is_in_force(self, namespace: str, manifest: Object) -> bool:
        try:
            metadata = self.created(namespace, manifest)["metadata"]
        except ApiFailure as failure:
            if failure.status != 503:
                raise
            return False
        return RULES in metadata.get("annotations", {})


@pytest.fixture(scope="module")
def ground() -> t.Iterator[Ground]:
    with Sandbox.start(CLUSTER) as sandbox:
        made = Ground(sandbox.api)
        made.namespace(PLAIN)
        yield made


class Compared(t.NamedTuple):
    """How often each outcome was, by kind; what differs."""

    outcomes: collections.Counter[tuple[str, str]]
    differences: list[str]

    def count(self, outcome: str, kind: str = "") -> int:
        return sum(
            x for (of, out), x in self.outcomes.items() if out == outcome and kind in ("", of)
        )


def compare(ground: Ground, count: int, number: int, sets: t.Sequence[str] = ("",)) -> Compared:
    tried = examples(count, number)
    prefix = "pair" if len(sets) == 1 else "sets"
    by_set = [
        [
            members
            for of_set in sets
            if (members := members_of(example, f"{prefix}-{index}", of_set))
        ]
        for index, example in enumerate(tried)
    ]
    for index, of_example in enumerate(by_set):
        ground.namespace(f"{prefix}-{index}")
        for members in of_example:
            ground.add_policy(f"{prefix}-{index}", members)
    ground.wait_for_policies()
    compared = Compared(collections.Counter(), [])
    for index, (example, of_example) in enumerate(zip(tried, by_set, strict=True)):
        for kind, name, template in example.objects:
            made = built(kind, name, template)
            outcomes = [
                of_pair(ground, f"{prefix}-{index}", made, name, order)
                for order in (of_example, of_example[::-1])[: len(of_example)]
            ]
            outcome = next((x for x in outcomes if x in OUTCOMES), outcomes[0])
            if outcome in OUTCOMES:
                compared.outcomes[kind, outcome] += 1
            else:
                compared.differences.append(f"{index} {kind} {name}: {outcome}")
    return compared


def of_pair(
    ground: Ground,
    namespace: str,
    manifest: Object,
    name: str,
    sets: t.Sequence[t.Sequence[NewMember]],
    wanted_by: t.Callable[[Workload, t.Sequence[NewMember]], RequestedRules] | None = None,
) -> str:
    """How creation with the policies compares with merges of the rule sets, one after the other. `wanted_by`: what a
    task of rules wants of the object, by default what the members of the policy say."""
    kind = manifest["kind"]
    try:
        before = ground.created(PLAIN, manifest)
    except ApiFailure as failure:
        return "invalid" if failure.status == 422 else str(failure)
    try:
        seen = ground.created(namespace, manifest)
    except ApiFailure as failure:
        return str(failure)
    before["metadata"] |= {"namespace": namespace}
    for made in (before, seen):
        made |= {"apiVersion": manifest["apiVersion"], "kind": kind}
    after, findings, written, alone = before, False, [], False
    for members in sets:
        workload = workload_from_manifest(kind, after)
        wanted = wanted_by(workload, members) if wanted_by else requested(workload, name, members)
        merged = merge(workload, wanted)
        if merged.write is None or is_refused(merged, members):
            findings |= bool(merged.findings)
            continue
        merged_object = stored_as(ground, applied(copy.deepcopy(after), merged.write))
        template = workload_from_manifest(kind, merged_object).template
        alone |= left_alone(workload.template, wanted, template)
        written.append(wanted)
        after = merged_object
    exact = len(sets) == 1
    if parts_of(seen, exact) != parts_of(after, exact):
        same = parts_of(seen) == parts_of(before)
        return "left_alone" if same and alone else differs(after, seen)
    if not written:
        return "refused" if findings else "no_rule"
    for wanted in written:
        again = merge(workload_from_manifest(kind, seen), wanted)
        if again.write is not None:
            return f"written again: {again.write}"
    back = seen
    for wanted in written:
        removed = merge(
            workload_from_manifest(kind, back), RequestedRules(dict.fromkeys(wanted.listed), CHANGE)
        )
        assert removed.write is not None
        back = stored_as(ground, applied(copy.deepcopy(back), removed.write))
    if parts_of(back)[0] != parts_of(before)[0]:
        return f"not restored: {differs(before, back)}"
    return "same"


def stored_as(ground: Ground, manifest: Object) -> Object:
    """The object as the API server would have it after a write: of kinds of its own it drops empty lists."""
    metadata = {"namespace": PLAIN, "uid": None, "resourceVersion": None, "managedFields": None}
    wanted = {**manifest, "metadata": {**manifest["metadata"], **metadata}}
    made = ground.created(PLAIN, wanted)
    namespace = manifest["metadata"]["namespace"]
    made["metadata"] |= {"namespace": namespace, "uid": manifest["metadata"]["uid"]}
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], **made}


def parts_of(manifest: Object, exact: bool = True) -> tuple[Object, str]:
    """The template and our annotation, without the uid. With several rule sets the order in the annotation differs."""
    workload = workload_from_manifest(manifest["kind"], manifest)
    text = manifest["metadata"].get("annotations", {}).get(RULES, "")
    begin, mark, rest = text.partition('"uid":"')
    text = f"{begin}{mark}{rest[rest.find(chr(34)) :]}" if mark else text
    if text and not exact:
        content = json.loads(text)
        text = json.dumps({**content, "created": sorted(content["created"])}, sort_keys=True)
    return dict(workload.template), text


def differs(expected: Object, seen: Object) -> str:
    lines = []
    for one, other in zip(parts_of(expected), parts_of(seen), strict=True):
        if one != other:
            lines += [f"expected {json.dumps(one)}", f"seen     {json.dumps(other)}"]
    return "\n".join(lines)


def test_policy_writes_what_rules_write(ground: Ground) -> None:
    compared = compare(ground, RULE_SETS, SEED)
    print(dict(compared.outcomes))
    assert not compared.differences, "\n\n".join(compared.differences[:5])
    assert compared.count("refused"), compared
    for kind in RULE_KINDS:
        assert compared.count("same", kind), compared


def test_policies_of_two_rule_sets_write_what_both_write(ground: Ground) -> None:
    compared = compare(ground, RULE_SETS, SEED + 1, ("first", "second"))
    assert not compared.differences, "\n\n".join(compared.differences[:5])
    assert compared.count("same"), compared


ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
TYPES: tuple[Object, ...] = (
    {"run_on": {ZONE: ["a", "b"]}},
    {"run_on": {ZONE: "a", "zone.example/class": "x"}, "preferred": True, "weight": 7},
    {"avoid": {"zone.example/class": "y"}},
    {"keep_apart": ZONE},
    {"keep_apart": HOST, "preferred": True},
    {"keep_apart": {"topology_key": ZONE, "from": ["other"]}},
    {"keep_apart": {"topology_key": HOST, "pods": {"labels": {"app": "db"}}}},
    {"keep_together": ZONE},
    {"keep_together": ZONE, "preferred": True},
    {"spread": ZONE},
    {"spread": {"topology_key": HOST, "max_skew": 2}, "preferred": True},
    {"terms": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}},
    {"label": {"team": "x"}},
    {"keep_apart": ZONE, "label": {"team": "y"}},
    {"run_on": {ZONE: "c"}, "enabled": False},
)
"""Each rule type in some of its forms."""


def declared_rules(random: Random) -> list[Object]:
    """Some rules about the workloads `a`, `b` and those with a label."""
    rules = []
    for number in range(random.randint(1, 3)):
        kind = {"kind": random.choice(RULE_KINDS)}
        workloads: list[t.Any] = random.choice(
            (
                ["a"],
                ["a", "b"],
                [{**kind, "names": ["a", "b"]}],
                [{**kind, "labels": {"app": "x"}}],
                [{**kind, "labels": {"app": "x"}}, {**kind, "names": ["a"]}],
                [{**kind, "names": ["a"]}, "b"],
            )
        )
        rules.append({"name": f"r{number}", "workloads": workloads, **random.choice(TYPES)})
    return rules


class Declared(t.NamedTuple):
    """Declared rules of a namespace, and the workloads that exist before the policy is made."""

    namespace: str
    rules: tuple[Rule, ...]
    existing: tuple[Workload, ...]
    members: NewMembers

    @classmethod
    def random(cls, random: Random, namespace: str) -> Declared:
        """Each named workload exists already, or does not."""
        rules = parsed(declared_rules(random), namespace=namespace)
        existing = tuple(x for x in _named(rules, namespace) if random.randint(0, 1))
        members = new_members(rules, snapshot(*existing, namespaces=(Namespace(namespace),)))
        return cls(namespace, rules, existing, members)

    def wanted(self, workload: Workload, _members: t.Sequence[NewMember]) -> RequestedRules:
        """What a task of rules wants of the workload once all named ones exist."""
        rules = tuple(x for x in self.rules if x.id not in self.members.not_covered)
        request = RulesRequest(self.namespace, "default", rules, at="2026-11-30T12:00:00Z")
        others = [x for x in _named(self.rules, self.namespace) if x.ref != workload.ref]
        view = view_of(snapshot(*others, workload, namespaces=(Namespace(self.namespace),)))
        ownerships, faults = OwnershipIndex.of(view), list[InputError]()
        selectors = GroupSelectorBuilder(view, ownerships.ownership)
        compiled = [compile_rule(resolve(rule, view, faults), selectors) for rule in rules]
        wanted = requested_rules(request, compiled, view, ownerships, faults, [])
        assert not faults, faults
        none = RequestedRules({}, CHANGE)
        return replace(wanted.get(workload.ref, none), pods=None)


def _named(rules: t.Iterable[Rule], namespace: str) -> list[Workload]:
    """All workloads that the rules name."""
    refs = {
        Ref(selector.kind, namespace, name)
        for rule in rules
        for selector in (*rule.workloads, *(x for _where, x in targets_of(rule)))
        if isinstance(selector, WorkloadSelector)
        for name in selector.names
    }
    return [workload(MAKERS[ref.kind](ref.name, namespace)) for ref in sorted(refs)]


def test_policy_of_declared_rules_writes_what_a_task_writes(ground: Ground) -> None:
    random = Random(SEED)
    tried = [Declared.random(random, f"declared-{number}") for number in range(RULE_SETS)]
    tried = [example for example in tried if example.members.members]
    for example in tried:
        ground.namespace(example.namespace)
        ground.add_policy(example.namespace, example.members.members)
    ground.wait_for_policies()
    outcomes: collections.Counter[tuple[str, str]] = collections.Counter()
    differences = []
    for example in tried:
        for _number in range(OBJECTS):
            member = random.choice(example.members.members)
            name = random.choice((*member.names, "c", "") if member.labels is None else ("c", ""))
            template: Object = {"spec": {}, "metadata": {"labels": {**(member.labels or {})}}}
            manifest = built(member.kind.name, name, template)
            outcome = of_pair(
                ground, example.namespace, manifest, name, [example.members.members], example.wanted
            )
            outcomes[member.kind.name, outcome if outcome in OUTCOMES else "differs"] += 1
            if outcome not in OUTCOMES:
                differences.append(f"{example.rules}: {outcome}")
    print(dict(outcomes))
    assert not differences, "\n\n".join(differences[:5])
    assert outcomes["VirtualMachine", "same"], outcomes


HOSTILE = '" || true || "\\ \' \n\t\r\x01\x7f` %s {{ }} \u2028 é \U0001f600'
VM = KINDS["VirtualMachine"]


def policy_of(ground: Ground, namespace: str, *rules: Object) -> tuple[NewMember, ...]:
    """The policy of these rules, in force."""
    ground.namespace(namespace)
    of_namespace = (Namespace(namespace),)
    members = new_members(parsed(rules, namespace=namespace), snapshot(namespaces=of_namespace))
    ground.add_policy(namespace, members.members)
    ground.wait_for_policies()
    return members.members


PIN: Object = {"name": "pin", "run_on": {ZONE: "a"}, "workloads": ["a", {"labels": {"app": "x"}}]}


@pytest.fixture(scope="module")
def pinned(ground: Ground) -> str:
    """A namespace with the policy of the rule PIN in force."""
    policy_of(ground, "pinned", PIN)
    return "pinned"


def zones(manifest: Object) -> list[t.Any]:
    """The values that node terms have for the zone."""
    template = workload_from_manifest(manifest["kind"], manifest).template
    terms = NODE_TERMS.read(template, None) or []
    return [expression["values"] for term in terms for expression in term["matchExpressions"]]


def test_texts_of_tenants_are_written_as_they_are(ground: Ground) -> None:
    """No API server has such labels of pods; VMs have templates with any."""
    namespace, rule = "hostile", RuleId("hostile", "default", "x")
    ground.namespace(namespace)
    terms = (
        pair(TermLocation.LABEL, "mine", HOSTILE),
        TemplateTerm(TermLocation.TOLERATION, {"key": HOSTILE, "operator": "Exists"}),
    )
    owned = OwnedRule(declared=json.dumps({"terms": {"x": HOSTILE}}))
    by_name = NewMember(rule, VM, terms, owned, (HOSTILE, "a"))
    by_labels = NewMember(rule, VM, terms, owned, labels={HOSTILE: HOSTILE})
    ground.add_policy(namespace, [by_name, by_labels])
    ground.wait_for_policies()
    made = ground.created(namespace, objects.virtual_machine("a", namespace))
    assert made["spec"]["template"]["metadata"]["labels"] == {"mine": HOSTILE}
    assert made["spec"]["template"]["spec"]["tolerations"][0]["key"] == HOSTILE
    annotation = json.loads(made["metadata"]["annotations"][RULES])
    assert annotation["rules"][str(rule)]["declared"] == {"terms": {"x": HOSTILE}}
    other = objects.virtual_machine("b", namespace, labels={"app": "a"})
    assert "annotations" not in ground.created(namespace, other)["metadata"]


def test_rule_that_was_removed_does_not_come_back(ground: Ground, pinned: str) -> None:
    """Neither by a PUT, nor by server-side apply of another client; a client that applies what it declares keeps the
    terms of the policy."""
    api, vm = ground.api, objects.virtual_machine("updated", pinned, labels={"app": "x"})
    path = f"{api.path('VirtualMachine', pinned)}/updated"
    apply = {"fieldManager": "gitops", "force": "true"}
    for _again in range(2):
        api.request("PATCH", path, vm, query=apply, content_type="application/apply-patch+yaml")
        made = api.get(path)
        assert zones(made) == [["a"]]
        assert made["metadata"]["generation"] == 1
    workload_of_vm = workload_from_manifest("VirtualMachine", made)
    rule = RuleId(pinned, "default", "pin")
    removed = merge(workload_of_vm, RequestedRules({rule: None}, CHANGE)).write
    assert removed is not None
    api.put(path, applied(made, removed))
    api.request("PATCH", path, vm, query=apply, content_type="application/apply-patch+yaml")
    assert zones(api.get(path)) == []
    assert RULES not in api.get(path)["metadata"]["annotations"]


def test_copy_has_no_rules_of_its_own(ground: Ground, pinned: str) -> None:
    """What was created under another name has the annotation of that one, and what was restored its own."""
    made = ground.created(pinned, objects.virtual_machine("a", pinned))
    for name, own in (("a", True), ("b", False)):
        copied = {
            **made,
            "metadata": {"name": name, "annotations": made["metadata"]["annotations"]},
        }
        copied["spec"]["template"]["metadata"]["labels"] = {"app": "x"}
        seen = ground.created(pinned, copied)
        assert zones(seen) == [["a"]]
        ownership = read_ownership(workload_from_manifest("VirtualMachine", seen))
        assert (ownership.uid == seen["metadata"]["uid"]) is own


def test_other_namespaces_and_objects_stay_as_they_are(ground: Ground, pinned: str) -> None:
    for where, name, labels_of_vm in (
        (pinned, "b", {"app": "y"}),
        (PLAIN, "a", {"app": "x"}),
    ):
        vm = objects.virtual_machine(name, where, labels=labels_of_vm)
        seen = ground.created(where, vm)
        assert "annotations" not in seen["metadata"]
        assert zones(seen) == []


def test_object_that_the_policy_cannot_read_is_created(ground: Ground) -> None:
    """As shipped, a policy that fails is ignored: a tenant's odd object is no reason to refuse it."""
    namespace = "odd"
    ground.namespace(namespace)
    members = new_members(
        parsed([PIN], namespace=namespace), snapshot(namespaces=(Namespace(namespace),))
    )
    for manifest in mutating_policy(namespace, "default", members.members):
        ground.write(manifest)
    ground.wait_for_policies()
    for metadata in (None, {"labels": None}, {"labels": ["app"]}, {"labels": {"app": 1}}, "text"):
        vm = objects.virtual_machine("b", namespace)
        vm["spec"]["template"]["metadata"] = metadata
        try:
            ground.created(PLAIN, {**vm, "metadata": {"name": "b"}})
        except ApiFailure:
            continue
        assert zones(ground.created(namespace, vm)) == []


@pytest.mark.tour
def test_policy_is_planned_where_the_api_server_serves_the_kind(ground: Ground) -> None:
    """Since Kubernetes 1.36; before, a warning is."""
    version = ground.api.get("/version")
    release = (int(version["major"]), int(version["minor"].rstrip("+")))
    served = {
        x["kind"] for x in ground.api.get("/apis/admissionregistration.k8s.io/v1")["resources"]
    }
    empty = snapshot(namespaces=(Namespace("shop"),))
    empty = replace(empty, platform=replace(empty.platform, kubernetes=release))
    request = RulesRequest("shop", "default", parsed([PIN]))
    planned = plan.plan_policies(replace(request, new_members="policy"), empty)
    assert bool(planned.manifests) is ("MutatingAdmissionPolicy" in served)
    if planned.why_none is not None:
        assert planned.why_none.advice == "Set new_members to warn."
    warned = plan.plan_policies(replace(request, new_members="warn"), empty)
    assert bool(warned.manifests) is ("ValidatingAdmissionPolicy" in served)


@pytest.mark.tour
def test_warning_names_namespace_rule_set_and_what_to_run(ground: Ground) -> None:
    namespace = "warned"
    ground.namespace(namespace)
    members = new_members(
        parsed([PIN], namespace=namespace), snapshot(namespaces=(Namespace(namespace),))
    )
    for manifest in warning_policy(namespace, "default", members.members):
        ground.write(manifest)
    path, end = ground.api.path("VirtualMachine", namespace), time.monotonic() + PATIENCE
    warning = ""
    while not warning and time.monotonic() < end:
        vm = objects.virtual_machine("a", namespace)
        answer = ground.api.request("POST", path, vm, query={"dryRun": "All"})
        warning = answer.headers.get("Warning", "")
    assert "rules of the set default in warned are about this object" in warning
    assert warning.endswith(
        'run playbook virt.placement.apply, or module virt.placement.rules, with all rules of the set"'
    )
    vm = objects.virtual_machine("b", namespace)
    answer = ground.api.request("POST", path, vm, query={"dryRun": "All"})
    assert "Warning" not in answer.headers


W1, W2 = ({"key": "metadata.name", "operator": "In", "values": [name]} for name in ("w1", "w2"))


@pytest.mark.parametrize(
    ("terms", "is_written"),
    [
        ([{"matchFields": [W1]}, {"matchFields": [W2]}], True),
        ([{"matchFields": [W1], "matchExpressions": []}], True),
        ([{"matchFields": [W1], "matchExpressions": []}, {"matchFields": [W2]}], False),
        ([{"matchFields": []}, {}], False),
        ([{"matchFields": [W1]}, {}], True),
    ],
)
def test_node_terms_of_others(
    ground: Ground, pinned: str, terms: list[Object], is_written: bool
) -> None:
    """Nothing is written where all of them are empty, and where the annotation would need a digest."""
    vm = objects.virtual_machine("a", pinned)
    template: Object = vm["spec"]["template"]
    required: Object = {"nodeSelectorTerms": terms}
    template["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: required}}
    made = ground.created(pinned, vm)
    after = NODE_TERMS.read(made["spec"]["template"])
    assert (RULES in made["metadata"].get("annotations", {})) is is_written
    if not is_written:
        assert after == terms
        return
    for before, term in zip(terms, after, strict=True):
        if before:
            expressions = [{"key": ZONE, "operator": "In", "values": ["a"]}]
            assert term == {**before, "matchExpressions": expressions}
        else:
            assert term == {}
