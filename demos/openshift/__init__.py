# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab of OpenShift Virtualization: node affinity, pod affinity and pod anti-affinity, on two workers."""
