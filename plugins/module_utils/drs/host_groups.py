# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes, or which label of nodes, is a host group of the export?"""

from __future__ import annotations

import re
import typing as t
import unicodedata
from dataclasses import dataclass

from ..model.findings import InputError
from ..model.input import nearest
from ..model.rendering import listed
from .options import ImportOptions

HAS_LABEL = "true"
"""The value of the label of a host group."""

_LONGEST = 63
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_LATIN = re.compile(r"LATIN (SMALL|CAPITAL) (?:LETTER|LIGATURE) ([A-Z]{1,2})(?: WITH .*)?")
"""The name that Unicode has for a letter such as the o with a stroke, which it does not decompose."""


class FreeNames:
    """Names as label values and rules may have them, made of free text, each given once."""

    def __init__(self, otherwise: str) -> None:
        self._otherwise = otherwise
        self._taken: set[str] = set()

    def name(self, text: str, suffix: str = "") -> str:
        """A name like `text`, with a number where another text has become the same name. Letters lose their accents."""
        letters = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("ẞ", "SS"))
        ascii_text = "".join(_letter(c) for c in letters if not unicodedata.combining(c))
        base = _NOT_IN_NAMES.sub("-", ascii_text).strip("-_.") or self._otherwise
        number = 1
        while True:
            end = suffix if number == 1 else f"{suffix}-{number}"
            name = f"{base[: _LONGEST - len(end)].rstrip('-_.')}{end}"
            if name not in self._taken:
                self._taken.add(name)
                return name
            number += 1


def _letter(character: str) -> str:
    """A Latin letter in ASCII; any other character as it is."""
    if character.isascii():
        return character
    latin = _LATIN.fullmatch(unicodedata.name(character, ""))
    if latin is None:
        return character
    return latin[2] if latin[1] == "CAPITAL" else latin[2].lower()


@dataclass(frozen=True, slots=True)
class GroupLabel:
    """The label that the nodes of a host group have: `nodes` get it, or have it already where there are none."""

    key: str
    values: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()
    """Names of hosts or nodes of which the node has another case of letters."""

    def as_rule(self) -> dict[str, t.Any]:
        """The value of run_on or avoid."""
        return {self.key: self.values[0] if len(self.values) == 1 else list(self.values)}


class HostGroups:
    """Answers for the host groups of one cluster, each once, with its faults."""

    def __init__(
        self,
        groups: t.Mapping[str, tuple[str, ...]],
        options: ImportOptions,
        faults: list[InputError],
    ) -> None:
        self._groups, self._options, self._faults = groups, options, faults
        self._names = FreeNames("host-group")
        self._labels: dict[str, GroupLabel | None] = {}
        self._nodes_by_name = {name.lower(): name for name in options.nodes or ()}
        self._table = {
            host.lower(): self._node(node) for host, node in (options.host_names or {}).items()
        }
        hosts = {host.lower(): host for listed in self._groups.values() for host in listed}
        for option, known in (
            ("host_groups", dict(zip(groups, groups, strict=True))),
            ("host_names", hosts),
        ):
            for name in getattr(options, option) or ():
                if (name.lower() if known is hosts else name) not in known:
                    faults.append(
                        InputError(
                            f"{option}.{name}",
                            f"is not in the export{nearest(name, known.values())}",
                        )
                    )

    @property
    def used(self) -> t.Mapping[str, GroupLabel | None]:
        """The groups that were asked for."""
        return self._labels

    def label(self, group: str, where: str) -> GroupLabel | None:
        """None after a fault, which names the first rule that needs the group."""
        if group not in self._labels:
            self._labels[group] = self._search(group, where)
        return self._labels[group]

    def _search(self, group: str, where: str) -> GroupLabel | None:
        known = (self._options.host_groups or {}).get(group)
        if known is not None and known.key:
            return GroupLabel(known.key, known.values)
        if known is not None:
            nodes = tuple(dict.fromkeys(map(self._node, known.nodes)))
        else:
            nodes = self._nodes_of_hosts(group, where)
        unknown = [node for node in nodes if node not in (self._options.nodes or nodes)]
        for node in unknown:
            self._faults.append(
                InputError(
                    f"host_groups.{group}" if known else "host_names",
                    f"node {node!r} is not on the cluster{nearest(node, self._options.nodes or ())}",
                )
            )
        if not nodes or unknown:
            return None
        key = f"{self._options.label_prefix}/{self._names.name(group)}"
        names = known.nodes if known is not None else self._groups[group]
        lowered = [x for x in names if x not in nodes and x.lower() in nodes]
        return GroupLabel(key, (HAS_LABEL,), tuple(nodes), tuple(lowered))

    @property
    def all_nodes(self) -> frozenset[str]:
        """Those of the cluster; empty where they are not known."""
        return frozenset(self._options.nodes or ())

    def nodes(self, group: str) -> frozenset[str] | None:
        """The nodes of a group; a host without a node is there by its own name. None: those with a label that nodes
        have already, so that it is not known which they are."""
        known = (self._options.host_groups or {}).get(group)
        if known is None:
            hosts = self._groups.get(group, ())
            return frozenset(self._node_of_host(host) or host.lower() for host in hosts)
        return None if known.key else frozenset(map(self._node, known.nodes))

    def has_all_nodes(self, group: str) -> bool:
        """Whether the hosts of a group are all nodes of the cluster."""
        nodes = self.nodes(group)
        return bool(self.all_nodes) and nodes is not None and nodes >= self.all_nodes

    def _node(self, name: str) -> str:
        """The node of this name, whatever the case of its letters; all names of nodes are in lower case."""
        return self._nodes_by_name.get(name.lower(), name.lower())

    def _node_of_host(self, host: str) -> str | None:
        """By the table of hosts, else the node of the same name; None where there is none."""
        return self._table.get(host.lower(), self._nodes_by_name.get(host.lower()))

    def _nodes_of_hosts(self, group: str, where: str) -> tuple[str, ...]:
        """Empty after a fault."""
        nodes = {host: self._node_of_host(host) for host in self._groups[group]}
        lacking = [host for host, node in nodes.items() if not node]
        if not lacking:
            return tuple(dict.fromkeys(filter(None, nodes.values())))
        why = "no node has their name" if self._options.nodes is not None else "nodes are not given"
        self._faults.append(
            InputError(
                where,
                f"host group {group!r}: it is not known which nodes its hosts {listed(lacking)} are ({why}). Name the"
                f" nodes in host_groups.{group}, or the node of each host in host_names",
            )
        )
        return ()
