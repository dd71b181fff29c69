# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the annotation `placement.virt/rules` of a new object hold, in CEL, which has no JSON?

The policy of another rule set may have written it just before. Then it begins as no other does, and rules are put into
its text. The order of rules and of `created` has no meaning there.
"""

from __future__ import annotations

import json
import typing as t

from ..model.json_pointer import ANNOTATIONS, JSON
from ..model.kinds import RULES
from ..model.rule import RuleId
from ..rules.ownership import BY_NAME, BY_PREFIX, MOST_RULES, VERSION, OwnedRule
from ..rules.term_slots import Fingerprint
from . import cel

NAME, _PREFIX = (f'object.metadata.?{x}.orValue("")' for x in ("name", "generateName"))
BEFORE = cel.variable("before")
"""The annotation as the policy of another rule set has left it; empty where there is none."""

TEXT = f'object.metadata.?annotations[?{cel.literal(RULES)}].orValue("")'
_RULES, _CREATED = '"rules":{', '"created":['
_TERMS = '"terms":['
"""Stands once in each rule."""


def _json(value: JSON) -> str:
    return json.dumps(value, separators=(",", ":"))


def _beginning() -> str:
    """How an annotation of this object begins, as a policy writes it. The API server makes a name of `generateName`
    after that (apiserver, pkg/registry/rest/create.go, BeforeCreate)."""
    begin, end = (cel.literal(text) for text in (f'{{"version":{VERSION},"uid":"', f'",{_RULES}'))
    by_name, by_prefix = f"{cel.literal(BY_NAME)} + {NAME}", f"{cel.literal(BY_PREFIX)} + {_PREFIX}"
    return f"{begin} + {cel.either(f'size({NAME}) == 0', by_prefix, by_name)} + {end}"


def lacks_rules_of(rule: RuleId) -> str:
    """Whether the object has no rules, or only those that policies of other rule sets have just given it. A clone has
    those of another object; what is restored, those of this rule set."""
    of_set = cel.literal(f'"{rule.namespace}/{rule.rule_set}/')
    written = f"{TEXT}.startsWith({_beginning()})"
    return cel.any_of([f'{TEXT} == ""', cel.all_of(written, f"!{TEXT}.contains({of_set})")])


def has_term(fingerprint: Fingerprint) -> str:
    """Whether a rule of another set has a term with the same effect."""
    return f"{BEFORE}.contains({_fingerprint_start(fingerprint)})"


def fingerprint_text(fingerprint: Fingerprint) -> str:
    """The fingerprint with quotes."""
    return cel.literal(_json(str(fingerprint)))


def recorded_fingerprint(fingerprint: Fingerprint, otherwise: str) -> str:
    """The fingerprint as a rule of another set has it, with quotes."""
    begin = _fingerprint_start(fingerprint)
    rest = f"""{BEFORE}.split({begin})[1].split('"')[0]"""
    return cel.either(has_term(fingerprint), f"""{begin} + {rest} + '"'""", otherwise)


def _fingerprint_start(fingerprint: Fingerprint) -> str:
    return cel.literal(f'"{fingerprint.location}:{fingerprint.meaning}.')


def has_location(location: str) -> str:
    """Whether a rule of another set has a term of this location."""
    return f"{BEFORE}.contains({cel.literal(f'{chr(34)}{location}:')})"


def too_many(applies: t.Iterable[str]) -> str:
    """Whether the object would have more rules than are read, those of other sets among them."""
    ours = f"{cel.list_of(applies)}.filter(rule, rule).size()"
    others = f"{BEFORE}.split({cel.literal(_TERMS)}).size() - 1"
    return f'{BEFORE} != "" && {others} + {ours} > {MOST_RULES}'


def rule_text(rule: RuleId, stored: OwnedRule, fingerprints: t.Sequence[str]) -> str:
    """A rule in the annotation: what is stored of it beside the terms, and entries with their fingerprints."""
    rest = _json({key: x for key, x in stored.content().items() if key != "terms"})[1:-1]
    begin = cel.literal(f"{_json(str(rule))}:{{{_TERMS}")
    end = cel.literal(f"]{',' if rest else ''}{rest}}}")
    return f"{begin} + {cel.joined(fingerprints)} + {end}"


def texts(rules: t.Sequence[str], created: t.Sequence[tuple[str, str]]) -> dict[str, str]:
    """The variables with its text. `rules` are entries of a list, `created` pointers with the conditions under which
    they were created."""
    pointers = [cel.optional(condition, cel.literal(_json(x))) for x, condition in created]
    middle, end = cel.literal(f"}},{_CREATED}"), cel.literal("]}")
    alone = f'{_beginning()} + variables.rules + {middle} + variables.created.join(",") + {end}'
    return {
        "rules": cel.joined(rules),
        "created": cel.list_of(pointers),
        "annotation": cel.either(f'{BEFORE} == ""', alone, _beside_others()),
    }


def _beside_others() -> str:
    """Ours before the rules of others, and what they created before what we did."""
    begin = cel.literal(_RULES)
    rules = f'{BEFORE}.replace({begin}, {begin} + variables.rules + ",", 1)'
    nothing_before = f"{BEFORE}.endsWith({cel.literal(f'{_CREATED}]}}')})"
    comma = cel.either(f"{nothing_before} || size(variables.created) == 0", '""', '","')
    created = f'variables.created.join(",") + {cel.literal("]}")}'
    return f"{rules}.substring(0, size({rules}) - 2) + {comma} + {created}"


def operations() -> list[str]:
    """What writes the annotation."""
    there = "object.metadata.?annotations.hasValue()"
    text = cel.variable("annotation")
    new = cel.add('""', ANNOTATIONS, f"{{{cel.literal(RULES)}: {text}}}")
    key = cel.add('""', ANNOTATIONS / RULES, text)
    return [cel.optional(f"!{there}", new), cel.optional(there, key)]
