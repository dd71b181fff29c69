# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the annotation of a workload hold: which rule owns which term?

`placement.virt/rules`, the ownership:

    {"version": 1,
     "uid": "<uid of the object>",
     "rules": {"<namespace>/<set>/<name>": {"terms": ["<location>:<meaning>.<form>[.<bare>]", ...],
                                            "declared": {"<rule type>": ..., "preferred": true, ...},
                                            "chosen": {"<key>": "<value>", ...},
                                            "enabled": false},
               ...},
     "created": ["/spec/affinity", ...]}

`rules` has each rule of the object. `terms` are the fingerprints of its terms; a rule without a term of its own has
an empty list. `declared` has its type and options, with full label keys; the rule of a workload that this one is only
kept apart from, or kept together with, sets a label here and has none. `chosen` has the labels by which the rule
names this object, and is left out where it names it by its name: other objects with these labels are members, too.
`enabled` is left out where the rule does not rest. `<bare>` is the meaning that a term of
pods has left once a console has written it again without the fields that it does not know. `created` are the maps
and lists that the rules added, as pointers into the template: they are removed with the last term in them.
In `/spec/.../nodeSelectorTerms/#/matchExpressions` the list was added to each term that had none; in `/#<digest>/` the
digest is that of the one foreign term to which it was added.

The annotation is a hint; the template decides. If `uid` is that of another object, this object is
a clone of it. An object that the policy of a rule set gave its rules at its creation (`new_members`) has `name:<name>`
there, since it had no uid yet, and `generateName:<generateName>` where the API server made the name, too: a copy that
has a name of the same form is taken for the object.
"""

from __future__ import annotations

import functools
import json
import re
import typing as t
from dataclasses import dataclass, field, replace

from ..model.findings import Finding
from ..model.input import shown
from ..model.json_pointer import JSON, Pointer
from ..model.json_text import DamagedAnnotation, content_fault, read_annotation
from ..model.kinds import RULES, UNDO
from ..model.objects import Ref
from ..model.rule import TYPE_NAMES, RuleId
from ..model.snapshot import Workload
from ..scheduler.labels import is_dns_label, is_label_key, is_label_value
from .term_slots import (
    IN_NODE_TERM,
    LISTS,
    MAPS,
    NODE_TERMS,
    SPEC,
    Effect,
    Fingerprint,
    TemplateTerm,
    TermLocation,
    canonical_json,
)

LabelsOfRule = tuple[tuple[str, str], ...]

VERSION = 1

MOST_RULES = 64
"""Of one workload. A report and the metrics have each rule of each workload, and a tenant can write the annotation."""

_IN_A_TERM = re.compile(
    rf"{NODE_TERMS}/#[0-9a-f]{{0,64}}/({'|'.join(IN_NODE_TERM.values())})", re.ASCII
)
_CONTAINERS = frozenset(
    str(Pointer(pointer.parts[:depth]))
    for pointer in (*LISTS.values(), *MAPS.values(), NODE_TERMS)
    for depth in range(1, len(pointer.parts) + 1)
) - {str(SPEC)}
"""What rules may add to a template, so that it goes with their last term."""


_TYPES = frozenset(TYPE_NAMES.values())
_OPTIONS = _TYPES | {"label", "preferred", "weight"}


def rule_id(text: str) -> RuleId:
    """The identity of a rule in an annotation, as strict as the options that make one. Raises ValueError."""
    rule = RuleId.parse(text)
    if not (is_dns_label(rule.namespace) and len(rule.namespace) <= 63):
        raise ValueError(f"{shown(rule.namespace)} is no name of a namespace")
    for name in (rule.rule_set, rule.name):
        if not name or not is_label_value(name):
            raise ValueError(f"{shown(name)} is no name of a rule or rule set")
    return rule


class UnreadableAnnotation(ValueError):
    """An annotation of ours that is damaged, or that a newer release has written."""


class NoRoomForRules(UnreadableAnnotation):
    """The annotations would have more rules than are read, or more bytes than the API server takes."""


@dataclass(frozen=True)
class OwnedRule:
    """What a workload has of a rule. `declared`: its type and options as JSON with sorted keys, empty where the rule is
    about other workloads and only sets a label here. `enabled` False: the rule rests, and has no terms. `chosen`: the
    labels by which the rule names the workload, sorted."""

    terms: tuple[Fingerprint, ...] = ()
    declared: str = ""
    enabled: bool = True
    chosen: LabelsOfRule = ()

    @property
    def type_name(self) -> str:
        """The option of the rule type, `label` for a label alone."""
        return next(iter(_TYPES & self.options().keys()), "label")

    def options(self) -> dict[str, JSON]:
        """Type and options, with full label keys."""
        return t.cast("dict[str, JSON]", json.loads(self.declared or "{}"))

    def content(self) -> dict[str, JSON]:
        """The rule in the annotation."""
        content: dict[str, JSON] = {"terms": sorted(map(str, self.terms))}
        if self.declared:
            content["declared"] = self.options()
        if self.chosen:
            content["chosen"] = dict(self.chosen)
        return content if self.enabled else {**content, "enabled": False}


@dataclass(frozen=True)
class Ownership:
    """The content of the annotation of one object."""

    uid: str
    rules: t.Mapping[RuleId, OwnedRule] = field(default_factory=dict)
    created: frozenset[str] = frozenset()

    def text(self) -> str:
        """The annotation's value: the same text for the same content."""
        content = {
            "version": VERSION,
            "uid": self.uid,
            "rules": {str(rule): owned.content() for rule, owned in sorted(self.rules.items())},
            "created": sorted(self.created),
        }
        return json.dumps(content, separators=(",", ":"))

    def fingerprints(self) -> frozenset[Fingerprint]:
        """The fingerprints of all rules together."""
        return frozenset(self.rules_of)

    @functools.cached_property
    def rules_of(self) -> t.Mapping[Fingerprint, tuple[RuleId, ...]]:
        """The rules with each fingerprint."""
        rules: dict[Fingerprint, list[RuleId]] = {}
        for rule, owned in sorted(self.rules.items()):
            for fingerprint in owned.terms:
                rules.setdefault(fingerprint, []).append(rule)
        return {fingerprint: tuple(listed) for fingerprint, listed in rules.items()}

    @functools.cached_property
    def _alike(self) -> t.Mapping[Effect, Fingerprint]:
        """The first of the fingerprints that say the same."""
        return {
            fingerprint.effect: fingerprint for fingerprint in sorted(self.rules_of, reverse=True)
        }

    def owned(self, fingerprint: Fingerprint) -> Fingerprint | None:
        """The fingerprint under which a term with the effect of `fingerprint` is ours, if it is."""
        return fingerprint if fingerprint in self.rules_of else self._alike.get(fingerprint.effect)

    def of_set(self, namespace: str, rule_set: str) -> tuple[RuleId, ...]:
        return tuple(r for r in self.rules if (r.namespace, r.rule_set) == (namespace, rule_set))


