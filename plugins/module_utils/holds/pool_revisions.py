# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How do the VMIs of a held pool come to count as of its present template, so that KubeVirt restarts none of them?

With its strategy back, the controller of a pool deletes each VMI whose label names a revision of another template, also
if all of that is live by now (KubeVirt 1.8, watch/pool/pool.go, isOutdatedVMI). So a VMI that has the placement of
the present template gets the revision of its VM, if the two revisions differ in nothing else. A VMI that was restarted
has it already.
"""

from __future__ import annotations

import contextlib
import typing as t

from ..api.client import ApiClient
from ..api.errors import Conflict, Invalid, NotFound
from ..kubevirt.labels import POOL_REVISION
from ..kubevirt.moving import lagging_fields
from ..kubevirt.pending_changes import without_empty
from ..kubevirt.pools import (
    VM_CHANGED_BY_OTHERS,
    PoolMember,
    beside_placement,
    changed_by_others,
    lacks_template,
    revision_of,
)
from ..model.json_pointer import JSON, Pointer
from ..model.json_text import shallow
from ..model.kinds import instance_path
from ..model.obstacle import PENDING_CHANGES
from ..model.quantity import parse_quantity
from ..model.snapshot import Vmi, Workload
from ..model.write import Operation, Write

_TEMPLATE = Pointer(("spec", "virtualMachineTemplate"))
_LABEL = Pointer(("metadata", "labels")) / POOL_REVISION


class KeptByRevision(Exception):
    """The strategy must not be given back yet; the message says why, and what to do. `code` is that of an Obstacle,
    `written`: how many VMIs have got their revision before."""

    def __init__(self, code: str, message: str, written: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.written = written


LABELS_SEEN = 5.0
"""Seconds after which virt-controller has seen the labels of VMIs. It watches VMIs and pools apart, and deletes what it
knows with an old label (watch/pool/pool.go, vmiStore in proactiveUpdate)."""


def revision_writes(
    api: ApiClient, pool: Workload, members: t.Sequence[PoolMember]
) -> tuple[Write, ...]:
    """The writes that give each outdated VMI the revision of its VM. Raises KeptByRevision, and ApiError where the
    server does not answer or a right is missing."""
    revisions = _Revisions(api, pool)
    vms = [member.vm for member in members]
    for member in members:
        if changed_by_others(pool, member.vm, vms):
            raise KeptByRevision(
                VM_CHANGED_BY_OTHERS.code,
                f"{member.vm.ref}: {VM_CHANGED_BY_OTHERS}. Run the rollout again",
            )
        if lacks_template(pool, member.vm) or not revisions.is_present(
            revision_of(member.vm.labels)
        ):
            raise KeptByRevision(
                "in_progress",
                f"KubeVirt has not brought its latest template to {member.vm.ref} yet. Run the rollout again",
            )
    outdated = [(x.vm, x.vmi) for x in members if x.vmi is not None and x.outdated]
    for vm, vmi in outdated:
        if vmi.phase != "Running" or lagging_fields(vm, vmi):
            raise KeptByRevision(
                "in_progress",
                f"{vmi.ref} does not run with the present template yet. Run the rollout again",
            )
        revisions.require_placement_only(vm, vmi)
    return tuple(_relabel(vm, vmi) for vm, vmi in outdated)


def write_revisions(api: ApiClient, writes: t.Iterable[Write]) -> None:
    """Send these writes. Raises as `revision_writes` does."""
    for number, write in enumerate(writes):
        try:
            api.patch(write.path, write.patch())
        except (Conflict, Invalid, NotFound):
            raise KeptByRevision(
                "changed", f"{write.target} was changed meanwhile. Run the rollout again", number
            ) from None


class _Revisions:
    """The specs of a pool in its ControllerRevisions, each read once."""

    def __init__(self, api: ApiClient, pool: Workload) -> None:
        self._api = api
        self._pool = pool
        self._specs: dict[str, t.Mapping[str, JSON] | None] = {}

    def is_present(self, name: str) -> bool:
        """Whether a revision has the pool's present template. Its name has the generation of the pool that it was made
        for (getRevisionName)."""
        generation = self._pool.manifest["metadata"].get("generation")
        if name == f"{self._pool.ref.name}-{generation}":
            return True
        spec = self._spec(name)
        if spec is None:
            return False
        wanted = _TEMPLATE.read(self._pool.manifest, None)
        return bool(_comparable(spec.get(_TEMPLATE.parts[-1])) == _comparable(wanted))

    def require_placement_only(self, vm: Workload, vmi: Vmi) -> None:
        """Raises KeptByRevision if a restart of the VMI would bring more than placement, or that is not known."""
        before, now = revision_of(vmi.labels), revision_of(vm.labels)
        old, new = self._made(before), self._made(now)
        restart = f"Restart {vm.ref}, and run the rollout again"
        if old is None or new is None:
            raise KeptByRevision(
                PENDING_CHANGES,
                f"the ControllerRevision {before or 'of its start'} of {vmi.ref} is missing or damaged, so it is"
                f" not known what a restart would bring. {restart}",
            )
        if old != new:
            raise KeptByRevision(
                PENDING_CHANGES,
                f"{vmi.ref} was started from another template ({before}), which differs from the present one in"
                f" more than placement. {restart}",
            )
        was, is_now = self._labels(before), self._labels(now)
        for key in sorted({*was, *is_now}):
            if was.get(key) != is_now.get(key) != vmi.labels.get(key):
                raise KeptByRevision(
                    PENDING_CHANGES,
                    f"the label {key} of {vmi.ref} is not that of the present template, and reaches it by a restart"
                    f" alone. {restart}",
                )

    def _labels(self, name: str) -> t.Mapping[str, JSON]:
        """The labels that a revision gives a VMI."""
        metadata = _mapping(_mapping(self._vm_spec(name).get("template")).get("metadata"))
        return _mapping(metadata.get("labels"))

    def _made(self, name: str) -> JSON:
        """What a revision makes of a VM beside placement; None where it is not known."""
        of_vm = self._vm_spec(name)
        template = of_vm.get("template")
        if not isinstance(template, dict):
            return None
        return {
            "template": beside_placement(template),
            "disks": without_empty(of_vm.get("dataVolumeTemplates")),
        }

    def _vm_spec(self, name: str) -> t.Mapping[str, JSON]:
        """The spec of a VM of a revision, empty where that is not known."""
        return _mapping(_mapping((self._spec(name) or {}).get(_TEMPLATE.parts[-1])).get("spec"))

    def _spec(self, name: str) -> t.Mapping[str, JSON] | None:
        if name not in self._specs:
            self._specs[name] = self._read(name) if name else None
        return self._specs[name]

    def _read(self, name: str) -> t.Mapping[str, JSON] | None:
        try:
            manifest = self._api.get(
                f"/apis/apps/v1/namespaces/{self._pool.ref.namespace}/controllerrevisions/{name}"
            )
        except NotFound:
            return None
        data = shallow(manifest.get("data"))
        sound = isinstance(data, dict) and isinstance(data.get(_TEMPLATE.parts[-1]), dict)
        return data if sound else None


def _comparable(value: JSON) -> JSON:
    """A template as it was written and as virt-controller writes it: without empty values, and with quantities as
    numbers, since Go writes `1024Mi` as `1Gi`."""
    return _with_numbers(without_empty(value))


def _with_numbers(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _with_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_numbers(item) for item in value]
    if isinstance(value, str) and value[:1].isdigit():
        with contextlib.suppress(ValueError):
            return parse_quantity(value)
    return value


def _mapping(value: JSON) -> t.Mapping[str, JSON]:
    return value if isinstance(value, dict) else {}


def _relabel(vm: Workload, vmi: Vmi) -> Write:
    """The write that gives a VMI the revision of its VM."""
    before, now = revision_of(vmi.labels), revision_of(vm.labels)
    return Write(
        target=vmi.ref,
        path=instance_path(vmi.ref),
        uid=vmi.uid,
        tests=(Operation("test", _LABEL, before),),
        operations=(Operation("replace", _LABEL, now),),
        before={"labels": {POOL_REVISION: before}},
        after={"labels": {POOL_REVISION: now}},
    )
