# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KubeVirt advanced-scheduling article: SQL Server, a cache and blackbox over three zones."""