def owners_of(rules: t.Mapping[RuleId, OwnedRule], term: TemplateTerm) -> list[RuleId]:
    """Those of these rules that own a term of a template."""
    same = term.fingerprint.has_same_effect
    return [rule for rule, owned in rules.items() if any(map(same, owned.terms))]


BY_NAME, BY_PREFIX = "name:", "generateName:"
"""Begin the uid in the annotation of an object that had none yet; before `generateName` where it had no name either."""

_RANDOM = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
"""What the API server adds to the first 58 characters of `generateName` (apiserver, pkg/storage/names/generate.go;
apimachinery, pkg/util/rand/rand.go)."""


def _is_own(ownership: Ownership, workload: Workload) -> bool:
    """Whether the annotation was written for this object: where it has no uid, by its name and namespace."""
    name, prefix = workload.ref.name, ownership.uid.removeprefix(BY_PREFIX)
    is_generated = prefix != ownership.uid and name[:-5] == prefix[:58]
    if ownership.uid == f"{BY_NAME}{name}" or (is_generated and _RANDOM.fullmatch(name[-5:])):
        return {rule.namespace for rule in ownership.rules} <= {workload.ref.namespace}
    return ownership.uid == workload.uid


def read_ownership(workload: Workload) -> Ownership:
    """The ownership in the object's annotation; empty where there is none.

    Raises UnreadableAnnotation. The uid may be another object's: compare it. That object may have been in another
    namespace, whose rules are left out.
    """
    text = workload.annotations.get(RULES)
    if text is None:
        return Ownership(workload.uid)
    content = decode(workload, RULES, text)
    try:
        ownership = _ownership(content)
        if _is_own(ownership, workload):
            _check_scope(ownership, workload)
            return replace(ownership, uid=workload.uid)
        namespace = workload.ref.namespace
        rules = {rule: x for rule, x in ownership.rules.items() if rule.namespace == namespace}
        return replace(ownership, rules=rules)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UnreadableAnnotation(damaged(workload, RULES, content_fault(error))) from error


