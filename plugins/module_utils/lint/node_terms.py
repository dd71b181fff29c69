# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which terms are empty, contradict each other, or are satisfied by no node?"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import replace

from ..compliance import terms as wording
from ..compliance.terms import Term, TermKind, requirement
from ..kubevirt.instances import claim_name
from ..kubevirt.ordinals import claims_of_replica, previous_ordinals, wanted_ordinals
from ..model.findings import Finding, rules_text
from ..model.objects import NodeTerm, Placement, PodTerm, Requirement
from ..model.rendering import listed
from ..model.rule import RuleId
from ..model.topology import HOSTNAME
from ..scheduler.labels import is_readable, parse_integer
from ..scheduler.node_affinity import nodes_of_placement, nodes_of_term, nodes_of_terms
from .affinity import remove_one, selected_pods
from .lint_input import LintedWorkload, LintInput, of_each_rule, without_requirements
from .next_vmi import ARCH, pairs_of

ARCHITECTURE_ADVICE = (
    "Set the field architecture of its template to that of the nodes, or change the node terms."
)


def findings(lint_input: LintInput) -> t.Iterator[Finding]:
    for subject in lint_input.subjects:
        yield from _empty_terms(subject)
        yield from _required(lint_input, subject)
        yield from _volumes(lint_input, subject)
        for term in subject.terms:
            if term.kind is TermKind.PREFERRED_NODE_AFFINITY:
                yield from _preferred(lint_input, subject, term)
        yield from _near_and_apart(subject)


def _empty_terms(subject: LintedWorkload) -> t.Iterator[Finding]:
    placement = subject.declared.placement
    required = placement.node_terms
    if required is not None and all(_is_empty(term) for term in required):
        yield subject.finding(
            None,
            "empty_node_term",
            "error",
            "Its required node affinity is empty, which matches no node, so none of its pods"
            " can run anywhere.",
            "Remove the empty required node affinity; forms of consoles leave it behind.",
        )
    elif required is not None and any(_is_empty(term) for term in required):
        yield subject.finding(
            None,
            "empty_node_term",
            "warning",
            "One of its required node terms is empty; it matches no node, not every node.",
            "Remove the empty term, or add the expressions that are meant.",
        )
    for _weight, preference in placement.preferred_node_terms:
        if _is_empty(preference):
            yield subject.finding(
                None,
                "empty_node_term",
                "warning",
                "A preferred node term is empty, and the scheduler ignores it.",
                "Remove the empty term, or add the expressions that are meant.",
            )


def _required(lint_input: LintInput, subject: LintedWorkload) -> t.Iterator[Finding]:
    placement = lint_input.scheduled(subject)
    pairs = pairs_of(placement)
    terms = (NodeTerm(),) if placement.node_terms is None else placement.node_terms
    terms = tuple(term for term in terms if placement.node_terms is None or not _is_empty(term))
    clashes = [_contradiction((*pairs, *term.expressions)) for term in terms]
    declared_pairs = pairs_of(subject.declared.placement)
    if not terms or not (pairs or any(term.expressions for term in terms) or placement.node_terms):
        return
    if all(clashes):
        finding = _excluded(subject, None, "its node terms ask for", clashes[0], pairs)
        if any(part.key == ARCH and part not in declared_pairs for part in clashes[0]):
            finding = replace(finding, advice=ARCHITECTURE_ADVICE)
        yield from of_each_rule(finding, map(subject.owner_of_requirement, clashes[0]))
    elif lint_input.nodes is not None:
        # without requirements on keys that no node has: these are another finding, no_node_has_key
        known = without_requirements(
            subject.declared.placement, lambda x: not _asked(lint_input, [x])
        )
        checkable = lint_input.scheduled(subject, known)
        asks = checkable.node_selector or checkable.node_terms
        if asks and not nodes_of_placement(checkable, lint_input.table):
            selector_texts = [
                wording.requirement_text(part)
                for part in pairs_of(checkable)
                if part in declared_pairs
                or nodes_of_term(NodeTerm((part,)), lint_input.table) != lint_input.table.all
            ]
            terms_text = " or ".join(map(wording.node_term, known.node_terms or ()))
            requirements = " and ".join(filter(None, (*selector_texts, terms_text)))
            owners = _without_nodes(lint_input, subject)
            why = f"no node satisfies {requirements}{rules_text(owners)}"
            yield from of_each_rule(_never(subject, None, why), owners)


