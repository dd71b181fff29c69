# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a kind of workload? One value has all that the collection knows of it; each kind has a file of its own."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

Json = t.Any
Spec = t.Mapping[str, Json]
"""The spec of an object."""
Path = tuple[str, ...]
"""Leads from an object to a part of it."""


@dataclass(frozen=True, slots=True)
class RolloutRoom:
    """How a controller replaces instances in its own rollout.

    `surge`: how many more than wanted may exist at a time. `unavailable`: how many fewer may run.
    `stops_first`: all old ones end before the first new one is created.
    """

    surge: int
    unavailable: int
    stops_first: bool = False


def one_by_one(spec: Spec, replicas: int) -> RolloutRoom:
    """One instance is unavailable, or as many as updateStrategy.rollingUpdate.maxUnavailable has (kubernetes
    stateful_set_utils.go, getStatefulSetMaxUnavailable)."""
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    return RolloutRoom(0, max(1, share_of(rolling.get("maxUnavailable") or 1, replicas, up=False)))


def no_partition(_spec: Spec) -> int:
    """The controller of a kind without ordinals keeps none on the previous revision."""
    return 0


def share_of(value: Json, of: int, *, up: bool) -> int:
    """`value` as a number of instances: a number, or a percentage of `of` (None: the default of a rollout)."""
    text = "25%" if value is None else str(value)
    if not text.endswith("%"):
        return int(text)
    hundredfold = int(text[:-1]) * of
    return -(-hundredfold // 100) if up else hundredfold // 100


@dataclass(frozen=True)
class UpdateStrategy:
    """The `spec.updateStrategy` of a kind, under which its controller replaces instances after a change of the
    template, or none. `replacing` is the name of the strategy that does, also where none is set; `held` that of the
    one that a hold sets. The name is the value of `type` (`typed`), or the key of the only member."""

    replacing: str
    held: str
    typed: bool

    def name(self, strategy: Json) -> str:
        """The name of a strategy as an object has it."""
        given = strategy if isinstance(strategy, dict) else {}
        if self.typed:
            return str(given.get("type") or self.replacing)
        return next((name for name, value in given.items() if value is not None), self.replacing)

    @property
    def set_aside(self) -> Json:
        """The strategy that a hold sets."""
        return {"type": self.held} if self.typed else {self.held: {}}


@dataclass(frozen=True)
class Kind:
    """One kind of workload.

    `template` leads from the object to its pod-like template, the mapping that holds
    `metadata.labels` and the `spec` with the placement fields.
    """

    name: str
    group_version: str
    plural: str
    virtual_machines: bool
    """Its instances are VMIs, not plain pods."""
    template: Path = ("spec", "template")
    selected: Path = ("spec", "template", "metadata", "labels")
    """The labels of what it makes, which its selector (spec.selector) has to match; empty where it has none."""
    older_groups: tuple[str, ...] = ()
    """API groups in which files may still have it."""
    makes: str = ""
    """The kind of the objects between it and its instances: VMs, or else one for each revision of its template."""
    takes_rules: bool = True
    """Rules are written to its template, and its instances are moved; False: the kind is only read."""
    run_strategy: bool = False
    """It has one instance, of its own name, and spec.runStrategy tells whether that runs."""
    has_vm: bool = False
    """Its instances are those of VirtualMachines, which KubeVirt restarts on request (virt-api, rest/lifecycle.go)."""
    per_node: bool = False
    """It has a pod on each node, which a drain leaves there."""
    deadline: bool = False
    """Its controller reports a rollout that makes no progress (progressDeadlineSeconds)."""
    ordinals: bool = False
    """Its replicas have numbers, each with claims of its own."""
    partition: t.Callable[[Spec], int] = no_partition
    """How many replicas, from the first, stay on the revision before the present template."""
    workload_rollout: bool = False
    """A write to the template starts a rollout by the kind's own controller."""
    room: t.Callable[[Spec, int], RolloutRoom] = one_by_one
    """How that rollout replaces this many instances, by the spec of the object."""
    older_versions: tuple[str, ...] = ()
    """Versions of the group with the same fields, the newest first, that older releases serve instead."""
    update_strategy: UpdateStrategy | None = None
    """How the strategy of that rollout is given, which a hold sets aside; None where there is none to set aside."""
    refused_by_events: bool = False
    """Its controller reports a pod that the API server refuses in an event FailedCreate alone, not in a condition
    (kubernetes pkg/controller/statefulset/stateful_pod_control.go, pkg/controller/daemon/daemon_controller.go)."""
    revision_label: str = ""
    """The label of its pods that has their revision, where that rollout may run more of them than wanted, old ones
    beside new (spec.strategy.rollingUpdate.maxSurge). Empty where it runs no more."""
    keeps_names: bool = False
    """An instance that is ended is replaced by one of the same name; False: its successor has any name."""

    @property
    def scales(self) -> bool:
        """spec.replicas is the wanted number of instances."""
        return not self.run_strategy and not self.per_node

    @property
    def replaces_pods(self) -> bool:
        """Each of its pods that is ended has a successor, wherever that finds a node."""
        return self.takes_rules and not self.virtual_machines

    @property
    def makes_vms(self) -> bool:
        """It makes VirtualMachines, and writes its template into them."""
        return self.has_vm and bool(self.makes)

    def strategy_name(self, spec: Spec) -> str | None:
        """The name of the update strategy, set or by default; None where the kind has none."""
        strategy = self.update_strategy
        return strategy.name(spec.get("updateStrategy")) if strategy is not None else None

    @property
    def replaces_step_by_step(self) -> bool:
        """After a change of the template its instances are replaced within the room of a rollout: by its controller, or
        its pods by the moves of a rollout of ours."""
        return self.workload_rollout or self.replaces_pods

    def waits_for_deletion(self, spec: Spec) -> bool:
        """Whether its controller replaces no instance after a change of the template: it never does, or not with this
        strategy."""
        if not self.workload_rollout:
            return True
        strategy = self.update_strategy
        return strategy is not None and self.strategy_name(spec) != strategy.replacing

    def is_held(self, spec: Spec) -> bool:
        """Whether the strategy is the one that a hold sets."""
        strategy = self.update_strategy
        return strategy is not None and self.strategy_name(spec) == strategy.held

    @property
    def group(self) -> str:
        """Its API group."""
        return self.group_version.partition("/")[0]

    def path(self, namespace: str, name: str, version: str = "") -> str:
        """The API path of one object; in one of the older versions if that is the `version` (`group/version`)."""
        older = version in [f"{self.group}/{other}" for other in self.older_versions]
        group_version = version if older else self.group_version
        return f"/apis/{group_version}/namespaces/{namespace}/{self.plural}/{name}"
