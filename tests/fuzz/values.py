# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, labels, numbers and texts that the API server accepts, and JSON that was changed."""

from __future__ import annotations

import json
import math
import typing as t

from hypothesis import strategies as st

from .cluster import CREATED_BY, HOSTNAME, OTHERS, TENANT, ZONE

PREFIX = "placement.virt/"

Draw = t.Callable[[st.SearchStrategy[t.Any]], t.Any]

names = st.one_of(
    st.sampled_from(["web0", "web1", "db0", "cache", "set0", "pool0", "x", "web0.example"]),
    st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True),
    st.just("a" * 63),
)
label_values = st.one_of(
    st.sampled_from(
        [
            "",
            "true",
            "false",
            "migrate",
            "refuse",
            "web",
            "web0",
            "cache",
            "virt-launcher",
            "h1",
            f"virtualmachineinstance-{OTHERS}-web0",
            f"virtualmachineinstance-{TENANT}-web0",
            "a",
            "9" * 63,
            "-1"[1:],
        ]
    ),
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,6}[A-Za-z0-9])?", fullmatch=True),
)
label_keys = st.one_of(
    st.sampled_from(
        [
            "app",
            "vm",
            CREATED_BY,
            "kubevirt.io",
            "kubevirt.io/nodeName",
            "kubevirt.io/migrationJobUID",
            "kubevirt.io/vm-pool-revision-name",
            "vm.kubevirt.io/name",
            "vmi.kubevirt.io/id",
            "pod-template-hash",
            "controller-revision-hash",
            "performance",
            ZONE,
            HOSTNAME,
            f"{PREFIX}do-not-move",
            f"{PREFIX}vm-policy",
            f"{PREFIX}run",
            f"{PREFIX}group-0123456789",
            "kubernetes.io/metadata.name",
            "argocd.argoproj.io/instance",
        ]
    ),
    st.from_regex(r"([a-z]{1,4}\.[a-z]{2}/)?[A-Za-z0-9]{1,5}", fullmatch=True),
)
labels = st.dictionaries(label_keys, label_values, max_size=4)
FORGED = "TASK [forged]"
texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "",
            "null",
            "[]",
            "{}",
            "[" * 100_000,
            '{"a":' * 50_000,
            "{" * 40 + "}" * 40,
            '{"version":1}',
            '{"version":1e999}',
            '{"version":NaN}',
            '{"version":1,"rules":{"a/b/\\ud800":[]}}',
            "1" * 6000,
            "{{ lookup('pipe', 'id') }}",
            f"\x1b[2J\r\n{FORGED} ok",
            f"x\n{FORGED} \u202e\x9b2J",
            "x" * 200_000,
        ]
    ),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["..", "../../nodes/w1", "a/b/c", "VirtualMachine/x/y", "1" * 5000, 1e308, "\ud800"]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
quantities = st.sampled_from(
    ["0", "1", "100m", "1Gi", "1e3", "1E", "9223372036854775807", "999999999E", "1e1000000", "0.1n"]
)
counts = st.sampled_from([0, 1, 2, 3, 50, 10_000, 2**31 - 1])


def mutated(draw: Draw, value: t.Any) -> t.Any:
    """JSON with one value at some depth replaced, removed or doubled."""
    if isinstance(value, dict) and value:
        key = draw(st.sampled_from(sorted(value)))
        how = draw(st.sampled_from(["inner", "inner", "remove", "replace", "rename"]))
        rest = {name: inner for name, inner in value.items() if name != key}
        if how == "inner":
            return {**rest, key: mutated(draw, value[key])}
        if how == "remove":
            return rest
        if how == "replace":
            return {**rest, key: draw(values)}
        return {**rest, draw(st.text(max_size=8)): value[key]}
    if isinstance(value, list) and value:
        place = draw(st.integers(0, len(value) - 1))
        how = draw(st.sampled_from(["inner", "remove", "double"]))
        if how == "inner":
            return [*value[:place], mutated(draw, value[place]), *value[place + 1 :]]
        if how == "remove":
            return [*value[:place], *value[place + 1 :]]
        return [*value, value[place]]
    return draw(values)


def storable(value: t.Any) -> t.Any:
    """What the API server would have kept of it: finite numbers and whole characters."""
    if isinstance(value, dict):
        return {storable(key): storable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return list(map(storable, value))
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return 0.0 if isinstance(value, float) and not math.isfinite(value) else value


def mutated_text(draw: Draw, text: str) -> str:
    """The text of an annotation, in which JSON was changed; or other text."""
    if not text or draw(st.integers(0, 3)) == 0:
        return t.cast(str, draw(texts))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return t.cast(str, draw(texts))
    for _time in range(draw(st.integers(1, 2))):
        value = mutated(draw, value)
    return json.dumps(value)
