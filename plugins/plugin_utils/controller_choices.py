# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which names of a cluster can be chosen in the surveys of AWX? For the lookup controller_choices."""

from __future__ import annotations

import json
import typing as t
from collections import defaultdict
from dataclasses import dataclass, field
from operator import attrgetter

from ansible_collections.virt.placement.plugins.module_utils.api.yaml_text import (
    InvalidYaml,
    load_yaml,
)
from ansible_collections.virt.placement.plugins.plugin_utils.controller import answer_fault

Values = t.Mapping[str, t.Any]
Question = dict[str, t.Any]

LIMIT = 500
"""With more names a question stays, or becomes again, a text."""

SYSTEM = ("kube-", "openshift-")
"""Prefixes that Kubernetes and OpenShift keep for their own namespaces."""

NOT_ANSWERED = "{}"
"""The choice of an optional map that stands for no answer."""

IN_TEXT = {"multiselect": " A list, as YAML or JSON.", "multiplechoice": " A map, as YAML or JSON."}
"""How the description of a text area ends (dev/surveys.py), by the type that replaces it."""


@dataclass(frozen=True)
class ClusterNames:
    """The names of one cluster, or of several together. `domains`: topology name to its domains, without nodes."""

    nodes: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    rule_sets: tuple[str, ...] = ()
    domains: t.Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """How the question for a variable offers names. `text`: its type where it does not."""

    names: t.Callable[[ClusterNames], t.Iterable[str]]
    several: bool = True
    text: str = "textarea"

    @property
    def type(self) -> str:
        return "multiselect" if self.several else "multiplechoice"


def _topology_names(names: ClusterNames) -> list[str]:
    return ["node", *(name for name, domains in names.domains.items() if domains)]


def _maps_of_domains(names: ClusterNames) -> list[str]:
    """Each domain as the map that names it. JSON keeps `1` a text."""
    return [
        json.dumps({name: domain}) for name, domains in names.domains.items() for domain in domains
    ]


def _failures(names: ClusterNames) -> list[str]:
    single = [f"{name}={domain}" for name, domains in names.domains.items() for domain in domains]
    return [*_topology_names(names), *single]


CHOICES: t.Mapping[str, Choice] = {
    "placement_apply_namespace": Choice(attrgetter("namespaces"), several=False, text="text"),
    "placement_undo_namespace": Choice(attrgetter("namespaces"), several=False, text="text"),
    "placement_undo_rule_set": Choice(attrgetter("rule_sets"), several=False, text="text"),
    "placement_verify_namespaces": Choice(attrgetter("namespaces")),
    "placement_rules_namespaces": Choice(attrgetter("namespaces")),
    "placement_cpu_namespaces": Choice(attrgetter("namespaces")),
    "placement_report_namespaces": Choice(attrgetter("namespaces")),
    "placement_maintenance_nodes": Choice(attrgetter("nodes")),
    "placement_maintenance_topology": Choice(_maps_of_domains, several=False),
    "placement_drill_domains_of": Choice(_topology_names),
    "placement_report_domains_of": Choice(_topology_names),
    "placement_capacity_tolerate": Choice(_failures),
}
"""By variable. Not the namespaces of a rollout: the rulebook `repair` answers them with a text, which AWX refuses for a
multiple select, and a new namespace must be repaired before its name is a choice."""


def cluster_names(readings: t.Iterable[Values]) -> ClusterNames:
    """The names of all clusters. A reading has the results of `topology_info`, `rules_info` and of `k8s_info`."""
    nodes: set[str] = set()
    namespaces: set[str] = set()
    rule_sets: set[str] = set()
    domains: dict[str, set[str]] = defaultdict(set)
    for reading in readings:
        topology = reading["topology"]
        for name, found in topology["domains"].items():
            nodes.update(node for domain in found.values() for node in domain["nodes"])
            if name != "node":
                domains[name].update(found)
        nodes.update(node for without in topology["missing"].values() for node in without)
        found_namespaces = {x["metadata"]["name"] for x in reading["namespaces"]["resources"]}
        namespaces.update(
            x for x in found_namespaces if x != "openshift" and not x.startswith(SYSTEM)
        )
        rule_sets.update(rule["rule_set"] for rule in reading["rules"]["rules"])
    return ClusterNames(
        tuple(sorted(nodes)),
        tuple(sorted(namespaces)),
        tuple(sorted(rule_sets)),
        {name: tuple(sorted(found)) for name, found in sorted(domains.items())},
    )


