# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""KubeVirt's article on advanced scheduling: SQL Server, a cache and blackbox over three zones."""
