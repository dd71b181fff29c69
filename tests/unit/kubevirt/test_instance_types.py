# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The template of a VM that names an instance type: what virt-api 1.8.4 expanded it to."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instance_types import (
    InstanceType,
    instance_type_from_manifest,
)


def test_all_fields_of_an_instance_type_are_in_the_template() -> None:
    gpu = {"name": "g", "deviceName": "example.com/gpu"}
    made = instance_type_from_manifest(
        {
            "metadata": {"name": "big", "namespace": "shop"},
            "spec": {
                "cpu": {
                    "guest": 4,
                    "dedicatedCPUPlacement": True,
                    "model": "EPYC",
                    "maxSockets": 8,
                },
                "memory": {"guest": "4Gi", "hugepages": {"pageSize": "2Mi"}},
                "gpus": [gpu],
                "ioThreadsPolicy": "shared",
                "nodeSelector": {"zone": "a"},
                "schedulerName": "default-scheduler",
                "annotations": {"alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity": ""},
            },
        }
    )
    assert str(made) == "shop/big"
    assert (made.cpus, made.memory) == (4, 4 * 2**30)
    assert made.template == {
        "metadata": {
            "labels": {},
            "annotations": {"alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity": ""},
        },
        "spec": {
            "domain": {
                "cpu": {
                    "cores": 1,
                    "sockets": 4,
                    "threads": 1,
                    "dedicatedCpuPlacement": True,
                    "model": "EPYC",
                    "maxSockets": 8,
                },
                "memory": {"guest": "4Gi", "hugepages": {"pageSize": "2Mi"}},
                "devices": {"gpus": [gpu]},
                "ioThreadsPolicy": "shared",
            },
            "nodeSelector": {"zone": "a"},
            "schedulerName": "default-scheduler",
        },
    }


def test_overcommitted_memory_is_what_kubevirt_requests_in_32_bits() -> None:
    spec = {"cpu": {"guest": 1}, "memory": {"guest": "3Gi", "overcommitPercent": 15}}
    domain = InstanceType("small", spec=spec).template["spec"]["domain"]
    assert domain["resources"] == {"requests": {"memory": "2738041856"}}
