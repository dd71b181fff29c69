# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published systems, rebuilt with the collection's playbooks on the sandbox and asserted."""
