# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which texts of a cluster may stand in what an administrator loads into Ansible, or pastes into a shell?

Ansible evaluates templates in variables that are given with `-e`, inline or in a file. A tenant has written some of the
texts that are printed, such as the value of a toleration. Names and values of labels hold no
template and no quote. Any other text is marked `!unsafe`, or left out.
"""

from __future__ import annotations

import re
import typing as t

from ansible.module_utils.common.yaml import SafeDumper, yaml_dump

_PLAIN = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?)?", re.ASCII)
_LONGEST = 317
"""Of a label key: a prefix of 253 characters, a slash and a name of 63."""


def is_plain(text: str) -> bool:
    """Whether a text has the characters of a name, or of the key or value of a label, and no others."""
    return len(text) <= _LONGEST and _PLAIN.fullmatch(text) is not None


def has_plain_keys(value: t.Any) -> bool:
    """Whether all keys of maps in the value are plain: a key cannot be marked `!unsafe`."""
    if isinstance(value, dict):
        return all(map(is_plain, map(str, value))) and all(map(has_plain_keys, value.values()))
    return not isinstance(value, list) or all(map(has_plain_keys, value))


def variables_yaml(variables: t.Mapping[str, t.Any]) -> list[str]:
    """The lines of a file with variables, in which Ansible evaluates no text of the cluster."""
    _Dumper.add_representer(
        _Unsafe, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text), style='"')
    )
    text: str = yaml_dump(_marked(variables), Dumper=_Dumper, sort_keys=False)
    return text.splitlines()


class _Unsafe(str):
    __slots__ = ()


class _Dumper(SafeDumper):  # type: ignore[misc]
    """Writes each value in full: an anchor would be one more form to read."""

    def ignore_aliases(self, data: t.Any) -> bool:
        return True


def _marked(value: t.Any) -> t.Any:
    """Plain maps, lists and texts, without the tags of ansible-core 2.19 and later."""
    if isinstance(value, t.Mapping):
        return {str(key): _marked(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_marked(inner) for inner in value]
    if isinstance(value, str):
        return str(value) if is_plain(value) else _Unsafe(value)
    return value
