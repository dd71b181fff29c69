# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of roles are converted from text, and every error is reported with the nearest names."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import (
    CONNECTION,
    PLAYBOOK_VARIABLES,
    PUBLISHED,
    RESULT,
    read_options,
    unknown_variables,
)

CHECKOUT = Path(__file__).resolve().parents[3]
ROLES = sorted(path.name for path in (CHECKOUT / "roles").iterdir())
NO_ROLE = ("controller_choices.yml", "controller_setup.yml", "sandbox_up.yml", "sandbox_down.yml")
PLAYBOOKS = sorted(x for x in (CHECKOUT / "playbooks").glob("*.yml") if x.name not in NO_ROLE)
BOTH: dict[str, dict[str, t.Any]] = {
    "placement_verify": {
        "placement_verify_namespaces": {"type": "list"},
        "placement_verify_fail_on": {"type": "list"},
    },
    "placement_apply": {"placement_apply_rules": {"type": "list"}},
}


def load(name: str) -> t.Any:
    return yaml.safe_load((CHECKOUT / name).read_text())


def options_of(role: str) -> dict[str, dict[str, t.Any]]:
    spec = load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]["main"]
    return t.cast("dict[str, dict[str, t.Any]]", spec["options"])


@pytest.mark.parametrize(
    ("given", "value"),
    [(True, "true"), (False, "false"), ("yes", "true"), ("similar", "similar")],
)
def test_option_with_true_among_its_choices_takes_booleans(given: t.Any, value: str) -> None:
    spec = {"type": "str", "choices": ["false", "true", "similar"]}
    assert read_options({"x": given}, {"x": spec}) == ({"x": value}, [])
    (error,) = read_options({"x": "similiar"}, {"x": spec})[1]
    assert "Did you mean similar?" in error


@pytest.mark.parametrize(
    ("spec", "text", "value"),
    [
        ({"type": "int"}, "7", 7),
        ({"type": "bool"}, "yes", True),
        ({"type": "bool"}, "False", False),
        ({"type": "list"}, "[a, b]", ["a", "b"]),
        ({"type": "list"}, "- a\n- b\n", ["a", "b"]),
        ({"type": "list"}, '["a", 1]', ["a", "1"]),
        ({"type": "list", "elements": "dict"}, "[{name: db}]", [{"name": "db"}]),
        ({"type": "list", "choices": ["stop"]}, "stop", ["stop"]),
        ({"type": "dict"}, "{a: {b: c}}", {"a": {"b": "c"}}),
        ({"type": "str"}, "[a]", "[a]"),
    ],
)
def test_text_becomes_the_type_of_the_option(spec: t.Any, text: str, value: t.Any) -> None:
    assert read_options({"x": text}, {"x": spec}) == ({"x": value}, [])


@pytest.mark.parametrize("kind", ["int", "bool", "list", "dict", "str"])
@pytest.mark.parametrize("given", ["", "  ", None])
def test_empty_text_is_the_default(kind: str, given: str | None) -> None:
    assert read_options({"x": given}, {"x": {"type": kind, "default": 7}}) == ({"x": 7}, [])


def test_an_empty_list_and_zero_are_values() -> None:
    spec: dict[str, dict[str, t.Any]] = {
        "x": {"type": "list", "default": ["a"]},
        "y": {"type": "int", "default": 1},
    }
    assert read_options({"x": [], "y": 0}, spec) == ({"x": [], "y": 0}, [])


