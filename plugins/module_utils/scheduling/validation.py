# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""API validation of labels, taints and placement fields: asked before anything is written."""

from __future__ import annotations

from .validation_labels import (
    ValidationError,
    validate_label_key,
    validate_label_value,
    validate_labels,
    validate_taints,
)
from .validation_pods import validate_pod_placement

__all__ = [
    "ValidationError",
    "validate_label_key",
    "validate_label_value",
    "validate_labels",
    "validate_pod_placement",
    "validate_taints",
]
