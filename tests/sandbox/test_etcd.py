# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the API server keeps objects; that it finds what is written there, `tests.bench.live` shows."""

from __future__ import annotations

import pytest

from sandbox.etcd import storage_key


@pytest.mark.parametrize(
    ("api_version", "kind", "namespace", "key"),
    [
        ("v1", "Pod", "shop", "pods/shop/one"),
        ("v1", "Node", "", "minions/one"),
        ("v1", "PersistentVolume", "", "persistentvolumes/one"),
        ("apps/v1", "Deployment", "shop", "deployments/shop/one"),
        ("kubevirt.io/v1", "VirtualMachine", "shop", "kubevirt.io/virtualmachines/shop/one"),
    ],
)
def test_storage_key(api_version: str, kind: str, namespace: str, key: str) -> None:
    metadata = {"name": "one", **({"namespace": namespace} if namespace else {})}
    entry = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    assert storage_key(entry) == f"/registry/{key}"
