# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the surveys of AWX from the argument_specs of the roles: python -m dev.surveys.

They go to playbooks/vars/controller_surveys.yml, and to the patterns in extensions/patterns, which are written whole.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import typing as t
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[1]
ROLES = CHECKOUT / "roles"
Object = dict[str, t.Any]

AT_LEAST_ONE = ("_max_nodes", "_max_unavailable", "_timeout")
"""How variables end whose number is not 0, as in plugin_utils/role_variables."""
SURVEYS_FILE = CHECKOUT / "playbooks" / "vars" / "controller_surveys.yml"
PATTERNS = CHECKOUT / "extensions" / "patterns"
HEADER = """---
# Written by python -m dev.surveys from the argument_specs of the roles. controller.yml uses these surveys.
"""

_MARKUP = re.compile(r"\b[COVPME]V?\(((?:[^()\\]|\\.)*)\)")


class Question(t.NamedTuple):
    """A variable that a survey asks for, and its title. `required` and `default` replace those of the role."""

    variable: str
    title: str
    required: bool | None = None
    default: str | None = None


class Pattern(t.NamedTuple):
    """A folder of extensions/patterns: a playbook with the survey of the same name."""

    title: str
    summary: str
    description: str


_RULES = (
    Question("placement_apply_namespace", "Namespace of the rules"),
    Question("placement_apply_rules", "Rules"),
    Question("placement_apply_rule_set", "Rule set"),
    Question("placement_apply_new_members", "Workloads that are created later"),
    Question("placement_apply_allow", "Methods to move"),
    Question("placement_apply_on_failure", "After a failure"),
)
_NODES = (
    Question("placement_maintenance_nodes", "Nodes"),
    Question("placement_maintenance_topology", "Topology name and values"),
)
_CHANGE = "placement_maintenance_change_id"

SURVEYS: dict[str, tuple[Question, ...]] = {
    "topology": (
        Question("placement_topology_per_value", "Nodes of each value of each topology name", True),
    ),
    "apply": _RULES,
    "undo": (
        Question("placement_undo_namespace", "Namespace of the rules"),
        Question("placement_undo_rule_set", "Rule set"),
        Question("placement_undo_allow", "Methods to move"),
    ),
    "workflow": (
        Question("placement_topology_per_value", "Nodes of each value of each topology name"),
        *_RULES,
        Question("placement_verify_namespaces", "Namespaces to verify"),
    ),
    "verify": (
        Question("placement_verify_namespaces", "Namespaces to verify"),
        Question("placement_verify_fail_on", "What fails the job"),
    ),
    "rules": (Question("placement_rules_namespaces", "Namespaces"),),
    "rollout": (
        Question("placement_rollout_namespaces", "Namespaces to roll out", True),
        Question("placement_rollout_scope", "Which instances move"),
        Question("placement_rollout_allow", "Methods to move"),
        Question("placement_rollout_max_moves", "Most moves"),
    ),
    "move": (Question("placement_rollout_places", "VMs and their nodes", True),),
    "drain": (
        *_NODES,
        Question("placement_maintenance_max_nodes", "Nodes in maintenance at a time"),
        Question("placement_maintenance_reason", "Reason"),
    ),
    "maintenance": (
        *_NODES,
        Question("placement_maintenance_max_nodes", "Nodes in maintenance at a time"),
        Question(_CHANGE, "Identifier of the change", True),
    ),
    "in_service": (
        *_NODES,
        Question("placement_maintenance_reboot_expected", "A reboot is expected"),
        Question(_CHANGE, "Identifier of the change"),
    ),
    "drill": (
        Question("placement_drill_domains_of", "What fails in turn"),
        Question("placement_drill_event", "Failure or drain"),
        Question("placement_drill_fail_on", "Forecasts that fail the job"),
    ),
    "drs_import": (
        Question("placement_drs_import_files", "Files of the export"),
        Question("placement_drs_import_cluster", "DRS cluster"),
        Question("placement_drs_import_namespace", "Namespace of other VMs"),
        Question("placement_drs_import_host_groups", "Nodes of host groups"),
        Question("placement_drs_import_host_names", "Nodes of ESXi hosts"),
        Question("placement_drs_import_vm_names", "VMs with other names"),
        Question("placement_drs_import_missing_vms", "VMs of rules that the cluster lacks"),
        Question("placement_drs_import_leaders", "VMs that others follow"),
        Question("placement_drs_import_skip_rules", "Rules to leave out"),
        Question("placement_drs_import_enable_rules", "Disabled rules to enable"),
    ),
    "capacity": (
        Question("placement_capacity_tolerate", "What must be able to fail"),
        Question("placement_capacity_room_for", "Size of more VMs"),
        Question("placement_capacity_fail_on", "Answers that fail the job"),
    ),
    "report": (
        Question("placement_report_namespaces", "Namespaces"),
        Question("placement_report_domains_of", "What fails in turn"),
    ),
    "cpu": (
        Question("placement_cpu_namespaces", "Namespaces"),
        Question("placement_cpu_fail_on", "What fails the job"),
    ),
}

