# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VM of the cluster is a VM of the export? By the user's table, by what Forklift left on it, and by its name."""

from __future__ import annotations

import re
import typing as t
from collections import defaultdict
from dataclasses import dataclass

from .export import SourceVm

DISPLAY_NAME = "openshift.io/display-name"
ORIGINAL_ID = "original-ID"
"""Annotations of a VM that Forklift has migrated: its name and MoRef in vCenter."""

_LONGEST = 63
_TO_DASH = re.compile(r"[_+* /\\]")
_DROPPED = re.compile(r"[^a-z0-9-]")


def forklift_name(name: str) -> str:
    """The name that Forklift gives to a VM (kubev2v/forklift, ChangeVmName: a DNS subdomain of at most 63 characters).
    "" where Forklift would make up a name. It adds a random suffix where the name is taken."""
    parts = []
    for part in name.lower().strip(".-").split("."):
        part = _DROPPED.sub("", _TO_DASH.sub("-", part))
        part = "-".join(filter(None, part.split("-")))[:_LONGEST].strip("-")
        if part:
            parts.append(part)
    return ".".join(parts)[:_LONGEST].strip(".-")


@dataclass(frozen=True, slots=True, order=True)
class TargetVm:
    """A VM of the Kubernetes cluster, with what Forklift left on it."""

    namespace: str
    name: str
    display_name: str = ""
    original_id: str = ""

    @property
    def origin(self) -> str:
        """The VM of vCenter, by what Forklift left."""
        name = repr(self.display_name) if self.display_name else ""
        return " ".join(filter(None, (name, self.original_id)))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class FoundVm:
    """`target`, or why there is none: it is `missing` on the cluster, or the answer is not clear (`fault`).
    `is_expected`: it has that name once it is there. `decision`: what annotations had to do with it, which the owner of
    a VM may write."""

    target: TargetVm | None = None
    missing: str = ""
    fault: str = ""
    decision: str = ""
    is_expected: bool = False


