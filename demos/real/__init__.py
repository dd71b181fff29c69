# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of KubeVirt's article on three real nodes in two zones, with guests that count while they are migrated."""
