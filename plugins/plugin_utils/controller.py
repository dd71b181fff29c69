# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the variables of controller_setup, or with the controller? For the lookup controller_faults."""

from __future__ import annotations

import difflib
import re
import typing as t
from collections import Counter

Values = t.Mapping[str, t.Any]

PREFIX = "placement_controller_"
SETTINGS = (
    "organization",
    "prefix",
    "project_url",
    "project_branch",
    "project_credential",
    "execution_environment",
    "image",
    "clusters",
    "cluster_url",
    "cluster_ca_cert",
    "tokens",
    "credentials",
    "update_secrets",
    "notification_url",
    "maintenance_tasks",
    "topology_keys",
    "choices_credential",
    "verify_rrule",
    "drill_rrule",
    "choices_rrule",
)
"""What a user may set. Each is in playbooks/vars/controller.yml with its default."""

RIGHTS = ("reader", "labeler", "mover", "maintainer")
INTERNAL = ("host", "token", "api", "validate_certs", "surveys", "me", "same")
"""Further variables of the play with the same prefix."""

OBJECTS = {
    "unified_job_templates": ("projects", "templates", "workflows"),
    "inventories": ("inventories",),
    "credentials": ("credentials",),
    "notification_templates": ("notifications",),
}
"""The collections of the API in which awx.awx finds objects by name, with the variables that name them."""

TYPES = {
    "projects": "project",
    "templates": "job_template",
    "workflows": "workflow_job_template",
}
"""The `type` of the objects of these variables in the API. They share one collection."""


_URL = ("https://", "http://")
_USER_OF_URL = re.compile(r"//[^/@\s]*@")
"""A name and a password in a URL. They are in no message."""

_SCHEDULE = re.compile(
    r"DTSTART(;TZID=[^:\s]+:\d{8}T\d{6}|:\d{8}T\d{6}Z)"
    r"(\s+RRULE:(?=\S*FREQ=(YEARLY|MONTHLY|WEEKLY|DAILY|HOURLY|MINUTELY)\b)(?=\S*INTERVAL=\d)\S+)+\s*"
)
"""What AWX takes: `validate_rrule` in awx/api/serializers.py, release 24.6.1. It does not look up the time zone."""


def setting_faults(values: Values, names: t.Iterable[str]) -> list[str]:
    """Everything that is wrong with the settings, before the controller is asked. `names`: all variables."""
    value = {name: values.get(f"{PREFIX}{name}") for name in (*SETTINGS, *INTERNAL)}
    return [
        *_unknown(names),
        *_connection(value),
        *_texts(value),
        *_clusters(value["clusters"]),
        *_tokens(value),
        *_schedules(value),
        *_twice(values),
    ]


def connection_faults(values: Values) -> list[str]:
    """What is wrong with the variables of controller_choices, before the controller is asked."""
    value = {name: values.get(f"{PREFIX}{name}") for name in (*SETTINGS, *INTERNAL)}
    return [*_connection(value), *_names(value)]


def _unknown(names: t.Iterable[str]) -> t.Iterator[str]:
    known = [*SETTINGS, *INTERNAL]
    for name in sorted(names):
        short = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and short not in known:
            near = difflib.get_close_matches(short, SETTINGS, n=1, cutoff=0.6)
            advice = f"Did you mean {PREFIX}{near[0]}?" if near else "docs/awx.md has all of them."
            yield f"{name}: unknown variable of controller_setup. {advice}"


def _connection(value: Values) -> t.Iterator[str]:
    host = value["host"]
    if not host:
        yield "CONTROLLER_HOST: not set. Set this environment variable to the URL of the controller."
    elif not str(host).startswith(_URL):
        yield "CONTROLLER_HOST: is no URL. Write it with https://."
    if not value["token"]:
        yield (
            "CONTROLLER_OAUTH_TOKEN: not set. Create a token with the scope Write on the page of your user (Tokens),"
            " and set this environment variable to it."
        )


def _names(value: Values) -> t.Iterator[str]:
    prefix, keys = value["prefix"], value["topology_keys"]
    if not isinstance(prefix, str) or not prefix.strip() or "," in prefix:
        yield f"{PREFIX}prefix: must be a text without a comma, but is {prefix!r}."
    if not value["organization"]:
        yield f"{PREFIX}organization: must be the name of an organization, but is empty."
    if not isinstance(keys, dict):
        yield f"{PREFIX}topology_keys: must be a map of topology name to label key, but is {_kind(keys)}."