PATTERNS_OF: dict[str, Pattern] = {
    "topology": Pattern(
        "Label nodes with zones",
        "Labels nodes with zones and other topology keys, and shows the topology",
        "Labels nodes with their zone, region or any other key that placement rules refer to. A second run changes"
        " nothing.",
    ),
    "apply": Pattern(
        "Apply placement rules to VMs",
        "Writes placement rules, moves the VMs that violate them and verifies the result",
        "Forecasts the rules, writes them to the VMs of a namespace, live-migrates the VMs that violate them, and"
        " verifies the namespace. It writes nothing if the forecast is impossible.",
    ),
    "verify": Pattern(
        "Verify the placement of VMs",
        "Shows where VMs run, and fails where a placement rule does not hold",
        "Evaluates the placement rules of each VM and shows a table of zones, nodes and VMs. It changes nothing.",
    ),
    "drill": Pattern(
        "Drill the failure of nodes and zones",
        "Forecasts which single failure leaves VMs without a node",
        "Forecasts the failure of each node and each zone in turn, and shows those with an impact. It changes nothing.",
    ),
    "capacity": Pattern(
        "Forecast room for a failure",
        "Forecasts whether a node or zone may fail, and how many more VMs have room then",
        "Forecasts whether any one node, zone or named topology domain may fail, so that each VM finds another node,"
        " and counts the VMs that still have room. It changes nothing, and reserves nothing.",
    ),
    "cpu": Pattern(
        "Show the CPU models of VMs and nodes",
        "Shows which VMs are bound to nodes by their CPU, and the CPU models that nodes have in common",
        "Shows which VMs cannot leave their node or zone by live migration, which CPU label other nodes lack, and the"
        " newest CPU model that all nodes of a vendor have in common. It changes nothing.",
    ),
    "maintenance": Pattern(
        "Service nodes one by one",
        "Empties nodes, runs your tasks on them and puts them back in service",
        "Drains one node after the other by live migration, includes your tasks for it, waits until it is back, and"
        " moves VMs back where their rules want them. placement_maintenance_tasks is an extra variable.",
    ),
    "rollout": Pattern(
        "Move VMs that violate a rule",
        "Live-migrates the VMs that violate a placement rule",
        "Moves the VMs of some namespaces that violate a placement rule, with the fewest moves and within budgets. A"
        " second run moves nothing.",
    ),
    "undo": Pattern(
        "Undo the last change of rules",
        "Restores VMs as they were before the last change of a rule set, and verifies the result",
        "Restores the placement that VMs had before the last change of a rule set, moves those that then violate a"
        " rule, and verifies the namespace. What somebody else has changed since stays, and is named.",
    ),
    "rules": Pattern(
        "List placement rules",
        "Lists the rules with their VMs, and which are enforced or violated",
        "Lists the placement rules of some namespaces with their VMs, and which of them are enforced or violated. It"
        " changes nothing.",
    ),
    "report": Pattern(
        "Write a report of the placement",
        "Writes a report about topology, placement, rules, and the failures that leave VMs without a node",
        "Writes an HTML page, Markdown, JUnit or Prometheus metrics to the absolute paths that extra variables name:"
        " placement_report_html, placement_report_markdown, placement_report_junit and placement_report_prometheus. It"
        " changes nothing in the cluster.",
    ),
    "drs_import": Pattern(
        "Convert DRS rules",
        "Turns an export of vSphere DRS rules, or of HA rules of Proxmox, into rules for KubeVirt",
        "Reads an export of DRS rules or of HA rules. The job publishes the variables for the job templates that label"
        " nodes and apply rules, and what became of each rule. It changes nothing in the cluster.",
    ),
}


def survey(name: str) -> Object:
    """A survey as the API of AWX takes it."""
    return {"name": "", "description": "", "spec": [_asked(question) for question in SURVEYS[name]]}


def surveys_file() -> str:
    """The content of playbooks/vars/controller_surveys.yml."""
    content = {"placement_controller_surveys": {name: survey(name) for name in SURVEYS}}
    return HEADER + yaml.dump(content, Dumper=_Indented, sort_keys=False, width=100)


def pattern_files() -> dict[Path, str]:
    """The content of each file of extensions/patterns."""
    return {
        PATTERNS / f"placement_{name}" / path: text
        for name, pattern in PATTERNS_OF.items()
        for path, text in (
            ("meta/pattern.json", _pattern(name, pattern)),
            (f"playbooks/{name}.yml", _playbook(name, pattern)),
            ("README.md", _readme(name, pattern)),
        )
    }


