# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are the options of an import valid, and what do they hold?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.findings import InputError
from ..model.input import InputReader, shown
from ..model.json_pointer import JSON
from ..scheduler.labels import is_dns_label, is_label_key, is_label_value, is_subdomain
from .export import inventory_name
from .vm_names import DISPLAY_NAME, ORIGINAL_ID, TargetVm

_LONGEST_PREFIX = 253
_LONGEST_LABEL = 63

FAIL, LEAVE_OUT, EXPECT = "fail", "leave_out", "expect"
"""What to do where the cluster lacks a VM of a rule."""


@dataclass(frozen=True, slots=True)
class NodesOfGroup:
    """What a host group becomes: `nodes` that get a label, or a label `key` with `values` that nodes have already."""

    nodes: tuple[str, ...] = ()
    key: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """`vms` and `nodes` None: what the cluster has is not known. `missing_vms` is FAIL, LEAVE_OUT or EXPECT."""

    namespace: str = "default"
    label_prefix: str = "drs.placement.virt"
    vms: tuple[TargetVm, ...] | None = None
    vm_names: t.Mapping[str, tuple[str, str]] | None = None
    nodes: tuple[str, ...] | None = None
    host_names: t.Mapping[str, str] | None = None
    host_groups: t.Mapping[str, NodesOfGroup] | None = None
    leaders: tuple[str, ...] = ()
    skip_rules: tuple[str, ...] = ()
    enable_rules: tuple[str, ...] = ()
    missing_vms: str = FAIL


def read_import_options(params: t.Mapping[str, JSON], faults: list[InputError]) -> ImportOptions:
    """The options of the module; what is wrong with them is added to `faults`."""
    namespace = params["namespace"].strip()
    if len(namespace) > _LONGEST_LABEL or not is_dns_label(namespace):
        text = f"must be the name of a namespace, such as shop, not {shown(params['namespace'])}"
        faults.append(InputError("namespace", text))
    prefix = params["label_prefix"].strip()
    if len(prefix) > _LONGEST_PREFIX or not is_subdomain(prefix):
        faults.append(
            InputError("label_prefix", f"must be a DNS name such as example.com, not {prefix!r}")
        )
    return ImportOptions(
        namespace=namespace,
        label_prefix=prefix,
        vms=None if params["vms"] is None else _vms(params["vms"], namespace, faults),
        vm_names=_vm_names(params["vm_names"], namespace, faults),
        nodes=None if params["nodes"] is None else _nodes(params["nodes"], faults),
        host_names=_host_names(params["host_names"], faults),
        host_groups=_host_groups(params["host_groups"], faults),
        leaders=tuple(params["leaders"]),
        skip_rules=tuple(params["skip_rules"]),
        enable_rules=tuple(params["enable_rules"]),
        missing_vms=params["missing_vms"],
    )


def _vms(items: t.Sequence[JSON], namespace: str, faults: list[InputError]) -> tuple[TargetVm, ...]:
    """VirtualMachine objects as the API returns them, or maps of their names."""
    vms: list[TargetVm] = []
    for index, item in enumerate(items):
        reader = InputReader(f"vms[{index}]", faults)
        if not isinstance(item, dict):
            reader.error("must be a VirtualMachine, or a map with name and namespace")
            continue
        metadata = item.get("metadata")
        if isinstance(metadata, dict):
            annotations = metadata.get("annotations") or {}
            given = {
                "name": metadata.get("name"),
                "namespace": metadata.get("namespace", namespace),
                "display_name": annotations.get(DISPLAY_NAME),
                "original_id": annotations.get(ORIGINAL_ID),
            }
        else:
            given = reader.mapping(item, ("name", "namespace", "display_name", "original_id")) or {}
        name = reader.at("name").text(given.get("name"))
        if name:
            vms.append(
                TargetVm(
                    str(given.get("namespace") or namespace),
                    name,
                    inventory_name(str(given.get("display_name") or "")),
                    str(given.get("original_id") or ""),
                )
            )
    return tuple(dict.fromkeys(vms))


def _nodes(items: t.Sequence[JSON], faults: list[InputError]) -> tuple[str, ...]:
    """Names, or Node objects as the API returns them."""
    names = []
    for index, item in enumerate(items):
        metadata = item.get("metadata") if isinstance(item, dict) else None
        value = metadata.get("name") if isinstance(metadata, dict) else item
        names.append(InputReader(f"nodes[{index}]", faults).text(value))
    return tuple(dict.fromkeys(name for name in names if name))


def _vm_names(
    table: t.Mapping[str, JSON], namespace: str, faults: list[InputError]
) -> dict[str, tuple[str, str]]:
    """`name` or `namespace/name` by the name or MoRef in vCenter."""
    names = {}
    for source, value in table.items():
        reader = InputReader(f"vm_names.{source}", faults)
        text = reader.text(value)
        if text is None:
            continue
        own, slash, name = text.rpartition("/")
        if not name or "/" in own or (slash and not own):
            reader.error(f"must be a name, or namespace/name, not {text!r}")
            continue
        names[str(source)] = (own or namespace, name)
    return names


def _host_names(table: t.Mapping[str, JSON], faults: list[InputError]) -> dict[str, str]:
    read = {
        str(host): InputReader(f"host_names.{host}", faults).text(node)
        for host, node in table.items()
    }
    return {host: node for host, node in read.items() if node}


def _host_groups(table: t.Mapping[str, JSON], faults: list[InputError]) -> dict[str, NodesOfGroup]:
    groups = {}
    for group, value in table.items():
        reader = InputReader(f"host_groups.{group}", faults)
        read = _nodes_of_group(reader, value)
        if read is not None:
            groups[str(group)] = read
    return groups


def _nodes_of_group(reader: InputReader, value: JSON) -> NodesOfGroup | None:
    """A list of nodes, `{nodes}` or `{labels}`."""
    if not isinstance(value, dict):
        names = reader.texts(value)
        if names == ():
            reader.error("is an empty list: name the nodes of the group")
        return NodesOfGroup(names) if names else None
    given = reader.mapping(value, ("nodes", "labels"))
    if given is None:
        return None
    if len(given) != 1:
        reader.error("takes one of nodes and labels")
        return None
    if "nodes" in given:
        return _nodes_of_group(reader.at("nodes"), given["nodes"] or [])
    labels, inner = given["labels"], reader.at("labels")
    if not isinstance(labels, dict) or len(labels) != 1:
        inner.error("must be a map of one label key, or topology name, to its value or values")
        return None
    ((key, values),) = labels.items()
    texts = inner.at(str(key)).texts(values)
    if not is_label_key(str(key)) or not texts or not all(map(is_label_value, texts)):
        inner.error(f"{key!r} and its values must be valid as a label of nodes")
        return None
    return NodesOfGroup(key=str(key), values=texts)
