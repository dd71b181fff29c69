# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes and KubeVirt control plane for tests and demos, as plain processes on loopback.

Only what needs a kernel or a hypervisor is simulated: kubelets (KWOK) and virt-handler.
"""

from __future__ import annotations

from .admin_api import AdminApi, ApiFailure, WaitTimeout
from .sandbox import Sandbox

__all__ = ["AdminApi", "ApiFailure", "Sandbox", "WaitTimeout"]