def _ownership(content: t.Mapping[str, JSON]) -> Ownership:
    rules = {rule_id(rule): _owned_rule(rule, owned) for rule, owned in content["rules"].items()}
    if len(rules) > MOST_RULES:
        raise ValueError(f"it has {len(rules)} rules, at most {MOST_RULES} are allowed")
    created = frozenset(map(str, content["created"]))
    if unknown := [x for x in created if x not in _CONTAINERS and not _IN_A_TERM.fullmatch(x)]:
        raise ValueError(f"rules create no {shown(min(unknown))}")
    return Ownership(str(content["uid"]), rules, created)


def _owned_rule(name: str, content: t.Mapping[str, JSON]) -> OwnedRule:
    """One rule of the annotation; the names of its options are checked, `rules/stored_rules` reads their values. Raises
    ValueError, and others for wrong types."""
    options, labels = content.get("declared", {}), content.get("chosen", {})
    owned = OwnedRule(
        tuple(sorted({Fingerprint.parse(text) for text in content["terms"]})),
        canonical_json(options) if options else "",
        content.get("enabled", True),
        tuple(sorted(labels.items())),
    )
    if unknown := sorted({*options} - _OPTIONS):
        raise ValueError(f"{shown(unknown[0])} is no option of a rule")
    types = len(_TYPES & options.keys())
    labels_alone = {x.location for x in owned.terms} <= {TermLocation.LABEL}
    is_target = not options and labels_alone and not labels and owned.enabled is True
    if not is_target and types != 1 and (types or "label" not in options):
        raise ValueError(f"rule {name} has {'several types' if types else 'no type'}")
    flags = owned.enabled, options.get("preferred", True)
    if not all(isinstance(flag, bool) for flag in flags):
        raise ValueError(f"an option of rule {name} is neither true nor false")
    if not all(is_label_key(key) and is_label_value(value) for key, value in owned.chosen):
        raise ValueError(f"rule {name} chooses by labels that are not valid")
    return owned


def _check_scope(ownership: Ownership, workload: Workload) -> None:
    """Rules are about workloads of their own namespace. On those of others, which they keep away from, they set labels
    alone. Raises ValueError."""
    for rule, owned in ownership.rules.items():
        labels = {fingerprint.location for fingerprint in owned.terms} == {TermLocation.LABEL}
        if rule.namespace != workload.ref.namespace and (not labels or owned.declared):
            raise ValueError(f"rule {rule} is of another namespace")


def decode(workload: Workload, annotation: str, text: str) -> dict[str, JSON]:
    """The JSON object of one of our annotations, its version checked."""
    try:
        content = read_annotation(text)
    except DamagedAnnotation as error:
        raise UnreadableAnnotation(damaged(workload, annotation, str(error))) from error
    version = content.get("version")
    if not isinstance(version, int) or version < 1:
        raise UnreadableAnnotation(damaged(workload, annotation, "it has no version"))
    if content["version"] > VERSION:
        raise UnreadableAnnotation(
            f"{workload.ref}: annotation {annotation} was written by a newer release of"
            f" virt.placement (its version is {content['version']}, this release knows"
            f" {VERSION}): use that release, or a later one"
        )
    return content


def rules_of_term(ownership: Ownership, term: TemplateTerm) -> tuple[RuleId, ...]:
    """The rules that a term belongs to: several may share one, a foreign one has none."""
    fingerprint = ownership.owned(term.fingerprint)
    if fingerprint is None:
        return ()
    return ownership.rules_of[fingerprint]


def damaged(workload: Workload, annotation: str, seen: str) -> str:
    """That an annotation of ours cannot be read, and what to do."""
    return f"{workload.ref}: annotation {annotation} is damaged ({seen}): {_REPAIRS[annotation]}"


_REPAIRS: t.Final = {
    RULES: (
        "restore it from a backup, or remove it, and the terms of the rules by hand, and write the rules again"
    ),
    UNDO: "remove it if nothing has to be undone, and write the rules again",
}


INVALID_RULES_ANNOTATION = "invalid_rules_annotation"


def invalid_rules_annotation(ref: Ref, error: UnreadableAnnotation | str) -> Finding:
    """An annotation of an object cannot be read, so the object may carry rules."""
    return Finding(
        INVALID_RULES_ANNOTATION,
        "warning",
        f"{error}.",
        "It is left as it is, and the object may carry terms of rules.",
        (ref,),
    )
