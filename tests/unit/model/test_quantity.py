# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities, and what a pod requests of its node."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.quantity import (
    Container,
    amounts,
    is_scheduled,
    parse_quantity,
    pod_requests,
    whole_units,
)

NANO = 10**9


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", NANO),
        (2, 2 * NANO),
        ("500m", NANO // 2),
        ("0.5", NANO // 2),
        (".5", NANO // 2),
        ("1.", NANO),
        ("1Ki", 1024 * NANO),
        ("1.5Gi", 3 * 2**29 * NANO),
        ("2k", 2000 * NANO),
        ("1e3", 1000 * NANO),
        ("1E", 10**18 * NANO),
        ("1E2", 100 * NANO),
        ("100u", 100_000),
        ("3n", 3),
        ("0.1n", 1),
        ("-1", -NANO),
        ("9223372036854775807", (2**63 - 1) * NANO),
    ],
)
def test_quantity_is_parsed_in_billionths(text: str | int, value: int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "one", "1e", "0x10", "1\n"])
def test_malformed_quantity_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="is no resource quantity"):
        parse_quantity(text)


def test_amounts_are_rounded_up_to_millicores_and_whole_units() -> None:
    assert whole_units("cpu", parse_quantity("1100u")) == 2
    assert whole_units("memory", parse_quantity("1500m")) == 2
    assert amounts({"cpu": "4", "memory": "1Ki", "pods": "110", "disk": "3"}) == {
        "cpu": 4000,
        "memory": 1024,
        "pods": 110,
    }
    assert amounts(None) == {}


def test_scheduled_resources_are_recognized_by_name() -> None:
    scheduled = ("cpu", "ephemeral-storage", "hugepages-2Mi", "devices.kubevirt.io/kvm")
    assert all(map(is_scheduled, scheduled))
    assert not any(map(is_scheduled, ("pods", "storage", "requests.example.com/gpu")))


def test_requests_are_added_before_rounding() -> None:
    halves = [Container({"cpu": "500u"}), Container({"cpu": "500u"})]
    assert pod_requests(halves, (), None, None) == {"cpu": 1}


def test_sidecar_counts_beside_later_init_containers() -> None:
    main = [Container({"cpu": "1"})]
    sidecar, heavy = Container({"cpu": "500m"}, True), Container({"cpu": "2"})
    assert pod_requests(main, [sidecar, heavy], None, None) == {"cpu": 2500}
    assert pod_requests(main, [heavy, sidecar], None, None) == {"cpu": 2000}
    assert pod_requests(main, [sidecar], None, None) == {"cpu": 1500}


def test_pod_level_requests_replace_sums_of_cpu_memory_and_hugepages() -> None:
    containers = [Container({"cpu": "1", "example.com/card": "1"})]
    pod_level = {"cpu": "3", "hugepages-2Mi": "4Mi", "example.com/card": "9"}
    assert pod_requests(containers, (), pod_level, {"cpu": "250m"}) == {
        "cpu": 3250,
        "hugepages-2Mi": 4 * 2**20,
        "example.com/card": 1,
    }


@pytest.mark.parametrize("text", ["1e1000000", "9" * 40, "1e64"])
def test_a_quantity_beyond_the_largest_is_the_largest(text: str) -> None:
    assert parse_quantity(text) == (2**63 - 1) * 10**9


def test_an_endless_number_is_no_quantity() -> None:
    with pytest.raises(ValueError, match="is no resource quantity"):
        parse_quantity("9" * 100_000)
    assert parse_quantity("1e-1000000") == 1
