# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option `rules` as data: a list, or the text of one."""

from __future__ import annotations

from ..api.yaml_text import NoReader, NoYaml, load_yaml
from ..model.finding import Fault, Refused
from ..model.pointer import JSON


def rules_data(value: JSON) -> JSON:
    """`value`, or what its YAML or JSON says: surveys deliver text. Raises Refused."""
    if not isinstance(value, str):
        return value
    try:
        return load_yaml(value)
    except NoReader as error:
        raise Refused([Fault("rules", f"is text, and {error}")]) from error
    except NoYaml as error:
        raise Refused([Fault("rules", f"is text that is no YAML: {error}")]) from error
