# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: role_options
short_description: Read and check the variables of a role of this collection
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - The roles of this collection read their variables through this lookup. Playbooks do not need it.
  - Converts each variable to the type in the role's C(meta/argument_specs.yml). YAML or JSON text, as surveys of job
    templates deliver it, becomes a list, a map, a number or a boolean. An empty text means that the variable is not
    given.
  - Reports missing and unreadable variables, unknown keys at any depth, and unknown variables that begin with the
    name of a role or resemble a variable of this collection. Other variables are left alone.
options:
  _terms:
    description: Name of one role, without the name of the collection.
    required: true
"""

EXAMPLES = r"""
- name: Show what the role placement_verify reads from its variables
  ansible.builtin.debug:
    msg: "{{ lookup('virt.placement.role_options', 'placement_verify').options }}"
"""

RETURN = r"""
_raw:
  description: One map with the two keys V(options) and V(errors).
  type: list
  elements: dict
  contains:
    options:
      description: Each variable of the role, without the name of the role, as converted or as its default.
      type: dict
    errors:
      description: Everything that is wrong with the variables, one sentence or two each.
      type: list
      elements: str
"""

import functools
import typing as t

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import templated
from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import (
    ROLES,
    role_options,
)


class LookupModule(LookupBase):
    """The lookup plugin virt.placement.role_options."""

    def run(
        self, terms: list[str], variables: t.Mapping[str, t.Any] | None = None, **kwargs: t.Any
    ) -> list[dict[str, t.Any]]:
        (role,) = terms
        if not (ROLES / role / "meta" / "argument_specs.yml").is_file():
            raise AnsibleLookupError(f"virt.placement has no role {role}")
        options, errors = role_options(role, variables or {}, functools.partial(templated, self))
        return [{"options": options, "errors": errors}]