def _playbook(name: str, pattern: Pattern) -> str:
    play = f"- name: {pattern.title}\n  ansible.builtin.import_playbook: virt.placement.{name}\n"
    return f"---\n{play}"


def _readme(name: str, pattern: Pattern) -> str:
    role = f"placement_{name}"
    return f"""# {pattern.title}

{pattern.description}

The job template runs `virt.placement.{name}`. Its survey is made from the variables of the role
[{role}](../../../roles/{role}/README.md). The job needs a credential for the cluster and an inventory:
[docs/awx.md](../../../docs/awx.md) has both, and the approval workflow, which patterns cannot describe.
"""


def _pattern(name: str, pattern: Pattern) -> str:
    asked = survey(name)
    for question in asked["spec"]:
        question.pop("min", None)  # not in the schema of patterns
        if question["type"] in ("integer", "float"):
            # Text in that schema, which AWX refuses: without one, the default of the role counts.
            question.pop("default", None)
    template = {
        "name": pattern.title,
        "description": pattern.summary,
        "playbook": f"{name}.yml",
        "primary": True,
        "ask_credential_on_launch": True,
        "ask_inventory_on_launch": True,
        "survey": {**asked, "name": pattern.title, "description": pattern.summary},
    }
    content = {
        "schema_version": "1.0",
        "name": f"placement_{name}",
        "title": pattern.title,
        "description": pattern.description,
        "short_description": pattern.summary,
        "tags": ["kubevirt", "openshift_virtualization", "placement"],
        "aap_resources": {
            "controller_project": {
                "name": "Placement patterns",
                "description": "The playbooks of the collection virt.placement",
            },
            "controller_job_templates": [template],
        },
    }
    return json.dumps(content, indent=2) + "\n"


def _asked(question: Question) -> Object:
    option = _options(question.variable)[question.variable]
    kind = _kind(option)
    lines = option["description"]
    description = plain(" ".join([lines] if isinstance(lines, str) else lines))
    if kind == "textarea":
        example = "A list" if option["type"] == "list" else "A map"
        description += f" {example}, as YAML or JSON."
    required = option.get("required", False) if question.required is None else question.required
    asked: Object = {
        "question_name": question.title,
        "question_description": description,
        "variable": question.variable,
        "required": required,
        "type": kind,
    }
    if kind in ("multiplechoice", "multiselect"):
        asked["choices"] = option.get("choices") or ["true", "false"]
    if kind == "integer":
        asked["min"] = 1 if question.variable.endswith(AT_LEAST_ONE) else 0
    if default := _default(option, kind) if question.default is None else question.default:
        asked["default"] = default
    return asked


def _options(variable: str) -> Object:
    (file,) = (
        path
        for path in ROLES.glob("*/meta/argument_specs.yml")
        if variable.startswith(f"{path.parts[-3]}_")
    )
    return _options_in(file)


@functools.cache
def _options_in(file: Path) -> Object:
    content: t.Any = yaml.safe_load(file.read_text())
    return t.cast(Object, content["argument_specs"]["main"]["options"])


def _kind(option: Object) -> str:
    """The type of the question. A text area takes what a survey has no type for."""
    several = option["type"] == "list"
    if "choices" in option:
        return "multiselect" if several else "multiplechoice"
    return {"bool": "multiplechoice", "int": "integer", "str": "text", "path": "text"}.get(
        option["type"], "textarea"
    )


def _default(option: Object, kind: str) -> t.Any:
    """The default in the form, none where it is empty. AWX wants that of a multiselect as text, one choice a line."""
    value = option.get("default")
    if kind == "integer":
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if kind == "multiselect":
        return "\n".join(value or [])
    if kind == "textarea" and value:
        return yaml.safe_dump(value, default_flow_style=True).strip()
    return value or None


class _Indented(yaml.SafeDumper):
    """Writes lists and texts of several lines as yamllint wants them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else ">" if len(text) > 80 else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Indented.add_representer(str, _text)
_Indented.ignore_aliases = lambda self, data: True  # type: ignore[method-assign]


def plain(text: str) -> str:
    """Text with Ansible's markup as Markdown."""
    return _MARKUP.sub(_plain, text)


def _plain(match: re.Match[str]) -> str:
    """Ansible's markup as Markdown: `O(virt.placement.rules#module:rules)` is option `rules` of
    `rules`."""
    owner, _colon, name = match[1].replace("\\", "").rpartition(":")
    if "#" not in owner:
        name = match[1].replace("\\", "")
    name = name.removesuffix("#role").removeprefix("virt.placement.")
    if "#" in owner:
        module = owner.partition("#")[0].removeprefix("virt.placement.")
        return f"`{name}` of the module `{module}`"
    return f"`{name}`"


def main() -> int:
    SURVEYS_FILE.parent.mkdir(exist_ok=True)
    SURVEYS_FILE.write_text(surveys_file())
    for file, text in pattern_files().items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
