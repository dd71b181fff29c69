# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the API of AWX 24.6.1, as awx.awx and ansible-rulebook use it. No AWX can run in the tests.

It refuses what AWX refuses, and also fields that AWX would silently ignore. Sources: awx/api/serializers.py,
awx/api/views (JobTemplateSurveySpec), awx/main/models/unified_jobs.py.
"""

from __future__ import annotations

import json
import re
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from tests.conftest import CHECKOUT

Object = dict[str, t.Any]

PROJECT = CHECKOUT / "docs" / "examples" / "controller-project"
"""The files that a user copies into the project of AWX."""

ASK = ("limit", "variables", "tags", "skip_tags", "inventory", "scm_branch", "labels")
NOTIFIED = ("started", "success", "error", "approvals")
FIELDS: dict[str, set[str]] = {
    "organizations": {"name", "description"},
    "execution_environments": {"name", "description", "organization", "image", "pull"},
    "credential_types": {"name", "kind"},
    "credentials": {"name", "description", "organization", "credential_type", "inputs"},
    "projects": {
        *("name", "description", "organization", "scm_type", "scm_url", "scm_branch"),
        *("credential", "scm_update_on_launch", "allow_override"),
    },
    "inventories": {"name", "description", "organization", "kind", "host_filter", "variables"},
    "hosts": {"name", "description", "inventory", "enabled", "variables"},
    "groups": {"name", "description", "inventory", "variables"},
    "notification_templates": {
        *("name", "description", "organization", "notification_type"),
        "notification_configuration",
    },
    "job_templates": {
        *("name", "description", "organization", "job_type", "inventory", "project", "playbook"),
        *("extra_vars", "execution_environment", "survey_enabled", "diff_mode", "limit"),
        *("allow_simultaneous", "timeout", *(f"ask_{name}_on_launch" for name in ASK)),
    },
    "workflow_job_templates": {
        *("name", "description", "organization", "survey_enabled", "allow_simultaneous", "limit"),
        *("extra_vars", *(f"ask_{name}_on_launch" for name in ASK)),
    },
    "workflow_job_template_nodes": {
        *("identifier", "workflow_job_template", "unified_job_template", "extra_data", "type"),
    },
    "workflow_approval_templates": {"name", "description", "timeout"},
    "schedules": {"name", "description", "unified_job_template", "rrule", "extra_data", "enabled"},
}
REQUIRED: dict[str, set[str]] = {
    "execution_environments": {"name", "image"},
    "credentials": {"name", "credential_type"},
    "inventories": {"name", "organization"},
    "hosts": {"name", "inventory"},
    "groups": {"name", "inventory"},
    "notification_templates": {"name", "organization", "notification_type"},
    "job_templates": {"name", "project", "playbook"},
    "workflow_job_template_nodes": {"identifier", "workflow_job_template"},
    "schedules": {"name", "unified_job_template", "rrule"},
}
UNIQUE: dict[str, tuple[str, ...]] = {
    "credentials": ("name", "organization", "credential_type"),
    "hosts": ("name", "inventory"),
    "groups": ("name", "inventory"),
    "workflow_job_template_nodes": ("identifier", "workflow_job_template"),
    "schedules": ("name", "unified_job_template"),
}
LINKS: dict[str, dict[str, str]] = {
    "job_templates": {"credentials": "credentials"},
    "groups": {"hosts": "hosts"},
    "workflow_job_template_nodes": {
        f"{name}_nodes": "workflow_job_template_nodes" for name in ("success", "failure", "always")
    },
}
for _templates in ("job_templates", "workflow_job_templates", "projects"):
    for _name in NOTIFIED:
        LINKS.setdefault(_templates, {})[f"notification_templates_{_name}"] = (
            "notification_templates"
        )
REFERENCES = {
    "organization": "organizations",
    "credential_type": "credential_types",
    "credential": "credentials",
    "project": "projects",
    "inventory": "inventories",
    "execution_environment": "execution_environments",
    "workflow_job_template": "workflow_job_templates",
}
UNIFIED = ("projects", "job_templates", "workflow_job_templates")
SECRETS = ("bearer_token", "password")
QUESTION_TYPES = (
    *("text", "textarea", "password", "integer", "float"),
    *("multiplechoice", "multiselect"),
)


class Refused(Exception):
    """An answer other than success: its status and its content."""

    def __init__(self, status: int, content: t.Any) -> None:
        super().__init__(f"{status} {content}")
        self.status, self.content = status, content


class Controller:
    """An empty controller with the organization Default. `playbooks`: the files of each project."""

    def __init__(self, token: str, playbooks: t.Collection[str]) -> None:
        self.token, self.playbooks = token, playbooks
        self.objects: dict[str, dict[int, Object]] = {name: {} for name in FIELDS}
        self.surveys: dict[tuple[str, int], Object] = {}
        self.links: dict[tuple[str, int, str], list[int]] = {}
        self.writes: list[str] = []
        self.launched: list[tuple[str, Object]] = []
        self._next = 1
        self.add("organizations", name="Default")
        self.add("credential_types", name="OpenShift or Kubernetes API Bearer Token")
        handler = type("Handler", (_Handler,), {"controller": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Controller:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, collection: str, **fields: t.Any) -> Object:
        created = {"id": self._next, **fields}
        self.objects[collection][self._next] = created
        self._next += 1
        return created

    def named(self, collection: str, name: str) -> Object:
        (found,) = (x for x in self.objects[collection].values() if x.get("name") == name)
        return found

    def answer(self, method: str, path: str, query: Object, body: Object) -> tuple[int, t.Any]:
        """Status and content of the answer. Raises Refused."""
        if not path.startswith("/api/v2/") or not path.endswith("/"):
            raise Refused(404, {"detail": "Not found."})
        if method != "GET":
            self.writes.append(f"{method} {path}")
        match path.removeprefix("/api/v2/").strip("/").split("/"):
            case ["me"]:
                return 200, {"count": 1, "next": None, "results": [{"id": 1, "username": "admin"}]}
            case ["config"] if method == "GET":
                return 200, {"version": "24.6.1"}
            case ["jobs"] if method == "GET":
                end = {"status": "successful", "created": "2026-01-01T00:00:00Z", "artifacts": {}}
                ended = [{"id": int(x), **end} for x in query["id__in"].split(",")]
                return 200, {"count": len(ended), "next": None, "results": ended}
            case ["job_templates", number, "launch"] if method == "POST":
                return 201, self._launch(self.objects["job_templates"][int(number)], body)
            case ["unified_job_templates"] if method == "GET":
                return 200, self._listed(
                    [(x, y) for x in UNIFIED for y in self.objects[x].values()], query
                )
            case ["project_updates", _number] if method == "GET":
                return 200, {"id": 1, "status": "successful", "finished": "now", "failed": False}
            case [name] if name in FIELDS:
                if method == "GET":
                    return 200, self._listed(
                        [(name, x) for x in self.objects[name].values()], query
                    )
                return 201, self._create(name, body)
            case [name, number] if name in FIELDS and int(number) in self.objects[name]:
                if method == "PATCH":
                    self._update(name, int(number), body)
                return 200, self._shown(name, self.objects[name][int(number)])
            case [name, number, "survey_spec"] if name in UNIFIED[1:]:
                if method == "POST":
                    refuse_survey(body)
                    self.surveys[name, int(number)] = body
                return 200, self.surveys.get((name, int(number)), {})
            case ["workflow_job_template_nodes", number, "create_approval_template"]:
                created = self._create("workflow_approval_templates", body)
                self.objects["workflow_job_template_nodes"][int(number)]["approval"] = created["id"]
                return 201, created
            case [name, number, link] if link in LINKS.get(name, {}):
                return self._linked(method, (name, int(number), link), body)
        raise Refused(404, {"detail": "Not found."})

    def _launch(self, template: Object, body: Object) -> Object:
        """As JobTemplateLaunch. AWX would ignore a limit and variables for which the template does not ask."""
        spec = self.surveys.get(("job_templates", template["id"]), {"spec": []})["spec"]
        questions = {question["variable"]: question for question in spec}
        answers: Object = body.get("extra_vars", {})
        answers.pop("ansible_eda", None)  # ansible-rulebook adds it, and AWX ignores it
        for name in sorted(set(answers) - set(questions)):
            raise Refused(400, {"extra_vars": [f"{name} is in no survey."]})
        for name, question in questions.items():
            if name not in answers and question["required"]:
                raise Refused(400, {"variables_needed_to_start": [f"'{name}' value missing"]})
            if name in answers and (fault := answer_fault(question, answers[name])):
                raise Refused(400, {"variables_needed_to_start": [f"{name}: {fault}"]})
        if "limit" in body and not template.get("ask_limit_on_launch"):
            raise Refused(400, {"limit": ["Field is not configured to prompt on launch."]})
        self.launched.append((template["name"], body))
        return {"id": len(self.launched), "url": f"/api/v2/jobs/{len(self.launched)}/"}

    def _listed(self, found: list[tuple[str, Object]], query: Object) -> Object:
        for key, wanted in query.items():
            if key in ("page_size",):
                continue
            field, _double, how = key.partition("__")
            if (field, how) == ("organization", "name"):
                organizations = self.objects["organizations"]
                found = [
                    (c, x) for c, x in found if organizations[x["organization"]]["name"] == wanted
                ]
                continue
            if field not in {"id", "type", *(f for c, _x in found for f in FIELDS[c])} and found:
                raise Refused(400, {"detail": f"Invalid filter {key}"})
            values = wanted.split(",") if how == "in" else [wanted]
            found = [
                (c, x)
                for c, x in found
                if (value := c.removesuffix("s") if field == "type" else str(x.get(field)))
                in values
                or (how == "startswith" and value.startswith(wanted))
            ]
        shown = [self._shown(collection, x) for collection, x in found]
        return {"count": len(shown), "next": None, "previous": None, "results": shown}

    def _shown(self, collection: str, item: Object) -> Object:
        """An object as the API shows it: with its links, and without secrets."""
        url = f"/api/v2/{collection}/{item['id']}/"
        related = {name: f"{url}{name}/" for name in ("survey_spec", *LINKS.get(collection, {}))}
        if item.get("approval"):
            related["unified_job_template"] = (
                f"/api/v2/workflow_approval_templates/{item['approval']}/"
            )
        summary: Object = {}
        if item.get("organization"):
            owner = self.objects["organizations"][item["organization"]]
            summary["organization"] = {"id": owner["id"], "name": owner["name"]}
        if collection in UNIFIED[1:]:
            related["launch"] = f"{url}launch/"
            item = {**{f"ask_{name}_on_launch": False for name in ASK}, **item}
        shown = {**item, "type": collection.removesuffix("s"), "url": url, "related": related}
        if collection == "projects":
            shown["scm_revision"] = "5c5cc1d"
            summary["current_update"] = {"id": 1}
        if inputs := item.get("inputs"):
            shown["inputs"] = {k: "$encrypted$" if k in SECRETS else v for k, v in inputs.items()}
        return {**shown, "summary_fields": summary}

    def _create(self, collection: str, body: Object) -> Object:
        if missing := sorted(REQUIRED.get(collection, {"name"}) - set(body)):
            raise Refused(400, {name: ["This field is required."] for name in missing})
        self._refuse(collection, body)
        keys = UNIQUE.get(collection, ("name", "organization"))
        for other in self.objects[collection].values():
            if all(other.get(key) == body.get(key) for key in keys):
                raise Refused(400, {"__all__": [f"{collection} with these {keys} exist."]})
        return self._shown(
            collection, self.add(collection, **self._with_defaults(collection, body))
        )

    def _update(self, collection: str, number: int, body: Object) -> None:
        item = self.objects[collection][number]
        self._refuse(
            collection, {**{k: v for k, v in item.items() if k in FIELDS[collection]}, **body}
        )
        item.update(body)

    def _with_defaults(self, collection: str, body: Object) -> Object:
        if collection == "notification_templates":
            assert body["notification_type"] == "webhook"
            defaults = {"http_method": "POST", "disable_ssl_verification": False}
            more = {"username": "", "password": "", "headers": {}}
            return {
                **body,
                "notification_configuration": {
                    **defaults,
                    **more,
                    **body["notification_configuration"],
                },
            }
        return {key: value for key, value in body.items() if key != "type"}

    def _refuse(self, collection: str, body: Object) -> None:
        """Raises Refused where a field is unknown, has a wrong value or refers to nothing."""
        if unknown := sorted(set(body) - FIELDS[collection]):
            raise Refused(400, {name: ["AWX ignores this field."] for name in unknown})
        for field, wanted in REFERENCES.items():
            if body.get(field) is not None and body[field] not in self.objects[wanted]:
                raise Refused(400, {field: [f"Invalid pk {body[field]!r}: object does not exist."]})
        for field in ("extra_vars", "variables"):
            if field in body and not isinstance(json.loads(body[field] or "{}"), dict):
                raise Refused(400, {field: ["Must be a map."]})
        if len(body.get("name", "")) > 512:
            raise Refused(400, {"name": ["Ensure this field has no more than 512 characters."]})
        if collection == "job_templates" and body["playbook"] not in self.playbooks:
            raise Refused(400, {"playbook": ["Playbook not found for project."]})
        if collection == "job_templates" and not body.get("inventory"):
            raise Refused(400, {"inventory": ["Set a default value or ask to prompt on launch."]})
        if collection == "schedules":
            refuse_rrule(body["rrule"])
            self._refuse_schedule(body)

    def _refuse_schedule(self, body: Object) -> None:
        for name in UNIFIED[1:]:
            for question in self.surveys.get((name, body["unified_job_template"]), {}).get(
                "spec", []
            ):
                given = body.get("extra_data") or {}
                if question["required"] and question["variable"] not in given:
                    raise Refused(400, {"variables_needed_to_start": [question["variable"]]})

    def _linked(self, method: str, key: tuple[str, int, str], body: Object) -> tuple[int, t.Any]:
        collection = LINKS[key[0]][key[2]]
        linked = self.links.setdefault(key, [])
        if method == "GET":
            shown = [self._shown(collection, self.objects[collection][x]) for x in linked]
            return 200, {"count": len(shown), "next": None, "results": shown}
        if body.get("id") not in self.objects[collection]:
            raise Refused(400, {"msg": f"{body} is not found"})
        if body.get("disassociate"):
            linked.remove(body["id"])
        else:
            kinds = [
                self.objects[collection][x].get("credential_type") for x in (*linked, body["id"])
            ]
            if collection == "credentials" and len(set(kinds)) < len(kinds):
                raise Refused(400, {"error": "Cannot assign multiple credentials of one type."})
            linked.append(body["id"])
        return 204, None


def refuse_survey(spec: Object) -> None:
    """As JobTemplateSurveySpec._validate_spec_data."""
    for key, kind in (("name", str), ("description", str), ("spec", list)):
        if not isinstance(spec.get(key), kind):
            raise Refused(
                400, {"error": f"'{key}' missing from survey spec, or no {kind.__name__}."}
            )
    variables = [question.get("variable") for question in spec["spec"]]
    if not variables or len(set(variables)) < len(variables):
        raise Refused(400, {"error": "'spec' doesn't contain any items, or a 'variable' twice."})
    for index, question in enumerate(spec["spec"]):
        if fault := _question_fault(question):
            raise Refused(400, {"error": f"survey question {index}: {fault}"})


def _question_fault(question: Object) -> str:
    known = {"type", "question_name", "variable", "required", "question_description"}
    for key in ("type", "question_name", "variable", "required"):
        if key not in question:
            return f"{key!r} missing"
    if unknown := set(question) - known - {"default", "choices", "min", "max", "new_question"}:
        return f"unknown {unknown}"
    if not isinstance(question["required"], bool):
        return "'required' must be a boolean"
    if not isinstance(question["question_name"], str) or not isinstance(question["variable"], str):
        return "'question_name' and 'variable' must be texts"
    if question["type"] not in QUESTION_TYPES or re.search(r"\s", question["variable"]):
        return f"{question['type']!r} or the variable is invalid"
    if any(not isinstance(question.get(key, 0), int) for key in ("min", "max")):
        return "'min' and 'max' must be integers"
    choices: t.Any = question.get("choices", [])
    choices = choices.splitlines() if isinstance(choices, str) else choices
    several = question["type"] in ("multiplechoice", "multiselect")
    if several and (not choices or not all(isinstance(choice, str) for choice in choices)):
        return "'choices' must be a list of texts, or a text"
    if "default" in question:
        default: t.Any = question["default"]
        wanted: type = {"integer": int, "float": float}.get(question["type"], str)
        if not isinstance(default, wanted) or isinstance(default, bool):
            return f"the default {default!r} must be {wanted.__name__}"
        lines = str(default).splitlines() if question["type"] == "multiselect" else [default]
        if several and [line for line in lines if line and line not in choices]:
            return "a default that is no choice"
    return ""


def answer_fault(question: Object, answer: t.Any) -> str:
    """As SurveyJobTemplateMixin._survey_element_validation."""
    if question["type"] in ("text", "textarea") and not isinstance(answer, str):
        return f"{answer!r} expected to be a string."
    if question["type"] == "multiselect" and not isinstance(answer, list):
        return f"{answer!r} is expected to be a list."
    for value in answer if isinstance(answer, list) else [answer]:
        if value not in question.get("choices", [value]):
            return f"{value!r} expected to be one of {question['choices']}."
    return ""


def refuse_rrule(rule: str) -> None:
    """As the serializers of schedules: a start with a time zone, and an interval."""
    if not re.match(r"DTSTART(;TZID=[A-Za-z_/]+:\d{8}T\d{6}|:\d{8}T\d{6}Z)\s", rule):
        raise Refused(400, {"rrule": ["DTSTART required, with a time zone."]})
    if "RRULE:" not in rule or "INTERVAL=" not in rule:
        raise Refused(400, {"rrule": ["RRULE and INTERVAL required."]})


class _Handler(BaseHTTPRequestHandler):
    controller: Controller
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or "{}")
        url = urlsplit(self.path)
        if self.headers.get("Authorization") != f"Bearer {self.controller.token}":
            status, content = 401, {"detail": "Authentication credentials were not provided."}
        else:
            try:
                query = dict(parse_qsl(url.query, keep_blank_values=True))
                status, content = self.controller.answer(self.command, url.path, query, body)
            except Refused as refused:
                status, content = refused.status, refused.content
        data = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-API-Product-Name", "AWX")
        self.send_header("X-API-Product-Version", "24.6.1")
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

    def log_message(self, format: str, *args: t.Any) -> None:
        """Prints nothing."""