def _texts(value: Values) -> t.Iterator[str]:
    yield from _names(value)
    if not value["project_url"]:
        yield f"{PREFIX}project_url: required. It is the Git URL of your project (docs/awx.md)."
    if value["image"] and value["execution_environment"]:
        yield f"{PREFIX}image and {PREFIX}execution_environment: give one of them."
    for name in ("cluster_url", "notification_url"):
        if value[name] and not str(value[name]).startswith(_URL):
            yield f"{PREFIX}{name}: is no URL. Write it with https://."  # it may have a token
    tasks = value["maintenance_tasks"]
    if tasks and not str(tasks).startswith("/"):
        yield f"{PREFIX}maintenance_tasks: must be an absolute path in the execution environment, but is {tasks!r}."
    if not isinstance(value["credentials"], list):
        yield f"{PREFIX}credentials: must be a list of names, but is {_kind(value['credentials'])}."


def _clusters(clusters: t.Any) -> t.Iterator[str]:
    name = f"{PREFIX}clusters"
    if not isinstance(clusters, list) or _without_name(clusters) is not None:
        where = f"its entry {place + 1}" if (place := _without_name(clusters)) is not None else "it"
        yield f"{name}: must be a list of maps with a name, such as [{{name: prod}}]. Look at {where}."
        return
    if not clusters:
        yield f"{name}: required, such as [{{name: prod, variables: {{placement_cluster_uid: UID}}}}]."
    for cluster in clusters:
        for key in sorted(set(cluster) - {"name", "variables", "description", "enabled"}):
            yield f"{name}: cluster {cluster['name']!r} has the unknown key {key!r}. Known keys: name, variables."
        if not isinstance(cluster.get("variables") or {}, dict):  # they may have a token
            yield (
                f"{name}: the variables of cluster {cluster['name']!r} must be a map, such as"
                " {placement_cluster_uid: UID}."
            )
    for twice in _repeated(cluster["name"] for cluster in clusters):
        yield f"{name}: the name {twice!r} is there twice. One host is one cluster."


def _without_name(clusters: t.Any) -> int | None:
    """The place of the first cluster that is no map with a name. What it is instead may be a token."""
    entries = clusters if isinstance(clusters, list) else ()
    return next(
        (x for x, y in enumerate(entries) if not (isinstance(y, dict) and y.get("name"))), None
    )


def _kind(value: object) -> str:
    """What a value is. Itself it may be a secret."""
    kinds = {
        str: "a text",
        dict: "a map",
        list: "a list",
        bool: "true or false",
        type(None): "null",
    }
    return next((text for kind, text in kinds.items() if isinstance(value, kind)), "a number")


def _tokens(value: Values) -> t.Iterator[str]:
    tokens, name = value["tokens"], f"{PREFIX}tokens"
    if not isinstance(tokens, dict):
        yield f"{name}: must be a map with the keys {', '.join(RIGHTS)}."  # the value may be a token
        return
    if not tokens:
        return
    if unknown := len(set(tokens) - set(RIGHTS)):
        noun = "unknown key" if unknown == 1 else "unknown keys"
        yield f"{name}: {unknown} {noun}. Known keys: {', '.join(RIGHTS)}."  # a key may be a token
    if missing := [right for right in RIGHTS if not tokens.get(right)]:
        yield (
            f"{name}: no token for {', '.join(missing)}. Give each of {', '.join(RIGHTS)} one; the same token may serve"
            " several."
        )
    if isinstance(value["clusters"], list) and len(value["clusters"]) > 1:
        yield (
            f"{name}: tokens become credentials, and a job has one for all its hosts, but {PREFIX}clusters has"
            f" {len(value['clusters'])} clusters. Leave {name} out and put the tokens into host_vars of the project."
        )
    if not value["cluster_url"]:
        yield f"{PREFIX}cluster_url: required with {name}. It is the URL of the API server of the cluster."
    if not str(value["cluster_ca_cert"] or "").lstrip().startswith("-----BEGIN"):
        yield (
            f"{PREFIX}cluster_ca_cert: required with {name}. It is the certificate authority of the cluster as text,"
            " which begins with -----BEGIN CERTIFICATE-----."
        )


