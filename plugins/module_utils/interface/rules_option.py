# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option `rules` as data: a list, or the text of one."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.yaml import HAS_YAML, yaml_load

from ..model.finding import Fault, Refused
from ..model.pointer import JSON


def rules_data(value: JSON) -> JSON:
    """`value`, or what its YAML or JSON says: surveys deliver text. Raises Refused."""
    if not isinstance(value, str):
        return value
    if not HAS_YAML:
        raise Refused([Fault("rules", "is text, and PyYAML is missing that would read it")])
    load: t.Callable[[str], JSON] = yaml_load
    try:
        return load(value)
    except Exception as error:  # the parser's own classes are not part of ansible-core's interface
        raise Refused([Fault("rules", f"is text that is no YAML: {error}")]) from error
