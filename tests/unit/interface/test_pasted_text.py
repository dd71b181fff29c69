# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tenant wrote, in a text that an administrator loads into Ansible or pastes into a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.interface.pasted_text import (
    has_plain_keys,
    is_plain,
    variables_yaml,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.rule_table import (
    declarations_yaml,
)

from .test_rule_table import rule, workload

HOSTILE = (
    "{{ lookup('pipe', 'touch MARK') }}",
    "{% set x = lookup('pipe', 'touch MARK') %}",
    "'; touch MARK; '",
    "$(touch MARK)",
    "`touch MARK`",
    "a\nplacement_apply_prune: true",
    "a\u2028b\x85c",
    '"\\" #',
    "!!python/object/apply:os.system ['touch MARK']",
    "#jinja2: variable_start_string: '[['",
    "a" * 400,
)


def printed_by_ansible(folder: Path, variables: str, arguments: t.Sequence[str]) -> t.Any:
    """The variable as a play has it that an administrator starts with these arguments, in the folder."""
    play = folder / "play.yml"
    task = {
        "ansible.builtin.copy": {"content": f"{{{{ {variables} | to_json }}}}", "dest": "seen.json"}
    }
    task["ansible.builtin.copy"]["dest"] = str(folder / "seen.json")
    head = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task]}
    play.write_text(json.dumps([head]))
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(play), *arguments]
    environment = {
        **os.environ,
        "ANSIBLE_INVENTORY": "localhost,",
        "ANSIBLE_LOCALHOST_WARNING": "0",
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "seen.json").read_text())


def test_ansible_evaluates_no_text_of_a_declaration(tmp_path: Path) -> None:
    terms = {
        "tolerations": [{"key": "gpu", "value": text, "seconds": 5, "on": True} for text in HOSTILE]
    }
    declaration = {"name": "r", "workloads": ["db"], "terms": terms}
    lines = declarations_yaml([rule(workload("db"), name="r", declaration=declaration)]).split("\n")
    (tmp_path / "rules.yml").write_text("\n".join(lines[1:]) + "\n")

    seen = printed_by_ansible(tmp_path, "placement_apply_rules", ["-e", "@rules.yml"])

    assert seen == [declaration]
    assert sorted(x.name for x in tmp_path.iterdir()) == ["play.yml", "rules.yml", "seen.json"]


@pytest.mark.parametrize("text", [*HOSTILE, "a b", "a'", "-a", "_"])
def test_rule_is_left_out_by_name_if_a_name_or_key_is_hostile(text: str) -> None:
    plain = {"name": "good", "workloads": ["db"], "keep_apart": "zone"}
    lines = declarations_yaml(
        [
            rule(workload("db"), name="good", declaration=plain),
            rule(workload("db"), name=text, declaration={**plain, "name": text}),
            rule(workload("db"), name="key", declaration={**plain, "run_on": {text: "a"}}),
        ]
    ).split("\n")[:-1]

    assert lines[:8] == [
        "---",
        "placement_apply_namespace: shop",
        "placement_apply_rule_set: default",
        "placement_apply_rules:",
        "- name: good",
        "  workloads:",
        "  - db",
        "  keep_apart: zone",
    ]
    assert [line[:13] for line in lines[8:]] == ["# left out, s"] * 2
    assert not any("\n" in line for line in lines)


def test_plain_is_what_a_label_may_have() -> None:
    assert all(map(is_plain, ("", "a", "topology.kubernetes.io/zone", "run_on", "A.b-c_d", "1")))
    assert not any(map(is_plain, (*HOSTILE, "é", "a:b", "a b", "a\n", "/a", "{}")))
    assert has_plain_keys([{"a": [{"b": "{{ 1 }}"}]}])
    assert not has_plain_keys([{"a": [{"{{ 1 }}": "b"}]}])
    assert variables_yaml({"a": ["yes", "x y", 1, None]}) == [
        "a:",
        "- 'yes'",
        '- !unsafe "x y"',
        "- 1",
        "- null",
    ]