def _without_nodes(lint_input: LintInput, subject: LintedWorkload) -> list[str]:
    """The rules that leave a workload no node: those that do so alone, else all of them together."""
    rules = [
        rule.nodes for rule in subject.declared.rules if rule.nodes and rule.nodes.requires_nodes
    ]
    alone = [
        rule
        for rule in rules
        if not nodes_of_placement(
            Placement(node_selector=rule.pairs, node_terms=rule.any_of or None), lint_input.table
        )
        & nodes_of_term(rule.term, lint_input.table)
    ]
    return [RuleId.parse(rule.rule).in_namespace for rule in alone or rules]


def _volumes(lint_input: LintInput, subject: LintedWorkload) -> t.Iterator[Finding]:
    """Node terms against the nodes that reach the bound volumes: each has nodes, both have none."""
    if not lint_input.claim_terms or subject.spec is None:
        return
    for name in filter(None, map(claim_name, subject.spec.get("volumes") or ())):
        terms = lint_input.claim_terms.get((subject.ref.namespace, name))
        if not terms or not _leaves_out(lint_input, subject, terms):
            continue
        where = _nodes_of_volume(terms)
        finding = _never(
            subject,
            None,
            f"the volume of its claim {name} is bound to nodes with {where}, and its node terms"
            " leave these out",
            "Allow these nodes, or move the volume first.",
        )
        yield _of_rule(lint_input, subject, finding, terms)
    yield from _volumes_of_replicas(lint_input, subject)


def _volumes_of_replicas(lint_input: LintInput, subject: LintedWorkload) -> t.Iterator[Finding]:
    """The same for the claims that each replica of a StatefulSet has for itself, of whatever template they were
    made."""
    if subject.workload is None or not subject.workload.kind.ordinals:
        return
    left_out: dict[tuple[NodeTerm, ...], dict[str, list[str]]] = defaultdict(dict)
    previous = previous_ordinals(subject.workload)
    for number in wanted_ordinals(subject.workload):
        if number in previous:  # made from another template
            continue
        for template in claims_of_replica(subject.workload, number):
            terms = lint_input.claim_terms.get((subject.ref.namespace, template.claim))
            if terms and _leaves_out(lint_input, subject, terms):
                pod = f"{subject.ref.name}-{number}"
                left_out[terms].setdefault(pod, []).append(template.claim)
    for terms, claims_by_pod in left_out.items():
        claims = [claim for claims in claims_by_pod.values() for claim in claims]
        several, their = len(claims) > 1, "their" if len(claims_by_pod) > 1 else "its"
        volumes = f"the volumes of {their} claims" if several else "the volume of its claim"
        where = _nodes_of_volume(terms)
        finding = subject.finding(
            None,
            "unsatisfiable",
            "error",
            f"{_joined(list(claims_by_pod))} can never run: {volumes} {_joined(claims)} {'are' if several else 'is'}"
            f" bound to nodes with {where}, and the node terms of the template leave these out.",
            f"Allow these nodes, or move the volume{'s' * several} first.",
        )
        yield _of_rule(lint_input, subject, finding, terms)


