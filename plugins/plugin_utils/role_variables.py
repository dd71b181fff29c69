# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do the variables of a role mean, and what is wrong with them? Used by the lookup role_options."""

from __future__ import annotations

import difflib
import functools
import io
import os
import typing as t
from pathlib import Path

from ansible.module_utils.parsing.convert_bool import BOOLEANS, boolean

from ansible_collections.virt.placement.plugins.module_utils.api.yaml_text import (
    InvalidYaml,
    load_yaml,
)

Spec = dict[str, t.Any]
Options = t.Mapping[str, Spec]

ROLES = Path(__file__).resolve().parents[2] / "roles"

RESULT = "_result"
"""Every variable that a role registers ends so."""

CONNECTION = (
    "api_key",
    "ca_cert",
    "client_cert",
    "client_key",
    "context",
    "host",
    "impersonate_groups",
    "impersonate_user",
    "kubeconfig",
    "no_proxy",
    "password",
    "persist_config",
    "proxy",
    "proxy_headers",
    "username",
    "validate_certs",
)
"""Options of kubernetes.core that the playbooks take from variables with the prefix `placement_`."""

PLAYBOOK_VARIABLES = frozenset(
    f"placement_{name}" for name in (*CONNECTION, "clusters", "cluster_uid")
)
PUBLISHED = frozenset(
    {
        "placement_summary",
        "placement_capacity",
        "placement_drill",
        "placement_drs_import",
        "placement_forecast",
        "placement_maintenance",
        "placement_job",
        "placement_policy",
        "placement_rules",
    }
)
"""What roles publish with set_stats. A workflow hands it to the next job as variables."""

GIVEN_TO_TASKS = frozenset({"placement_maintenance_node"})
"""What the tasks of a user get, which may run other roles."""

_PREFIX = "placement_"

_AT_LEAST_ONE = ("_max_nodes", "_max_unavailable", "_timeout")
"""How variables end whose number is not 0. Argument specifications have no smallest number."""


@functools.cache
def specification(file: Path) -> Options:
    content: t.Any = load_yaml(file.read_text(encoding="utf-8"))
    return t.cast("Options", content["argument_specs"]["main"]["options"])


def role_options(
    role: str, variables: t.Mapping[str, t.Any], template: t.Callable[[t.Any], t.Any]
) -> tuple[dict[str, t.Any], list[str]]:
    """Each variable of the role, without its name, as converted or as its default, and everything that is wrong."""
    roles = {
        file.parts[-3]: specification(file)
        for file in sorted(ROLES.glob("*/meta/argument_specs.yml"))
    }
    given = {name: template(variables[name]) for name in roles[role] if name in variables}
    options, errors = read_options(given, roles[role])
    short = {name.removeprefix(f"{role}_"): value for name, value in options.items()}
    return short, [*unknown_variables(variables, roles), *errors]


def defaults_of(role: str) -> dict[str, t.Any]:
    """The defaults of the role's variables, without its name."""
    options = specification(ROLES / role / "meta" / "argument_specs.yml")
    return {
        name.removeprefix(f"{role}_"): option.get("default") for name, option in options.items()
    }


def unknown_variables(names: t.Iterable[str], roles: t.Mapping[str, Options]) -> list[str]:
    """An error for each unknown variable that begins with the name of a role, or resembles a
    variable of this collection."""
    variables = {name for spec in roles.values() for name in spec}
    variables |= PLAYBOOK_VARIABLES | PUBLISHED | GIVEN_TO_TASKS
    errors = []
    for name in sorted(set(names) - variables):
        role = next((role for role in roles if name.startswith(f"{role}_")), None)
        if role and not name.endswith(RESULT):
            near = _nearest(name, f"{role}_", [*roles[role], *PLAYBOOK_VARIABLES], cutoff=0.6)
            advice = _did_you_mean(near) or f"See ansible-doc -t role virt.placement.{role}."
            errors.append(f"{name}: unknown variable of the role {role}. {advice}")
        elif name.startswith(_PREFIX) and not role:
            near = _nearest(name, _PREFIX, sorted(variables), cutoff=0.75)
            if near:
                advice = f"{_did_you_mean(near)} If it is your own variable, rename it."
                errors.append(f"{name}: unknown variable. {advice}")
        elif meant := _with_prefix(name, variables):
            advice = f"{_did_you_mean([meant])} If it is your own variable, rename it."
            errors.append(f"{name}: unknown variable. {advice}")
    return errors