def _schedules(value: Values) -> t.Iterator[str]:
    """The schedules are the last that is written: AWX would refuse one after all else."""
    for name in ("verify_rrule", "drill_rrule", "choices_rrule"):
        rule = str(value[name] or "")
        if missing := [word for word in ("DTSTART", "RRULE:", "INTERVAL=") if word not in rule]:
            yield f"{PREFIX}{name}: {rule!r} has no {', '.join(missing)}, which AWX wants."
        elif not _SCHEDULE.fullmatch(rule):
            yield (
                f"{PREFIX}{name}: {rule!r} is no schedule that AWX takes. Write it as DTSTART;TZID=UTC:20260101T030000"
                " RRULE:FREQ=DAILY;INTERVAL=1, with a frequency from MINUTELY to YEARLY."
            )


def _twice(values: Values) -> t.Iterator[str]:
    for collection, variables in OBJECTS.items():
        for name in _repeated(names_of(values, collection)):
            listed = " or ".join(f"controller_{variable}" for variable in variables)
            yield f"{listed}: the name {name!r} is there twice. AWX objects are found by name: rename one."


def names_of(values: Values, collection: str) -> list[str]:
    """The names of the objects of a collection that the variables describe."""
    return [
        item["name"]
        for variable in OBJECTS[collection]
        for item in values.get(f"controller_{variable}") or []
    ]


def kinds_of(values: Values) -> dict[str, dict[str, str]]:
    """The type of each object that the variables describe, by collection and name, where a collection has several."""
    collection = "unified_job_templates"
    types = {
        item["name"]: TYPES[variable]
        for variable in OBJECTS[collection]
        for item in values.get(f"controller_{variable}") or []
    }
    return {collection: types}


def workflow_nodes(workflow: Values) -> list[dict[str, t.Any]]:
    """The nodes of a workflow as the option of awx.awx.workflow_job_template takes them, from the short form of
    infra.aap_configuration. An approval has no template here: a task of its own creates it."""
    organization = {"name": workflow["organization"]}
    nodes = []
    for node in workflow["simplified_workflow_nodes"]:
        name = node.get("unified_job_template") or ""
        template = {"name": name, "type": "job_template", "organization": organization}
        links = {f"{end}_nodes": node.get(f"{end}_nodes") or () for end in ("success", "failure")}
        nodes.append(
            {
                "identifier": node["identifier"],
                "unified_job_template": template if name else {"name": "", "type": ""},
                "related": {
                    end: [{"identifier": other} for other in others]
                    for end, others in links.items()
                    if others
                },
            }
        )
    return nodes


