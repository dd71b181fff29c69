# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module says of check mode, diff mode, idempotence and action groups."""

from __future__ import annotations


class ModuleDocFragment:
    # A module adds support (and details) for each of check_mode, diff_mode and idempotent,
    # or extends attributes.info as well.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Predicts in check mode what a real run changes, and changes nothing.
  diff_mode:
    description: Returns in diff mode what changed, or in check mode what would change, as before and after.
  idempotent:
    description: A second run with the same options writes nothing, unless the objects were changed in between.
"""

    # For modules that reach a cluster; together with the fragment above.
    CLUSTER = r"""
options: {}
attributes:
  action_group:
    description:
      - Use C(group/virt.placement.all) in C(module_defaults) to set defaults for all modules of this collection.
      - Use C(group/virt.placement.auth) for authentication, which reaches the modules of C(kubernetes.core) too.
    support: full
    membership:
      - virt.placement.all
      - virt.placement.auth
"""

    # For modules that only read; together with the first fragment.
    INFO = r"""
options: {}
attributes:
  check_mode:
    support: full
    details: The module reads only.
  diff_mode:
    support: N/A
    details: The module reads only.
  idempotent:
    support: full
    details: The module reads only.
"""