def read_options(given: t.Mapping[str, t.Any], spec: Options) -> tuple[dict[str, t.Any], list[str]]:
    """The value of each option, and everything that is wrong. What is not given has its default."""
    errors: list[str] = []
    options = {name: _read(name, given.get(name), option, errors) for name, option in spec.items()}
    return options, errors


def _read(path: str, value: t.Any, spec: Spec, errors: list[str]) -> t.Any:
    if isinstance(value, str) and not value.strip():
        value = None
    if value is None:
        if spec.get("required"):
            errors.append(f"{path}: required, and not given.")
        return spec.get("default")
    before = len(errors)
    value = _CONVERT[spec.get("type", "str")](path, value, spec, errors)
    choices = spec.get("choices")
    if choices and len(errors) == before:
        for item in value if isinstance(value, list) else [value]:
            if item not in choices:
                near = _did_you_mean(difflib.get_close_matches(str(item), choices, n=1, cutoff=0.5))
                valid = f"Valid values: {', '.join(choices)}."
                errors.append(
                    f"{path}: unknown value {item!r}. {near} {valid}".replace(".  ", ". ")
                )
    return value


def _text(path: str, value: t.Any, spec: Spec, errors: list[str]) -> t.Any:
    if {"false", "true"} <= {*spec.get("choices", ())}:
        normal = value.strip().lower() if isinstance(value, str) else value
        if isinstance(normal, (str, bool)) and normal in BOOLEANS:
            return str(boolean(normal)).lower()
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        errors.append(f"{path}: must be text, but is {_kind(value)}.")
        return value
    return str(value)


def _number(path: str, value: t.Any, spec: Spec, errors: list[str]) -> t.Any:
    text = str(value).strip()
    least = 1 if path.endswith(_AT_LEAST_ONE) else 0
    if isinstance(value, bool) or not text.isdecimal() or int(text) < least:
        errors.append(f"{path}: must be a whole number of {least} or more, but is {value!r}.")
        return value
    return int(text)


def _file(path: str, value: t.Any, spec: Spec, errors: list[str]) -> t.Any:
    if not isinstance(value, str):
        errors.append(f"{path}: must be the path of a file, but is {_kind(value)}.")
    elif not os.path.isabs(value):
        errors.append(f"{path}: must be an absolute path, but is {value!r}.")
    elif not os.path.isfile(value):
        errors.append(f"{path}: there is no file {value!r} on the host that runs the playbook.")
    return value


def _boolean(path: str, value: t.Any, spec: Spec, errors: list[str]) -> t.Any:
    normal = value.strip().lower() if isinstance(value, str) else value
    if not isinstance(normal, (str, int, float)) or normal not in BOOLEANS:
        errors.append(f"{path}: must be true or false, but is {value!r}.")
        return value
    return boolean(normal)


def _list(path: str, value: t.Any, spec: Spec, errors: list[str]) -> t.Any:
    before = len(errors)
    items = _parsed(path, value, errors)
    if len(errors) > before:
        return value
    if isinstance(items, str) and items in spec.get("choices", ()):
        items = [items]
    if not isinstance(items, (list, tuple)):
        names = isinstance(items, str) and spec.get("elements", "str") != "dict"
        hint = _brackets(items.replace(",", " ").split(), spec.get("choices")) if names else ""
        errors.append(
            f"{path}: must be a list, or YAML or JSON text of one, but is {_kind(value)}.{hint}"
        )
        return value
    element: Spec = {key: spec[key] for key in ("options", "choices") if key in spec}
    element["type"] = spec.get("elements", "str")
    convert = _CONVERT[element["type"]]
    return [convert(f"{path}[{i}]", item, element, errors) for i, item in enumerate(items)]


