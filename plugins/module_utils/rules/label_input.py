# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label keys and values as people give them."""

from __future__ import annotations

from ..model.names import PREFIX
from ..model.pointer import JSON
from ..scheduling.syntax import is_label_key, is_label_value
from .values import Notes

_RESERVED = ("kubevirt.io", "kubernetes.io", "k8s.io")
"""Prefixes that KubeVirt and Kubernetes keep for themselves, with every subdomain (Kubernetes:
Well-Known Labels, Annotations and Taints; KubeVirt: api/core/v1/types.go)."""

_RECOMMENDED = "app.kubernetes.io"
"""The one among them that Kubernetes leaves to users (its Recommended Labels)."""

_OF_CONTROLLERS = (
    "kubevirt.io",
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "controller-uid",
    "job-name",
)
"""Keys without a prefix by which controllers know their pods; of a launcher pod that is
`kubevirt.io` (KubeVirt AppLabel)."""


def is_reserved(key: str) -> bool:
    """Whether a label belongs to KubeVirt or Kubernetes, which may take a pod for another, or for
    none of theirs, once its value changes."""
    prefix, slash, _name = key.rpartition("/")
    if not slash:
        return key in _OF_CONTROLLERS
    kept = any(prefix == each or prefix.endswith(f".{each}") for each in _RESERVED)
    return kept and prefix != _RECOMMENDED


def free_key(notes: Notes, key: str) -> bool:
    """Whether a rule may put a label of this key on pods; noted if not."""
    if not is_reserved(key) and not key.startswith(PREFIX):
        return True
    owner = "virt.placement" if key.startswith(PREFIX) else "KubeVirt and Kubernetes"
    notes.fault(
        f"{key!r} is a label of {owner}, whose pods are known by it: use a key of your own, such as"
        " example.com/group"
    )
    return False


def label_key(notes: Notes, key: str) -> bool:
    """Whether Kubernetes takes `key` for the key of a label; noted if not."""
    if is_label_key(key):
        return True
    notes.fault(
        f"{key!r} is no label key: letters, digits, '-', '_' and '.', at most 63, beginning and"
        " ending with a letter or digit, after an optional DNS prefix and a slash"
    )
    return False


def label_value(notes: Notes, value: JSON) -> str | None:
    """A value that is not empty and that Kubernetes takes for the value of a label."""
    text = notes.text(value)
    if text is None or is_label_value(text):
        return text
    notes.fault(
        f"{text!r} is no label value: letters, digits, '-', '_' and '.', at most 63, beginning and"
        " ending with a letter or digit"
    )
    return None
