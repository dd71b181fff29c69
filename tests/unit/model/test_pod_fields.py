# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of a pod spec that may matter for its node, and that no filter reads."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.model.pod_fields import (
    READ,
    WITHOUT_EFFECT,
    unmodeled_fields,
)


def test_fields_that_no_filter_reads_are_named() -> None:
    known = dict.fromkeys((*READ, *WITHOUT_EFFECT), ())
    assert unmodeled_fields(known) == ()
    assert unmodeled_fields({"containers": [], "resourceClaims": [{"name": "gpu"}]}) == (
        "resourceClaims",
    )
    assert unmodeled_fields({"resourceClaims": None}) == (), "an empty field asks for nothing"


def test_disks_that_a_pod_names_without_a_claim_are_named() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "iscsi": {"iqn": "x"}}]
    assert unmodeled_fields({"volumes": volumes}) == ("volumes.iscsi",)