@pytest.mark.parametrize(
    ("spec", "value", "error"),
    [
        ({"type": "int"}, "soon", "x: must be a whole number of 0 or more, but is 'soon'."),
        ({"type": "int"}, -1, "x: must be a whole number of 0 or more, but is -1."),
        ({"type": "int"}, True, "x: must be a whole number of 0 or more, but is True."),
        ({"type": "bool"}, "maybe", "x: must be true or false, but is 'maybe'."),
        (
            {"type": "list"},
            "shop",
            "x: must be a list, or YAML or JSON text of one, but is the text 'shop'."
            " Write it in brackets: [shop].",
        ),
        (
            {"type": "list"},
            "shop\ndefault",
            "x: must be a list, or YAML or JSON text of one, but is the text 'shop\\ndefault'."
            " Write it in brackets: [shop, default].",
        ),
        (
            {"type": "list", "elements": "raw"},
            "db",
            "x: must be a list, or YAML or JSON text of one, but is the text 'db'."
            " Write it in brackets: [db].",
        ),
        (
            {"type": "list", "choices": ["violated", "down"]},
            "violatd down",
            "x: must be a list, or YAML or JSON text of one, but is the text 'violatd down'."
            " Did you mean violated? Write it in brackets: [violated, down].",
        ),
        ({"type": "list"}, {}, "x: must be a list, or YAML or JSON text of one, but is a map."),
        (
            {"type": "dict"},
            "{a: [b",
            "x: not valid YAML: line 2, column 1: while parsing a flow sequence from line 1, did not"
            " find expected ',' or ']'.",
        ),
        ({"type": "str"}, ["a"], "x: must be text, but is a list."),
        ({"type": "path"}, "a.yml", "x: must be an absolute path, but is 'a.yml'."),
        ({"type": "path"}, ["/a"], "x: must be the path of a file, but is a list."),
        (
            {"type": "path"},
            "/missing/a.yml",
            "x: there is no file '/missing/a.yml' on the host that runs the playbook.",
        ),
        ({"type": "list"}, [{}], "x[0]: must be text, but is a map."),
        ({"type": "str", "required": True}, " ", "x: required, and not given."),
        (
            {"type": "str", "choices": ["drain", "failure"]},
            "fail",
            "x: unknown value 'fail'. Did you mean failure? Valid values: drain, failure.",
        ),
    ],
)
def test_variable_that_cannot_be_converted_is_an_error(
    spec: t.Any, value: t.Any, error: str
) -> None:
    assert read_options({"x": value}, {"x": spec})[1] == [error]


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("stop", ["stop"]),
        ("[migrate, restart]", ["migrate", "restart"]),
        ("- migrate\n- stop\n", ["migrate", "stop"]),
        (["evict"], ["evict"]),
        ("", ["migrate"]),
    ],
)
def test_policies_of_a_survey(given: t.Any, value: list[str]) -> None:
    name = "placement_maintenance_vm_policy"
    option = {name: options_of("placement_maintenance")[name]}
    assert read_options({name: given}, option) == ({name: value}, [])


def test_policies_without_brackets_are_refused_as_other_lists_are() -> None:
    name = "placement_maintenance_vm_policy"
    option = {name: options_of("placement_maintenance")[name]}
    (error,) = read_options({name: "migrate,restrt"}, option)[1]
    assert error.endswith("Did you mean restart? Write it in brackets: [migrate, restart].")


def test_path_of_a_file_is_read_as_it_is() -> None:
    assert read_options({"x": __file__}, {"x": {"type": "path"}}) == ({"x": __file__}, [])


@pytest.mark.parametrize("name", ["tasks", "gate_tasks"])
def test_tasks_of_a_maintenance_must_exist(name: str) -> None:
    name = f"placement_maintenance_{name}"
    (error,) = read_options({name: "firmware.yml"}, options_of("placement_maintenance"))[1]
    assert error == f"{name}: must be an absolute path, but is 'firmware.yml'."


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("placement_maintenance", "max_nodes"),
        ("placement_maintenance", "run_timeout"),
        ("placement_rollout", "max_unavailable"),
        ("placement_drill", "timeout"),
    ],
)
def test_number_that_cannot_be_zero_is_refused(role: str, name: str) -> None:
    name = f"{role}_{name}"
    option = {name: options_of(role)[name]}
    assert read_options({name: 0}, option)[1] == [
        f"{name}: must be a whole number of 1 or more, but is 0."
    ]
    assert read_options({name: 1}, option) == ({name: 1}, [])


def test_a_misspelt_gate_is_an_error() -> None:
    given = {"placement_verify_fail_on": ["voilated", "pending"]}
    assert read_options(given, options_of("placement_verify"))[1] == [
        "placement_verify_fail_on: unknown value 'voilated'. Did you mean violated?"
        " Valid values: violated, pending, unknown, constraint_removed, down, preference_not_met,"
        " not_enforced, error_finding."
    ]


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("placement_verify", "placement_verify_fail_on"),
        ("placement_drill", "placement_drill_fail_on"),
        ("placement_apply", "placement_apply_fail_on"),
        ("placement_apply", "placement_apply_fail_on_forecast"),
    ],
)
def test_every_gate_refuses_unknown_values(role: str, name: str) -> None:
    option = {name: options_of(role)[name]}
    assert read_options({name: ["none"]}, option)[1]
    assert read_options({name: option[name]["choices"]}, option)[1] == []


def test_keys_inside_a_map_are_checked() -> None:
    window = {"start": "22:00", "ende": "04:00"}
    assert read_options({"placement_rollout_window": window}, options_of("placement_rollout"))[
        1
    ] == [
        "placement_rollout_window: unknown key 'ende'. Did you mean end?",
        "placement_rollout_window.end: required, and not given.",
    ]