def _brackets(names: list[str], choices: t.Sequence[str] | None) -> str:
    """How to write a list of these names, each as the choice that it resembles."""
    near = {
        name: match
        for name in names
        if choices and name not in choices
        for match in difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    }
    question = f" Did you mean {', '.join(near.values())}?" if near else ""
    listed = ", ".join(near.get(name, name) for name in names)
    return f"{question} Write it in brackets: [{listed}]."


def _map(path: str, value: t.Any, spec: Spec, errors: list[str]) -> t.Any:
    before = len(errors)
    content = _parsed(path, value, errors)
    if len(errors) > before:
        return value
    suboptions = spec.get("options")
    if not isinstance(content, t.Mapping):
        keys = f" Its keys: {', '.join(suboptions)}." if suboptions else ""
        errors.append(
            f"{path}: must be a map, or YAML or JSON text of one, but is {_kind(value)}.{keys}"
        )
        return value
    if not suboptions:
        return dict(content)
    for key in content:
        if key not in suboptions:
            near = difflib.get_close_matches(str(key), list(suboptions), n=1, cutoff=0.5)
            advice = _did_you_mean(near) or f"Known keys: {', '.join(suboptions)}."
            errors.append(f"{path}: unknown key {key!r}. {advice}")
    read = {
        key: _read(f"{path}.{key}", content.get(key), option, errors)
        for key, option in suboptions.items()
    }
    return {key: item for key, item in read.items() if item is not None}


_CONVERT: dict[str, t.Callable[[str, t.Any, Spec, list[str]], t.Any]] = {
    "bool": _boolean,
    "dict": _map,
    "int": _number,
    "list": _list,
    "path": _file,
    "raw": lambda _path, value, _spec, _errors: value,
    "str": _text,
}


def _parsed(path: str, value: t.Any, errors: list[str]) -> t.Any:
    """The content of YAML or JSON text; anything else as it is. Unreadable text is an error."""
    if not isinstance(value, str):
        return value
    try:
        # the parser refuses the text types of ansible-core, and reads any file
        return load_yaml(io.StringIO(value))
    except InvalidYaml as error:
        errors.append(f"{path}: not valid YAML: {error}.")
        return value


def _kind(value: t.Any) -> str:
    """What a value is, in words, with its beginning."""
    if isinstance(value, str):
        return f"the text {value if len(value) <= 60 else value[:57] + '...'!r}"
    if isinstance(value, t.Mapping):
        return "a map"
    if isinstance(value, (list, tuple)):
        return "a list"
    return repr(value)


def _nearest(name: str, prefix: str, known: t.Iterable[str], cutoff: float) -> list[str]:
    """At most two known names that resemble this one. Prefixes do not count."""
    short = {full.removeprefix(prefix).removeprefix(_PREFIX): full for full in known}
    matches = difflib.get_close_matches(name.removeprefix(prefix), list(short), n=2, cutoff=cutoff)
    return [short[match] for match in matches]


def _with_prefix(name: str, known: t.Container[str]) -> str | None:
    """The known name that differs from this one by a typing error in the prefix alone."""
    first, _underscore, rest = name.partition("_")
    meant = f"{_PREFIX}{rest}"
    alike = meant in known and difflib.get_close_matches(f"{first}_", [_PREFIX], cutoff=0.8)
    return meant if alike else None


def _did_you_mean(near: t.Sequence[str]) -> str:
    return f"Did you mean {' or '.join(near)}?" if near else ""
