# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPU model do the options of cpu_model give to which VMs, and which of these VMs are there?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.findings import InputError
from ..model.input import InputReader, shown
from ..model.json_pointer import JSON
from ..model.kinds import VIRTUAL_MACHINE
from ..model.objects import Ref
from ..model.rule import WorkloadSelector
from ..view.selection import WorkloadLookup, workload
from ..view.view import ClusterView

VM = VIRTUAL_MACHINE.name


@dataclass(frozen=True)
class ModelRequest:
    """Each entry: where it stands in the options, the VMs, and their model; empty for the cluster's."""

    entries: tuple[tuple[str, WorkloadSelector, str], ...]

    @property
    def namespaces(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(selector.namespace for _where, selector, _model in self.entries))

    @property
    def models(self) -> frozenset[str]:
        return frozenset(model for _where, _selector, model in self.entries)

    def look_up(self, view: ClusterView, faults: list[InputError]) -> dict[Ref, str]:
        """The model of each VM. What is not there is added to `faults`."""
        found: dict[Ref, str] = {}
        lookup = WorkloadLookup(view, faults)
        for where, selector, model in self.entries:
            if not lookup.check_namespace(selector.namespace, where):
                continue
            known = len(faults)
            refs = lookup.select(selector, where)
            if not refs and len(faults) == known:
                labels = ",".join(f"{k}={v}" for k, v in sorted((selector.labels or {}).items()))
                text = f"no {VM} in namespace {selector.namespace!r} has {labels}"
                faults.append(InputError(where, text))
            found.update(dict.fromkeys(refs, model))
        return found


def model_request(
    params: t.Mapping[str, JSON],
) -> tuple[ModelRequest, tuple[InputError, ...]]:
    """The request, and every error of the options. With errors the request has the entries without one."""
    faults: list[InputError] = []
    entries = []
    for name, model in (params["models"] or {}).items():
        reader = InputReader("models", faults).at(str(name))
        selector, wanted = _vm(reader, str(name)), _model(reader, model)
        if selector is not None and wanted is not None:
            entries.append((reader.where, selector, wanted))
    vms = params["vms"]
    if vms is not None and not vms:
        faults.append(InputError("vms", "names no VM"))
    for index, item in enumerate(vms or ()):
        reader = InputReader("vms", faults).item(index)
        if (selector := _vm(reader, item)) is not None:
            entries.append((reader.where, selector, params["model"].strip()))
    if params["models"] is not None and not params["models"]:
        faults.append(InputError("models", "names no VM"))
    return ModelRequest(tuple(entries)), tuple(faults)


def _vm(reader: InputReader, item: JSON) -> WorkloadSelector | None:
    """`namespace/name`, or a map of namespace and one of name, names and labels."""
    if not isinstance(item, str):
        return workload(reader, item, None, (VM,))
    namespace, slash, name = item.strip().partition("/")
    if not (namespace and slash and name) or "/" in name:
        reader.error(f"must be the namespace/name of a VM, not {shown(item)}")
        return None
    return WorkloadSelector(VM, namespace, (name,))


def _model(reader: InputReader, model: JSON) -> str | None:
    if model is None:
        return ""
    if not isinstance(model, str):
        reader.error(f"must be the name of a CPU model, not {shown(model)}")
        return None
    return model.strip()
