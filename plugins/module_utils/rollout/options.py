# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are the options of a rollout valid, and which workloads do they select?

All faults are reported at once. Pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..compliance.instances import InstanceSelection
from ..kinds.registry import KINDS, OPTIONAL_LISTS, kind_of
from ..kinds.vmi import VMI
from ..kubevirt.instances import instances
from ..kubevirt.moving import chooses_target
from ..model.findings import InputError, InvalidInput
from ..model.input import InputReader, nearest
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.plan import Method
from ..model.rule import WorkloadSelector
from ..model.snapshot import Snapshot, unreadable_errors
from ..model.topology import Topology
from ..moves.run_options import RunOptions, request_digest
from ..moves.run_plan import PLANNED_OPTIONS, RunPlan
from ..planning.plan_request import Scope
from ..view import selection as references
from ..view.selection import WorkloadLookup
from ..view.view import view_of
from .registry import PLANNERS

if t.TYPE_CHECKING:
    from ..moves.window import Window

Places = t.Mapping[Ref, str]
"""VMIs to the nodes that they are to run on."""

FLAGS = ("pin_target_zone", "apply_pending_changes", "fail_on_skipped", "require_rights")
MAY_BE_ZERO = (
    "max_parallel",
    "canary",
    "soak",
    "max_moves",
    "failures_allowed",
)
POSITIVE = ("max_unavailable", "run_timeout", "move_timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions(RunOptions):
    """The options of one rollout. `namespaces` is None where the workloads are named instead. `only`, if given, leaves
    out other workloads of `namespaces`. `planned`: the options that a plan fixes, as they were given. `approved`: the
    plan that is to be made. `places`: the nodes that VMIs are to run on; then nothing else moves."""

    namespaces: tuple[str, ...] | None
    workloads: tuple[WorkloadSelector, ...]
    only: frozenset[Ref] | None
    scope: Scope
    allow: frozenset[Method]
    pin_target_zone: bool
    apply_pending_changes: bool
    planned: t.Mapping[str, JSON] = field(default_factory=dict)
    approved: RunPlan | None = None
    places: Places | None = None


def parse_options(
    given: t.Mapping[str, JSON], topology: Topology, approved: RunPlan | None = None
) -> RolloutOptions:
    """Raises InvalidInput with every fault. `approved`: the plan that `given` has its options from."""
    faults: list[InputError] = []
    places = _places(given, faults)
    namespaces, workloads = _what(given, faults) if places is None else (None, ())
    only = _only(given["only"], namespaces, faults) if places is None else None
    window: Window | None = None
    if given["window"]:
        from ..moves.window import parse_window

        window, wrong = parse_window(given["window"])
        faults += wrong
    faults += _too_low(given)
    if faults:
        raise InvalidInput(faults)
    allow = frozenset(map(Method, given["allow"]))
    request = [namespaces, list(map(str, workloads)), given["scope"], sorted(allow)]
    request += [] if only is None else [sorted(only)]
    request += [] if approved is None else [approved.as_json()["checksum"]]
    request += [] if places is None else [sorted(map(str, places.items()))]
    return RolloutOptions(
        namespaces=namespaces,
        workloads=workloads,
        only=only,
        scope=given["scope"],
        moves_once=given["scope"] == "all",
        allow=allow,
        request=request_digest(request),
        window=window,
        topology=topology,
        planned={name: given.get(name) for name in PLANNED_OPTIONS},
        approved=approved,
        places=places,
        **{name: given[name] for name in (*MAY_BE_ZERO, *POSITIVE, *FLAGS)},
    )


def _too_low(given: t.Mapping[str, JSON]) -> t.Iterator[InputError]:
    least = {**dict.fromkeys(MAY_BE_ZERO, 0), **dict.fromkeys(POSITIVE, 1)}
    for name, number in least.items():
        if given[name] < number:
            yield InputError(name, f"must be at least {number}, not {given[name]}")


def _what(
    given: t.Mapping[str, JSON], faults: list[InputError]
) -> tuple[tuple[str, ...] | None, tuple[WorkloadSelector, ...]]:
    named, listed = given["namespaces"], given["workloads"]
    if named is None and listed is None:
        faults.append(
            InputError("namespaces, workloads", "one of them is required: what may be moved?")
        )
        return None, ()
    namespaces = InputReader("namespaces", faults).texts(named) if named is not None else None
    if listed is None:
        return namespaces, ()
    default = namespaces[0] if namespaces is not None and len(namespaces) == 1 else None
    selectors = references.workloads(InputReader("workloads", faults), listed, default)
    return None, tuple(selector for selector in selectors if selector is not None)


NOT_WITH_PLACES: t.Mapping[str, JSON] = {
    "namespaces": None,
    "workloads": None,
    "only": None,
    "scope": "violated",
    "allow": ["migrate"],
    "pin_target_zone": False,
}
"""Options that `places` decides by itself, with their defaults."""


def _places(given: t.Mapping[str, JSON], faults: list[InputError]) -> Places | None:
    """The option `places`: VMs as namespace/name, each with its node."""
    listed = given["places"]
    if listed is None:
        return None
    if "places" not in PLANNERS:
        faults.append(InputError("places", "cannot be planned by this installation"))
    for name, default in NOT_WITH_PLACES.items():
        if given[name] != default:
            text = "places names the VMs that move, each by live migration to its node: leave this option out"
            faults.append(InputError(name, text))
    places = {}
    for key, value in listed.items():
        place = InputReader("places", faults).at(str(key))
        node = place.text(value)
        namespace, slash, name = str(key).partition("/")
        if not (namespace and slash and name) or "/" in name:
            place.error("must be the namespace and the name of a VM, such as shop/db1")
        elif node is not None:
            places[Ref(VMI, namespace, name)] = node
    return places


def _only(
    listed: t.Sequence[JSON] | None, namespaces: tuple[str, ...] | None, faults: list[InputError]
) -> frozenset[Ref] | None:
    if listed is None:
        return None
    if namespaces is None:
        faults.append(InputError("only", "leaves workloads of `namespaces` out: give that, too"))
    refs = set()
    for index, item in enumerate(listed):
        place = InputReader("only", faults).item(index)
        given = place.mapping(item, Ref._fields) or {}
        kind, namespace, name = (place.at(key).text(given.get(key)) for key in Ref._fields)
        if kind is not None and kind not in KINDS:
            place.at("kind").error(f"unknown kind {kind!r}{nearest(kind, KINDS)}")
        refs.add(Ref(kind or "", namespace or "", name or ""))
    return frozenset(refs)


def namespaces_of(options: RolloutOptions) -> tuple[str, ...]:
    """The namespaces whose workloads have to be read."""
    if options.places is not None:
        return tuple(dict.fromkeys(ref.namespace for ref in options.places))
    if options.namespaces is not None:
        return options.namespaces
    return tuple(dict.fromkeys(selector.namespace for selector in options.workloads))


def wanted(options: RolloutOptions, snapshot: Snapshot) -> InstanceSelection:
    """Raises InvalidInput for namespaces and workloads that do not exist, and where something that
    is needed could not be read: with an incomplete view nothing may move."""
    faults = unreadable_errors(
        [gap for gap in snapshot.unreadable if gap.resource not in OPTIONAL_LISTS]
    )
    if options.pin_target_zone and not chooses_target(snapshot.platform):
        seen = f"this cluster has {snapshot.platform.kubevirt}: leave the option out"
        faults.append(InputError("pin_target_zone", f"needs KubeVirt 1.6, and {seen}"))
    if options.places is not None:
        return _at_places(options.places, snapshot, faults)
    lookup = WorkloadLookup(view_of(snapshot), faults)
    for namespace in namespaces_of(options) if not faults and options.only is None else ():
        lookup.check_namespace(namespace, "namespaces")
    refs: set[Ref] = set()
    for index, selector in enumerate(options.workloads):
        plural = KINDS[selector.kind].plural
        if snapshot.why_unreadable(plural, selector.namespace) is None:  # a fault above already
            refs.update(lookup.select(selector, f"workloads[{index}]"))
    if faults:
        raise InvalidInput(faults)
    if options.only is not None:
        here = options.namespaces or ()
        return InstanceSelection(
            workloads=frozenset(x for x in options.only if x.namespace in here)
        )
    if options.namespaces is not None:
        return InstanceSelection(namespaces=frozenset(options.namespaces))
    return InstanceSelection(workloads=frozenset(refs))


def _at_places(places: Places, snapshot: Snapshot, faults: list[InputError]) -> InstanceSelection:
    """The workloads of these VMIs. VMs that do not exist are named in the plan."""
    if not chooses_target(snapshot.platform):
        faults.append(
            InputError(
                "places",
                f"needs KubeVirt 1.6, and this cluster has {snapshot.platform.kubevirt}, where no migration can be held"
                " to a node. Nothing was moved. Write a rule run_on with this node for the VM instead, roll it out,"
                " and remove the rule",
            )
        )
    if faults:
        raise InvalidInput(faults)
    refs = {ref.vm for ref in places}
    for instance in instances(snapshot, {ref.namespace for ref in places}):
        workload = instance.workload
        if instance.ref in places and workload is not None and not kind_of(workload.kind).makes_vms:
            refs.add(workload)
    return InstanceSelection(workloads=frozenset(refs))
