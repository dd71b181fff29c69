# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: forecast_approval
short_description: Compare a forecast with the one that was approved
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - The roles P(virt.placement.placement_apply#role) and P(virt.placement.placement_undo#role) publish their forecast
    through this lookup, and compare it with what an earlier job of the workflow published. Playbooks do not need it.
options:
  _terms:
    description:
      - V(published) for what the role publishes, V(faults) for the comparison, V(unusable) for why no approval of this
        forecast can be used.
    required: true
"""

EXAMPLES = r"""
- name: Show the forecast as an approver sees it
  ansible.builtin.debug:
    msg: "{{ lookup('virt.placement.forecast_approval', 'published') }}"
"""

RETURN = r"""
_raw:
  description:
    - For V(published), a map of host to rule set to forecast, with the forecasts of earlier jobs.
    - For V(faults), a map with the key V(faults), a list of what is not covered by the approval, each with C(code),
      C(text) and C(rules), the names of the rules that it is about.
    - For V(unusable), a map with the key V(reasons), an empty list where the forecast can be approved.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import templated
from ansible_collections.virt.placement.plugins.plugin_utils.approval.forecast import (
    approval_faults,
    rule_set_of,
    summary_of,
    why_unusable,
)


class LookupModule(LookupBase):
    """The lookup plugin virt.placement.forecast_approval."""

    def run(
        self, terms: list[str], variables: t.Mapping[str, t.Any] | None = None, **kwargs: t.Any
    ) -> list[dict[str, t.Any]]:
        self._known = variables or {}
        (question,) = terms
        host = str(self._value("inventory_hostname"))
        options = self._value("__placement_apply_options")
        earlier = self._value("placement_forecast")
        summary = None
        if options["forecast"]:
            summary = summary_of(self._value("placement_apply_forecast_result"), options)
        if question == "published":
            published = dict(earlier) if isinstance(earlier, t.Mapping) else {}
            forecasts = published.get(host)
            forecasts = dict(forecasts) if isinstance(forecasts, t.Mapping) else {}
            if not why_unusable(summary):
                forecasts[rule_set_of(options)] = summary
            return [{**published, host: forecasts}]
        if question == "unusable":
            return [{"reasons": why_unusable(summary)}]
        if question == "faults":
            role = str(self._value("__placement_apply_role"))
            uncovered = approval_faults(earlier, summary, options, host, role)
            return [{"faults": [x._asdict() for x in uncovered]}]
        raise AnsibleLookupError(f"forecast_approval has no question {question}")

    def _value(self, name: str) -> t.Any:
        return templated(self, self._known[name]) if name in self._known else None