class VmNames:
    """Answers for the VMs of one export. `known` None: the VMs of the cluster were not given, and names are what
    Forklift would make of them in `namespace`. With `expects` so are those of VMs that the cluster lacks."""

    def __init__(
        self,
        known: t.Sequence[TargetVm] | None,
        table: t.Mapping[str, tuple[str, str]],
        namespace: str,
        exported: t.Iterable[SourceVm],
        *,
        expects: bool = False,
    ) -> None:
        self._known, self._table, self._namespace = known, table, namespace
        self._expects = expects
        self._found: dict[str, FoundVm] = {}
        self._sources: dict[tuple[str, str], SourceVm] = {}
        self._by_name: dict[str, list[TargetVm]] = defaultdict(list)
        self._by_display_name: dict[str, list[TargetVm]] = defaultdict(list)
        self._by_id: dict[str, list[TargetVm]] = defaultdict(list)
        for target in known or ():
            self._by_name[target.name].append(target)
            self._by_display_name[target.display_name].append(target)
            self._by_id[target.original_id].append(target)
        keys: dict[str, set[str]] = defaultdict(set)
        for vm in exported:
            keys[vm.name].add(vm.key)
        self._twice = {name for name, of_name in keys.items() if name and len(of_name) > 1}

    def find(self, vm: SourceVm) -> FoundVm:
        if vm.key not in self._found:
            self._found[vm.key] = self._once(vm, self._search(vm))
        return self._found[vm.key]

    def _once(self, vm: SourceVm, found: FoundVm) -> FoundVm:
        """A fault where another VM of the export was found to be the same VM of the cluster."""
        if found.target is None:
            return found
        other = self._sources.setdefault((found.target.namespace, found.target.name), vm)
        if other.key == vm.key:
            return found
        return FoundVm(
            fault=f"VM {str(vm)!r} and VM {str(other)!r} would both be {found.target}: name the right ones in"
            " vm_names. Forklift adds a random suffix to a name that is taken"
        )

    def _search(self, vm: SourceVm) -> FoundVm:
        named = self._named(vm)
        marked = self._with_annotations(vm)
        if len(marked) > 1:
            return named or _twice(vm, marked, "by their annotations of Forklift")
        if marked and named and named.target != marked[0]:
            return FoundVm(
                fault=f"vm_names has another VM for {str(vm)!r} than the annotations of Forklift, which are on"
                f" {marked[0]}: correct vm_names"
            )
        if named or marked:
            return named or self._marked(vm, marked[0])
        if not vm.name:
            return FoundVm(
                fault=f"VM {vm.moref} has no name in the files: name it in vm_names, or add the output that has the"
                " names, of govc object.collect -json -type m / name or of community.proxmox.proxmox_vm_info"
            )
        if vm.name in self._twice:
            return FoundVm(
                fault=f"two VMs of the export have the name {vm.name!r}: give their MoRefs in vm_names, here"
                f" {vm.moref}"
            )
        return self._with_name(vm)

    def _named(self, vm: SourceVm) -> FoundVm | None:
        """As the user's table has it; None where it has nothing."""
        key = next((key for key in (vm.moref, vm.name) if key in self._table), "")
        if not key:
            return None
        namespace, name = self._table[key]
        if self._known is None:
            return FoundVm(TargetVm(namespace, name))
        for target in self._by_name[name]:
            if target.namespace == namespace:
                return FoundVm(target)
        if self._expects:
            return FoundVm(TargetVm(namespace, name), is_expected=True)
        return FoundVm(
            missing=f"{namespace}/{name}, which vm_names has for VM {str(vm)!r}, is not on the cluster"
        )

    def _marked(self, vm: SourceVm, marked: TargetVm) -> FoundVm:
        """A VM with this name and without annotations is taken before one with annotations."""
        plain = [x for x in self._by_name[forklift_name(vm.name)] if not x.origin and x != marked]
        if len(plain) > 1:
            return _twice(vm, [*plain, marked], "by name and by annotations")
        if plain:
            text = f"VM {str(vm)!r} is {plain[0]}, by its name. {marked} has that name in its annotations."
            return FoundVm(plain[0], decision=text)
        by_name_alone = not (vm.moref and marked.original_id == vm.moref)
        if by_name_alone and marked.namespace != self._namespace:
            text = f"VM {str(vm)!r} is {marked}, in another namespace, by its annotation {DISPLAY_NAME} alone."
            return FoundVm(marked, decision=text)
        return FoundVm(marked)

    def _with_annotations(self, vm: SourceVm) -> list[TargetVm]:
        """A MoRef is unique in one vCenter only, so that a known name has to agree."""
        by_id = [
            target
            for target in self._by_id[vm.moref]
            if vm.moref and (not vm.name or target.display_name in ("", vm.name))
        ]
        if by_id or not vm.name:
            return by_id
        return [
            target
            for target in self._by_display_name[vm.name]
            if not (vm.moref and target.original_id)
        ]

    def _with_name(self, vm: SourceVm) -> FoundVm:
        name = forklift_name(vm.name)
        if self._known is None:
            if name:
                return FoundVm(TargetVm(self._namespace, name))
            return FoundVm(
                fault=f"VM {vm.name!r} has no character that a name may have: Forklift makes up a name for it; name"
                " it in vm_names"
            )
        # a VM that has come from another VM of vCenter only has the same name
        targets = [
            target
            for target in self._by_name[name]
            if target.display_name in ("", vm.name) and not (vm.moref and target.original_id)
            if not self._expects or target.namespace == self._namespace
        ]
        if len(targets) > 1:
            return _twice(vm, targets, "by their name")
        if targets:
            return FoundVm(targets[0])
        if (
            self._expects
            and name
            and all(x.namespace != self._namespace for x in self._by_name[name])
        ):
            return FoundVm(TargetVm(self._namespace, name), is_expected=True)
        others = "".join(
            f". {target} has this name, but came from VM {target.origin} by its annotations"
            for target in sorted(self._by_name[name])
        )
        return FoundVm(
            missing=f"VM {vm.name!r} is not on the cluster, neither by annotations of Forklift nor with the name"
            f" {name!r}{others}"
        )


def _twice(vm: SourceVm, targets: t.Sequence[TargetVm], how: str) -> FoundVm:
    names = " and ".join(map(str, sorted(targets)))
    return FoundVm(
        fault=f"VM {str(vm)!r} exists twice on the cluster {how}, {names}: name the right one in vm_names"
    )