def _nodes_of_volume(terms: t.Sequence[NodeTerm]) -> str:
    """Which nodes reach a volume, for people: without what its labels ask of nodes that have no zone."""
    asked: list[tuple[Requirement, ...]] = []
    for term in terms:
        parts = tuple(dict.fromkeys(x for x in term.expressions if x.operator != "DoesNotExist"))
        if parts and not contradiction(term.expressions):
            asked.append(parts)
    shortest = [x for x in asked if not any(set(other) < set(x) for other in asked)]
    texts = (" and ".join(map(wording.requirement_text, parts)) for parts in shortest)
    return " or ".join(dict.fromkeys(texts)) or " or ".join(map(wording.node_term, terms))


def _joined(names: t.Sequence[str]) -> str:
    return " and ".join(names) if len(names) == 2 else listed(names)


def _leaves_out(
    lint_input: LintInput, subject: LintedWorkload, terms: t.Sequence[NodeTerm]
) -> bool:
    """Whether node terms and a volume's `terms` have nodes each and none in common. Without nodes: whether no label
    of a node can satisfy both."""
    placement = lint_input.scheduled(subject)
    if lint_input.nodes is not None:
        nodes = nodes_of_placement(placement, lint_input.table)
        reached = nodes_of_terms(terms, lint_input.table, with_fields=False)
        return bool(nodes and reached and not nodes & reached)
    pairs = tuple(Requirement(key, "In", (value,)) for key, value in placement.node_selector)
    asked = [(*pairs, *term.expressions) for term in placement.node_terms or (NodeTerm(),)]
    asked = [parts for parts in asked if not _contradiction(parts)]
    return bool(asked) and all(
        contradiction((*parts, *term.expressions)) for parts in asked for term in terms
    )


def _of_rule(
    lint_input: LintInput, subject: LintedWorkload, finding: Finding, terms: t.Sequence[NodeTerm]
) -> Finding:
    """The finding as one of the first rule that by itself leaves the nodes of a volume out."""
    if lint_input.nodes is None:
        return finding
    reached = nodes_of_terms(terms, lint_input.table, with_fields=False)
    against = (
        rule.rpartition("/")[2]
        for rule, parts in subject.node_rules()
        if not nodes_of_term(NodeTerm(parts), lint_input.table) & reached
    )
    return replace(finding, rule=next(against, finding.rule))


def _preferred(lint_input: LintInput, subject: LintedWorkload, term: Term) -> t.Iterator[Finding]:
    node_term: NodeTerm = term.source
    if _is_empty(node_term):
        return
    if clash := _contradiction(node_term.expressions):
        yield _excluded(subject, term, "a preferred node term asks for", clash)
    elif (
        lint_input.nodes is not None
        and len(_asked(lint_input, node_term.expressions)) == len(node_term.expressions)
        and not nodes_of_term(node_term, lint_input.table)
    ):
        yield _never(subject, term, f"no node satisfies {wording.node_term(node_term)}")


def _near_and_apart(subject: LintedWorkload) -> t.Iterator[Finding]:
    """A pod with affinity to and anti-affinity with the same pods."""
    apart: dict[t.Hashable, dict[str, Term]] = defaultdict(dict)
    for term in subject.terms:
        if term.kind is TermKind.ANTI_AFFINITY:
            by_key = apart[selected_pods(subject, term)]
            by_key.setdefault(term.source.topology_key, term)
    for term in subject.terms:
        if term.kind is TermKind.AFFINITY:
            pod_term: PodTerm = term.source
            away = apart.get(selected_pods(subject, term), {})
            clash = away.get(pod_term.topology_key)
            if pod_term.topology_key == HOSTNAME:
                clash = clash or next(iter(away.values()), None)
            if clash is not None and pod_term.selector is not None:
                owners = subject.owner(term), subject.owner(clash)
                pods = wording.pods_of(pod_term)
                why = f"it has affinity and anti-affinity to {pods}{rules_text(owners)}"
                yield from of_each_rule(_never(subject, term, why, remove_one(owners)), owners)


