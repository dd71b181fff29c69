# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people are warned of."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.interface.results import (
    warn_once,
    warn_unreadable,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding, sentence
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import NO_RIGHT
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable

A, B, NODE = Ref("Deployment", "shop", "a"), Ref("Deployment", "shop", "b"), Ref("Node", "", "w1")


def warned(*findings: Finding) -> list[str]:
    warnings: list[str] = []
    warn_once(warnings.append, findings)
    return warnings


def test_a_warning_names_the_rule_and_the_objects_of_the_first_of_its_name() -> None:
    found = [
        Finding("unsatisfiable", "error", "It cannot.", "Change it.", (A,), "r0", named=()),
        Finding("unsatisfiable", "error", "Nor this.", "Change it.", (B,)),
        Finding("unprefixed_label_key", "warning", "It is bare.", "Dress it.", (B,), named=()),
        Finding("externally_managed", "info", "It is.", "Nothing."),
    ]

    assert warned(*found) == [
        "rule r0, unsatisfiable (Deployment shop/a): It cannot. Change it. (and 1 more)",
        "unprefixed_label_key (Deployment shop/b): It is bare. Dress it.",
    ]


def test_object_that_the_sentence_names_is_not_named_again() -> None:
    bare = Finding("topology_incomplete", "warning", "w1 takes pods.", "Label it.", (NODE,))

    assert warned(bare) == ["topology_incomplete: w1 takes pods. Label it."]


def test_object_of_another_finding_is_named_beside_the_sentence_of_the_first() -> None:
    of_nodes = [
        Finding("single_domain", "warning", f"{ref} is alone.", "Add one.", (ref,))
        for ref in (A, B)
    ]

    assert sentence(of_nodes[:1]) == "single_domain: Deployment shop/a is alone. Add one."
    assert sentence(of_nodes) == (
        "single_domain (Deployment shop/a, Deployment shop/b): Deployment shop/a is alone. Add one."
    )


def test_all_missing_rights_are_one_warning_with_the_role_that_grants_them() -> None:
    warnings: list[str] = []
    grant = "grant this identity the verb 'list' on '{}'"
    missing = [
        Unreadable(name, "", "list", grant.format(name), "", NO_RIGHT) for name in ("nodes", "pods")
    ]
    in_one = Unreadable("deployments", "shop", "list", grant.format("deployments"), "", NO_RIGHT)

    warn_unreadable(
        warnings.append, [*missing, Unreadable("pools", "", "list", "not served"), in_one]
    )

    assert warnings == [
        "cannot list nodes, list pods in all namespaces, list deployments in namespace shop:"
        " grant this identity the ClusterRole virt-placement-reader (rbac/reader.yml)",
        "cannot list pools in all namespaces: not served",
    ]
