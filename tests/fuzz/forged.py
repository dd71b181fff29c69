# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Annotations of ours as a tenant would write them: of the right form, with names, numbers and terms that no task
wrote."""

from __future__ import annotations

import json
import typing as t

from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.rules.record import field_digest
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import (
    TemplateTerm,
    TermLocation,
    digest,
)

from .cluster import OTHERS, TENANT, WORKLOADS, Object, Objects, of_kind, template_of
from .values import PREFIX, scalars, storable

FORGED_KEY = "example.com/forged"
"""Key of a toleration that no rule has."""

_TOLERATION = {"key": FORGED_KEY, "operator": "Exists"}
_TOLERATED = str(TemplateTerm(TermLocation.TOLERATION, _TOLERATION).fingerprint)

_rule_ids = st.one_of(
    st.sampled_from(
        [
            f"{OTHERS}/default/web-apart",
            f"{OTHERS}/default/forged",
            f"{TENANT}/default/{{{{ lookup('pipe', 'id') }}}}",
            f"{TENANT}/other/forged",
            f"{TENANT}/a b/c",
            f"{TENANT}/default/a/b",
            f"{TENANT}/default/\u202e",
            f"{TENANT}//",
            "//",
            "kube-system/default/x",
            f"{TENANT}/default/{'x' * 64}",
        ]
    ),
    st.text(max_size=12),
)
_fingerprints = st.lists(
    st.sampled_from([_TOLERATED, "label:ab.cd", "toleration:ab.cd", "spread:ab", "?", ""]),
    max_size=2,
)
_rules_of_a_workload = st.fixed_dictionaries(
    {"terms": _fingerprints},
    optional={
        "declared": st.one_of(
            st.sampled_from(
                [
                    {"terms": {"tolerations": [_TOLERATION]}},
                    {"run_on": {"<b>": "{{ 1 }}"}, "weight": "x"},
                    {
                        "keep_apart": {
                            "topology_key": "zone",
                            "from": {"namespace": "x", "names": "*"},
                        }
                    },
                    {"label": {"example.com/x": "y"}, "preferred": True},
                    {"spread": 3, "avoid": None},
                ]
            ),
            scalars.map(storable),
        ),
        "chosen": st.sampled_from([{"app": "web"}, {"<b>": "x"}, {}, 7]),
        "enabled": st.sampled_from([False, True, "<b>", 0]),
    },
)
_numbers = st.one_of(
    st.sampled_from(["9" * 4299, "9" * 5000, "1e999", "NaN", "-1", "0", "true", "1000000000"]),
    st.integers(-5, 2**70).map(str),
)
_strategies = st.one_of(
    scalars.map(storable),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["RollingUpdate", "Recreate", "OnDelete", "<b>"]),
            "rollingUpdate": st.dictionaries(
                st.sampled_from(["maxSurge", "maxUnavailable", "partition"]),
                st.one_of(st.sampled_from(["9" * 5000, "x%", "200%"]), scalars.map(storable)),
                max_size=2,
            ),
        }
    ),
)


@st.composite
def forged_annotations(draw: t.Any, objects: Objects) -> None:
    item = objects[draw(st.sampled_from(of_kind(objects, *WORKLOADS)))]
    metadata = item["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    make = draw(st.sampled_from([_rules, _rules, _undo, _undo, _hold, _names]))
    metadata["annotations"] = {**annotations, **make(draw, item, annotations)}


def _content(text: str | None, otherwise: Object) -> Object:
    try:
        content = json.loads(text or "")
    except (ValueError, RecursionError):
        return otherwise
    return content if isinstance(content, dict) else otherwise


def _rules(draw: t.Any, item: Object, annotations: Object) -> Object:
    empty = {"version": 1, "uid": item["metadata"]["uid"], "rules": {}, "created": []}
    content = _content(annotations.get(f"{PREFIX}rules"), empty)
    many = draw(st.sampled_from([0, 0, 0, 70]))
    content["rules"] = {
        **(content["rules"] if isinstance(content.get("rules"), dict) else {}),
        **draw(st.dictionaries(_rule_ids, _rules_of_a_workload, max_size=2)),
        **{f"{TENANT}/default/r{number}": {"terms": []} for number in range(many)},
    }
    if draw(st.booleans()):
        content["created"] = [draw(st.sampled_from(["/spec", "spec", "/metadata", "/spec/x", ""]))]
    return {f"{PREFIX}rules": json.dumps(content)}


def _undo(draw: t.Any, item: Object, annotations: Object) -> Object:
    """A record with digests that fit, so that an undo does not take it for one that is out of date."""
    rules = annotations.get(f"{PREFIX}rules")
    record = {
        "version": 1,
        "uid": item["metadata"]["uid"],
        "placement": {"tolerations": [_TOLERATION]},
        "labels": {},
        "rules": _claim(draw, item),
        "change": {"rule_set": f"{TENANT}/default", "number": "N", "request": "f00"},
        "written": {
            "fields": {"tolerations": field_digest(template_of(item)["spec"].get("tolerations"))},
            "labels": {},
            "rules": digest(rules, 12),
        },
        "earlier": {draw(st.sampled_from([f"{OTHERS}/default", "x", f"{TENANT}/o"])): "N"},
    }
    number = draw(st.one_of(st.sampled_from(["1", "2"]), _numbers))
    return {f"{PREFIX}undo": json.dumps(record).replace('"N"', number)}


def _claim(draw: t.Any, item: Object) -> str | None:
    """What the record says of the rules before: no rule of the set has the toleration."""
    rule = draw(
        st.sampled_from(["", f"{OTHERS}/default/x", f"{TENANT}/other/x", "kube-system/a/b"])
    )
    if not rule:
        return None
    content = {"version": 1, "uid": item["metadata"]["uid"], "created": []}
    return json.dumps(
        {**content, "rules": {rule: {"terms": [_TOLERATED], "declared": {"terms": {}}}}}
    )


def _hold(draw: t.Any, _item: Object, _annotations: Object) -> Object:
    record = {
        "phase": draw(st.sampled_from(["held", "released", "x"])),
        "strategy": draw(_strategies),
        "limited": draw(_strategies),
        "updateStrategy": draw(_strategies),
    }
    return {f"{PREFIX}hold": json.dumps(record)}


def _names(draw: t.Any, _item: Object, _annotations: Object) -> Object:
    text = st.sampled_from(
        ["web0", "db0", "@all", "#1", "[a](b)", "a\\|b", "{{ 1 }}", "\u202e", ""]
    )
    return {"openshift.io/display-name": draw(text), "original-ID": draw(text)}