def _excluded(
    subject: LintedWorkload,
    term: Term | None,
    prefix: str,
    parts: t.Sequence[Requirement],
    pairs: t.Collection[Requirement] = (),
) -> Finding:
    """A contradiction in words, with the owner of each side if these differ."""
    if len(parts) == 1:
        unread = f"{wording.requirement_text(parts[0])}, which the scheduler cannot read"
        return _never(subject, term, f"{prefix} {unread}", "Correct the value.")
    owners: dict[Requirement, str] = {}
    for part in parts if term is None else ():
        if rule := subject.owner_of_requirement(part):
            owners[part] = f"rule {rule}"
        elif part not in pairs:
            owners[part] = "its own node affinity"
        elif part.key in ((subject.spec or {}).get("nodeSelector") or {}):
            owners[part] = "its nodeSelector"
        elif part.key == ARCH and part not in pairs_of(subject.declared.placement):
            owners[part] = "which KubeVirt adds for its guest"
        else:
            owners[part] = "the nodeSelector of its instance type or of KubeVirt's configuration"
    several_owners = len(set(owners.values())) > 1
    texts = [
        wording.requirement_text(x) + (f" ({owners[x]})" if several_owners else "") for x in parts
    ]
    advice = "Change one of them: whatever labels a node has, it cannot satisfy both."
    return _never(subject, term, f"{prefix} {' and '.join(texts)}", advice)


def _never(
    subject: LintedWorkload,
    term: Term | None,
    why: str,
    advice: str = "Correct the values, or label nodes so that some satisfy it.",
) -> Finding:
    preferred = term is not None and term.preferred
    harm = "The term never has an effect" if preferred else "None of its pods can ever run"
    return subject.finding(
        term,
        "unsatisfiable",
        "warning" if preferred else "error",
        f"{harm}: {why}.",
        advice,
    )


def _contradiction(parts: t.Sequence[Requirement]) -> tuple[Requirement, ...]:
    """Requirements on one key that no value satisfies, or one that the scheduler cannot read."""
    unreadable = next((part for part in parts if not is_readable(part, of_nodes=True)), None)
    return contradiction(parts) if unreadable is None else (unreadable,)


def contradiction(parts: t.Sequence[Requirement]) -> tuple[Requirement, ...]:
    """Requirements on one key that no value satisfies; empty if there are none."""
    for key in dict.fromkeys(part.key for part in parts):
        same = tuple(dict.fromkeys(part for part in parts if part.key == key))
        if len(set(map(requirement, same))) > 1 and _excludes(same):
            return same
    return ()


def _excludes(parts: t.Sequence[Requirement]) -> bool:
    operators = {part.operator for part in parts}
    if "DoesNotExist" in operators and operators & {"In", "Exists", "Gt", "Lt"}:
        return True
    allowed = [set(part.values) for part in parts if part.operator == "In"]
    above = [parse_integer(part.values[0]) for part in parts if part.operator == "Gt"]
    below = [parse_integer(part.values[0]) for part in parts if part.operator == "Lt"]
    low = max((number for number in above if number is not None), default=None)
    high = min((number for number in below if number is not None), default=None)
    if not allowed:
        return low is not None and high is not None and high - low < 2
    left = set.intersection(*allowed)
    left -= {value for part in parts if part.operator == "NotIn" for value in part.values}
    if low is not None or high is not None:
        numbers = {value: parse_integer(value) for value in left}
        left = {
            value
            for value, n in numbers.items()
            if n is not None and (low is None or n > low) and (high is None or n < high)
        }
    return not left


def _asked(lint_input: LintInput, parts: t.Iterable[Requirement]) -> list[Requirement]:
    """The requirements without those that need a key that no node has (finding no_node_has_key)."""
    carried = lint_input.carried_keys
    return [x for x in parts if x.operator in ("NotIn", "DoesNotExist") or x.key in carried]


def _is_empty(term: NodeTerm) -> bool:
    return not term.expressions and not term.fields
