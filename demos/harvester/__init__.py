# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pool of guest-cluster VMs on Harvester, one a host. What of Harvester acts on placement is modelled after its
source, and is not Harvester: its webhook on VMs (webhook.py) and its maintenance mode (maintenance_mode.py)."""