def _repeated(names: t.Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def controller_fault(answer: Values, url: str) -> str | None:
    """What is wrong with the answer of the module `uri` to the question for the user."""
    status, url = answer.get("status"), _USER_OF_URL.sub("//", url)
    if status == 401:
        return (
            f"The controller at {url} refuses CONTROLLER_OAUTH_TOKEN (401). It is wrong or has expired: create a"
            " token with the scope Write."
        )
    if status == 404:
        return (
            f"There is no API of a controller at {url} (404). Check CONTROLLER_HOST. For Automation Platform 2.5 and"
            " later, also set CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX=/api/controller/."
        )
    if status != 200:
        reason = _USER_OF_URL.sub("//", str(answer.get("msg") or f"status {status}"))
        if isinstance(status, int) and status > 0:
            return f"The server at {url} answers: {reason}. Check CONTROLLER_HOST, and whether the controller runs."
        return f"No controller answers at {url}: {reason}. Check CONTROLLER_HOST."
    content = answer.get("json")
    if not isinstance(content, dict) or len(content.get("results") or []) != 1:
        return f"The server at {url} is no controller: it does not name the user of the token. Check CONTROLLER_HOST."
    return None


def answer_fault(answer: Values) -> str | None:
    """What is wrong with an answer of the controller."""
    status, content = answer.get("status"), answer.get("json")
    if status == 200 and isinstance(content, t.Mapping):
        return None
    url = str(answer.get("url") or "the URL of the controller").partition("?")[0]
    url = _USER_OF_URL.sub("//", url)
    if status == 403:
        return f"{url}: the user of CONTROLLER_OAUTH_TOKEN has no right to read it (403)."
    return controller_fault(answer, url)


def created_first(values: Values) -> dict[str, list[str]]:
    """The names of what the playbook creates before the objects of OBJECTS, by collection of the API."""
    variables = {
        "organizations": "controller_organizations",
        "execution_environments": "controller_execution_environments",
    }
    named = {key: [x["name"] for x in values.get(name) or []] for key, name in variables.items()}
    return {collection: names for collection, names in named.items() if names}


def missing_objects(
    answers: t.Iterable[Values], requested: t.Mapping[str, t.Sequence[str]]
) -> list[str]:
    """A line for each collection of which the controller lacks objects that the playbook would create. Objects of
    others cannot be compared before these are there."""
    found = {
        answer["item"]["key"]: {item["name"] for item in answer["json"]["results"]}
        for answer in answers
    }
    lines = []
    for collection, names in requested.items():
        if missing := [name for name in names if name not in found.get(collection, ())]:
            lines.append(f"would create {len(missing)} {collection}: {', '.join(missing)}")
    return lines


def existing_objects(values: Values) -> dict[str, list[str]]:
    """The names of what the user has to create before, by collection of the API."""
    named = [values.get(f"{PREFIX}{name}") for name in ("project_credential", "choices_credential")]
    named += values.get(f"{PREFIX}credentials") or []
    by_collection = {
        "credentials": named,
        "execution_environments": [values.get(f"{PREFIX}execution_environment")],
    }
    unique = {x: list(dict.fromkeys(str(n) for n in y if n)) for x, y in by_collection.items()}
    return {collection: names for collection, names in unique.items() if names}


def name_faults(
    answers: t.Sequence[Values],
    organization: str,
    existing: t.Mapping[str, t.Collection[str]] | None = None,
    kinds: t.Mapping[str, t.Mapping[str, str]] | None = None,
) -> list[str]:
    """A fault for each name that awx.awx would not find exactly once, and what to do, or only what could not be read.
    `answers`: results of a loop over OBJECTS. `existing`: what must be there, in whatever organization. `kinds`: what
    each name is to be (`kinds_of`)."""
    if unread := [fault for answer in answers if (fault := answer_fault(answer))]:
        return unread
    faults = []
    missing = {collection: dict.fromkeys(names) for collection, names in (existing or {}).items()}
    for answer in answers:
        collection = answer["item"]["key"]
        found: dict[str, list[Values]] = {}
        for item in answer["json"]["results"]:
            found.setdefault(item["name"], []).append(item)
        for name, items in found.items():
            if name in missing.get(collection, {}):
                del missing[collection][name]
                if len(items) == 1:
                    continue
            if collection not in OBJECTS:
                continue  # what the playbook may create, and finds by its name alone
            kind = (kinds or {}).get(collection, {}).get(name, "")
            other = any(kind and item.get("type") not in (None, kind) for item in items)
            if [_organization(item) for item in items] != [organization] or other:
                with_kind = other or len(items) > 1
                where = " and ".join(f"once in {_place(item, with_kind)}" for item in items)
                what = f", and is to be a {kind.replace('_', ' ')}" if other else ""
                faults.append(f"{collection}: {name!r} exists {where}{what}.")
    if faults:
        faults.append(
            f"AWX objects are found by name, and these must exist once, in the organization {organization}, or not at"
            f" all. Rename or delete the others, or set {PREFIX}prefix."
        )
    faults += [
        f"{collection}: {name!r} does not exist, or the user of the token may not use it. Create it first."
        for collection, names in missing.items()
        for name in names
    ]
    return faults


def _organization(item: Values) -> str:
    owner = (item.get("summary_fields") or {}).get("organization") or {}
    return str(owner.get("name") or "")


def _place(item: Values, with_kind: bool) -> str:
    """Where the object is, and what it is: objects of different kinds may share name and organization."""
    owner = _organization(item)
    place = f"the organization {owner}" if owner else "no organization"
    kind = str(item.get("type") or "").replace("_", " ")
    return f"{place} ({kind})" if kind and with_kind else place
