# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tanzu Kubernetes Grid on vSphere: replicas on different ESXi hosts, although the nodes are VMs that share hosts."""
