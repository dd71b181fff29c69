# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The EKS workshop's lesson on pod affinity and anti-affinity: checkout and its redis, one pair a node."""