def test_all_errors_are_reported_together() -> None:
    errors = read_options({"x": "a", "y": "b"}, {"x": {"type": "int"}, "y": {"type": "list"}})[1]
    assert len(errors) == 2


def test_a_misspelt_variable_of_a_role_is_answered_with_the_nearest_name() -> None:
    assert unknown_variables(["placement_verify_namespce"], BOTH) == [
        "placement_verify_namespce: unknown variable of the role placement_verify."
        " Did you mean placement_verify_namespaces?"
    ]


def test_a_variable_that_begins_with_the_name_of_a_role_is_its() -> None:
    assert unknown_variables(["placement_apply_color"], BOTH) == [
        "placement_apply_color: unknown variable of the role placement_apply."
        " See ansible-doc -t role virt.placement.placement_apply."
    ]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("placement_cluster_uuid", "placement_cluster_uid"),
        ("placement_kubecfg", "placement_kubeconfig"),
        ("placement_cluster", "placement_clusters"),
        ("placement_apikey", "placement_api_key"),
        ("placement_verfy_namespaces", "placement_verify_namespaces"),
        ("placment_verify_namespaces", "placement_verify_namespaces"),
        ("Placement_kubeconfig", "placement_kubeconfig"),
    ],
)
def test_a_near_miss_is_refused(name: str, near: str) -> None:
    (error,) = unknown_variables([name], BOTH)
    assert error.startswith(f"{name}: unknown variable. Did you mean {near}")
    assert error.endswith("? If it is your own variable, rename it.")


@pytest.mark.parametrize(
    "name",
    [
        "placement_group",
        "placement_owner",
        "placement_foo",
        "placement",
        "shop_placement_kubecfg",
        "deployment_host",
        "placment_owner",
        "placement_verify_result",
        "placement_apply_forecast_result",
        *sorted(PLAYBOOK_VARIABLES),
        *sorted(PUBLISHED),
    ],
)
def test_other_variables_are_left_alone(name: str) -> None:
    roles = {role: options_of(role) for role in ROLES}
    assert unknown_variables([name], roles) == []


@pytest.mark.parametrize("role", ROLES)
def test_variables_that_a_role_registers_are_allowed(role: str) -> None:
    for file in (CHECKOUT / "roles" / role / "tasks").glob("*.yml"):
        registered = re.findall(r"register: (\w+)", file.read_text())
        assert all(name.startswith(f"{role}_") for name in registered)
        assert all(name.endswith(RESULT) for name in registered)


@pytest.mark.parametrize("role", ROLES)
def test_defaults_are_those_of_the_specification(role: str) -> None:
    spec = options_of(role)
    documented = {name: option["default"] for name, option in spec.items() if "default" in option}
    file = CHECKOUT / "roles" / role / "defaults" / "main.yml"
    assert (yaml.safe_load(file.read_text()) if file.exists() else {}) == documented
    assert not [name for name, option in spec.items() if option["type"] == "raw"]


def test_connection_options_are_those_of_kubernetes_core() -> None:
    assert set(CONNECTION) == set(AUTH_ARG_SPEC)


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_playbook_passes_on_every_connection_option_and_runs_its_role(playbook: Path) -> None:
    (play,) = yaml.safe_load(playbook.read_text())
    groups = play["module_defaults"]
    assert set(groups["group/virt.placement.auth"]) == set(CONNECTION)
    for name, value in groups["group/virt.placement.auth"].items():
        assert set(re.findall(r"placement_\w+", value)) == {f"placement_{name}"}
    (task,) = play["tasks"]
    role = task["ansible.builtin.import_role"]["name"]
    assert role == f"virt.placement.placement_{playbook.stem}"


def test_every_role_has_its_playbook() -> None:
    assert {f"placement_{path.stem}" for path in PLAYBOOKS} == set(ROLES)


def test_no_role_gives_the_tasks_of_another_one_a_variable_that_a_task_registers() -> None:
    """A registered result has precedence over the variables of an import, also that of an earlier role in the play."""
    texts = [path.read_text() for path in sorted((CHECKOUT / "roles").glob("*/tasks/*.yml"))]
    registered = {name for text in texts for name in re.findall(r"register: (\w+)", text)}
    tasks = [task for text in texts for task in _tasks(yaml.safe_load(text))]
    imports = [x for x in tasks if "ansible.builtin.import_role" in x]
    assert imports
    assert [name for task in imports for name in task.get("vars", ()) if name in registered] == []


def _tasks(tasks: t.Iterable[dict[str, t.Any]]) -> t.Iterator[dict[str, t.Any]]:
    for task in tasks:
        yield task
        yield from _tasks([x for part in ("block", "rescue", "always") for x in task.get(part, ())])
