# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: controller_choices
short_description: Surveys of AWX with the names of clusters as choices
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - The playbook C(virt.placement.controller_choices) makes its surveys through this lookup. Other playbooks do not
    need it.
options:
  _terms:
    description:
      - V(names) for what could not be read of the clusters, V(templates) for what is wrong with the templates that the
        controller lists, V(surveys) for the surveys that have to change.
    required: true
"""

EXAMPLES = r"""
- name: Show which surveys would change
  ansible.builtin.debug:
    msg: "{{ lookup('virt.placement.controller_choices', 'surveys').surveys | map(attribute='changes') }}"
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
    surveys:
      description: For V(surveys), the surveys that have to change.
      type: list
      elements: dict
"""

import typing as t

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import templated
from ansible_collections.virt.placement.plugins.plugin_utils.controller import (
    PREFIX,
    answer_fault,
)
from ansible_collections.virt.placement.plugins.plugin_utils.controller_choices import (
    cluster_names,
    new_surveys,
    reading_faults,
    template_faults,
)


class LookupModule(LookupBase):
    """The lookup plugin virt.placement.controller_choices."""

    def run(
        self, terms: list[str], variables: t.Mapping[str, t.Any] | None = None, **kwargs: t.Any
    ) -> list[dict[str, t.Any]]:
        self._known = variables or {}
        (question,) = terms
        if question == "names":
            return [{"faults": reading_faults(self._readings())}]
        if question == "templates":
            listed = self._value("listed")["results"]
            organization, prefix = self._value("organization"), self._value("prefix")
            return [{"faults": template_faults(listed, organization, prefix)}]
        if question == "surveys":
            answers = self._value("surveys_read")["results"]
            if faults := [fault for answer in answers if (fault := answer_fault(answer))]:
                return [{"faults": faults, "surveys": []}]
            surveys = new_surveys(answers, cluster_names(self._readings().values()))
            return [{"faults": [], "surveys": surveys}]
        raise AnsibleLookupError(f"controller_choices has no question {question}")

    def _readings(self) -> dict[str, dict[str, t.Any]]:
        """What the play has read of each host."""
        hosts = self._known["hostvars"]
        names = ("topology", "rules", "namespaces")
        return {
            host: {name: hosts[host][f"{PREFIX}{name}"] for name in names}
            for host in self._known["ansible_play_hosts_all"]
        }

    def _value(self, name: str) -> t.Any:
        return templated(self, self._known[f"{PREFIX}{name}"])
