# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: controller_faults
short_description: Check the variables of the playbooks for AWX, and the controller
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - The playbooks C(virt.placement.controller_setup) and C(virt.placement.controller_choices) check their variables and
    the controller through this lookup before they write. Other playbooks do not need it.
options:
  _terms:
    description:
      - V(settings) for the variables of C(controller_setup), V(connection) for those of C(controller_choices),
        V(controller) for the answer to the first request, V(names) for objects of the same names, V(requested) for
        the names that the playbook asks the controller for, V(missing) for those that it would create.
      - V(nodes), followed by a workflow, for its nodes as the module of workflows takes them.
    required: true
"""

EXAMPLES = r"""
- name: Show what is wrong with the variables of controller_setup
  ansible.builtin.debug:
    msg: "{{ lookup('virt.placement.controller_faults', 'settings').faults }}"
"""

RETURN = r"""
_raw:
  description: One map.
  type: list
  elements: dict
  contains:
    faults:
      description: Everything that is wrong, one sentence or two each.
      type: list
      elements: str
    missing:
      description: For V(missing), a line for each collection of which the controller lacks objects.
      type: list
      elements: str
    nodes:
      description: For V(nodes), the nodes.
      type: list
      elements: dict
    names:
      description: For V(requested), the names to look for in each collection of the API.
      type: dict
"""

import typing as t

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import templated
from ansible_collections.virt.placement.plugins.plugin_utils.controller import (
    INTERNAL,
    OBJECTS,
    PREFIX,
    SETTINGS,
    connection_faults,
    controller_fault,
    created_first,
    existing_objects,
    kinds_of,
    missing_objects,
    name_faults,
    names_of,
    setting_faults,
    workflow_nodes,
)


class LookupModule(LookupBase):
    """The lookup plugin virt.placement.controller_faults."""

    def run(
        self, terms: list[t.Any], variables: t.Mapping[str, t.Any] | None = None, **kwargs: t.Any
    ) -> list[dict[str, t.Any]]:
        self._names = variables or {}
        question, *workflows = terms
        if question == "nodes":
            nodes = [node for workflow in workflows for node in workflow_nodes(workflow)]
            return [{"faults": [], "nodes": nodes}]
        if question == "settings":
            # Lists of objects are made of the settings: they can be read when these are right.
            settings = self._values(*(f"{PREFIX}{name}" for name in (*SETTINGS, *INTERNAL)))
            faults = setting_faults(settings, self._names)
            if not faults:
                faults = setting_faults({**settings, **self._objects()}, self._names)
            return [{"faults": faults}]
        if question == "connection":
            known = self._values(*(f"{PREFIX}{name}" for name in (*SETTINGS, *INTERNAL)))
            return [{"faults": connection_faults(known)}]
        if question == "requested":
            names = self._created()
            for collection, existing in self._existing().items():
                names[collection] = [*names.get(collection, ()), *existing]
            return [{"faults": [], "names": names}]
        settings = self._values(
            *(f"{PREFIX}{name}" for name in ("me", "same", "api", "organization"))
        )
        if question == "controller":
            fault = controller_fault(settings[f"{PREFIX}me"], settings[f"{PREFIX}api"])
            return [{"faults": [fault] if fault else []}]
        if question == "missing":
            answers = settings[f"{PREFIX}same"]["results"]
            return [{"faults": [], "missing": missing_objects(answers, self._created())}]
        if question == "names":
            answers = settings[f"{PREFIX}same"]["results"]
            organization = settings[f"{PREFIX}organization"]
            kinds = kinds_of(self._objects())
            return [{"faults": name_faults(answers, organization, self._existing(), kinds)}]
        raise AnsibleLookupError(f"controller_faults has no question {question}")

    def _values(self, *names: str) -> dict[str, t.Any]:
        return {name: templated(self, self._names[name]) for name in names if name in self._names}

    def _existing(self) -> dict[str, list[str]]:
        credentials = ("project_credential", "choices_credential", "credentials")
        names = (*credentials, "execution_environment")
        return existing_objects(self._values(*(f"{PREFIX}{name}" for name in names)))

    def _created(self) -> dict[str, list[str]]:
        """The names of what the playbook creates, by collection."""
        first = self._values("controller_organizations", "controller_execution_environments")
        objects = self._objects()
        named = {collection: names_of(objects, collection) for collection in OBJECTS}
        return {**created_first(first), **{key: names for key, names in named.items() if names}}

    def _objects(self) -> dict[str, t.Any]:
        return self._values(*(f"controller_{name}" for names in OBJECTS.values() for name in names))
