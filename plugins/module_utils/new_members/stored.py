# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rules was a policy made from?

Its annotation `placement.virt/rules` has them as the option `rules` takes them, with full label keys. A task that lists
some rules of a set finds the others there: a rule without a workload is written nowhere else.
"""

from __future__ import annotations

import json
import typing as t

from ..model.admission_policy import AdmissionPolicy
from ..model.json_pointer import ANNOTATIONS, JSON
from ..model.json_text import DamagedAnnotation, read_annotation
from ..model.kinds import RULES
from ..model.rule import Rule
from ..model.topology import Topology
from ..rules.ownership import VERSION
from ..rules.parse import read_rules
from ..rules.stored_rules import declared, label_keys


def rules_text(rules: t.Iterable[Rule]) -> str:
    """The annotation's value."""
    content = {"version": VERSION, "rules": [declared(rule, Topology({})) for rule in rules]}
    return json.dumps(content, separators=(",", ":"))


def rules_of_policy(policy: AdmissionPolicy) -> tuple[Rule, ...] | None:
    """The rules of a policy; None where its annotation cannot be read."""
    text = (ANNOTATIONS / RULES).read(policy.manifest, None)
    try:
        content = read_annotation(str(text))
        listed: list[JSON] = content["rules"] if content["version"] == VERSION else []
        keys = {key: key for rule in listed for key in label_keys(rule)}
    except (DamagedAnnotation, KeyError, TypeError, AttributeError):
        return None
    found = read_rules(
        listed, namespace=policy.namespace, rule_set=policy.rule_set, topology=Topology(keys)
    )
    return None if found.faults or not listed else found.rules
