# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which label keys and values may users give?"""

from __future__ import annotations

from ..model.input import InputReader
from ..model.json_pointer import JSON
from ..model.kinds import PREFIX
from ..scheduler.labels import is_label_key, is_label_value

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
    """Whether a label belongs to KubeVirt or Kubernetes, which may no longer recognize a pod once
    its value changes."""
    prefix, slash, _name = key.rpartition("/")
    if not slash:
        return key in _OF_CONTROLLERS
    kept = any(prefix == reserved or prefix.endswith(f".{reserved}") for reserved in _RESERVED)
    return kept and prefix != _RECOMMENDED


def free_key(notes: InputReader, key: str) -> bool:
    """Whether a rule may put a label with this key on pods; an error is added if not."""
    if not is_reserved(key) and not key.startswith(PREFIX):
        return True
    owner = "virt.placement" if key.startswith(PREFIX) else "KubeVirt and Kubernetes"
    notes.error(
        f"{key!r} is a label of {owner}, whose pods are known by it: use a key of your own, such as"
        " example.com/group"
    )
    return False


def label_key(notes: InputReader, key: str) -> bool:
    """Whether `key` is a valid label key; an error is added if not."""
    if is_label_key(key):
        return True
    notes.error(
        f"{key!r} is not a valid label key: letters, digits, '-', '_' and '.', at most 63, beginning and"
        " ending with a letter or digit, after an optional DNS prefix and a slash"
    )
    return False


def label_value(notes: InputReader, value: JSON) -> str | None:
    """A valid label value that is not empty; None, and an error is added, if it is not."""
    text = notes.text(value)
    if text is None or is_label_value(text):
        return text
    notes.error(
        f"{text!r} is not a valid label value: letters, digits, '-', '_' and '.', at most 63, beginning and"
        " ending with a letter or digit"
    )
    return None


def labels(notes: InputReader, value: JSON) -> dict[str, str] | None:
    """Label keys with their values: at least one."""
    if not isinstance(value, dict):
        notes.error("must be a map of label keys and values")
        return None
    if not value:
        notes.error("is empty: name at least one label, since an empty selector matches every pod")
        return None
    texts = {str(key): label_value(notes.at(str(key)), inner) for key, inner in value.items()}
    valid = [label_key(notes, key) for key in texts]
    kept = {key: text for key, text in texts.items() if text is not None}
    return kept if all(valid) and len(kept) == len(texts) else None