def reading_faults(readings: t.Mapping[str, Values]) -> list[str]:
    """What could not be read, by inventory host: the surveys would lack its names."""
    return [
        f"{host}: {gap['verb']} {gap['resource']}"
        f"{' in namespace ' + gap['namespace'] if gap['namespace'] else ''}: {gap['reason']}"
        for host, reading in readings.items()
        for gap in reading["rules"]["permission_gaps"]
    ]


def template_faults(answers: t.Iterable[Values], organization: str, prefix: str) -> list[str]:
    """What is wrong with the lists of job templates and of workflows, which are the results of a loop."""
    found, faults = 0, []
    for answer in answers:
        if fault := answer_fault(answer):
            faults.append(fault)
            continue
        found += len(answer["json"]["results"])
        if answer["json"].get("next"):
            faults.append(
                f"{answer['item']}: more than {len(answer['json']['results'])} have names that begin with"
                f" '{prefix} - '. Choose another placement_controller_prefix."
            )
    if not found and not faults:
        faults.append(
            f"The organization {organization} has no template whose name begins with '{prefix} - '. Run the playbook"
            " controller_setup first. If it ran with another placement_controller_prefix or"
            " placement_controller_organization, give them here, too."
        )
    return faults


def new_surveys(answers: t.Iterable[Values], names: ClusterNames) -> list[dict[str, t.Any]]:
    """Each survey that has to change: `collection`, `name` of the template, `survey_spec`, and `changes` in words.
    `answers`: the surveys, as results of a loop over the templates."""
    surveys = []
    for answer in answers:
        template, survey = answer["item"], answer["json"]
        old = survey.get("spec") or []
        new = [with_choices(question, names) for question in old]
        if new != old:
            surveys.append(
                {
                    "collection": f"{template['type']}s",
                    "name": template["name"],
                    "survey_spec": {**survey, "spec": new},
                    "changes": ", ".join(_words(x) for x in new if x not in old),
                }
            )
    return surveys


def with_choices(question: Values, names: ClusterNames) -> Question:
    """The question with the names to choose from, or as a text if there are none or too many. Other questions, and
    other fields of this one, stay as they are in AWX."""
    choice = CHOICES.get(question["variable"])
    if choice is None or question["type"] not in (choice.type, choice.text):
        return dict(question)
    offered, default = list(choice.names(names)), _default(question)
    if choice.several or question["required"]:
        default = [name for name in default if name in offered]
    else:
        # The form always answers a multiple choice, so that one of them must mean no answer.
        default = default or ([NOT_ANSWERED] if choice.text == "textarea" else [])
        offered = [*default, *(name for name in offered if name not in default)] if offered else []
    optional = not choice.several and not question["required"]
    if not offered or len(offered) > LIMIT or (optional and not default):
        return _text_question(question, choice)
    new = {key: value for key, value in question.items() if key != "default"}
    new |= {"type": choice.type, "choices": offered}
    if default:
        new["default"] = "\n".join(default)
    if question["type"] == "textarea":
        new["question_description"] = _description(question).removesuffix(IN_TEXT[choice.type])
    return new


def _text_question(question: Values, choice: Choice) -> Question:
    if question["type"] == choice.text:
        return dict(question)
    new = {key: value for key, value in question.items() if key not in ("choices", "default")}
    new["type"] = choice.text
    default = _default(question)
    if default and default != [NOT_ANSWERED]:
        new["default"] = json.dumps(default) if choice.several else default[0]
    if choice.text == "textarea":
        new["question_description"] = _description(question) + IN_TEXT[choice.type]
    return new


def _description(question: Values) -> str:
    return str(question.get("question_description") or "")


def _default(question: Values) -> list[str]:
    """The default of a question as a list. A text area has it as YAML."""
    text = str(question.get("default") or "")
    if question["type"] != "textarea":
        return text.splitlines()
    try:
        value = load_yaml(text)
    except InvalidYaml:
        return []
    return [str(name) for name in value] if isinstance(value, list) else []


def _words(question: Values) -> str:
    choices = question.get("choices")
    return f"{question['variable']}: {f'{len(choices)} choices' if choices else 'a text'}"
