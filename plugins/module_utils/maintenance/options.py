# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are the options of a maintenance valid, which nodes do they select, and may these be out of service together?

All errors are reported at once. Pure.
"""

from __future__ import annotations

import datetime
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ..kubevirt.disruption import DELEGATED_OWNERS, DELEGATED_POD_OWNERS, Delegation
from ..model.findings import InputError, InvalidInput
from ..model.input import InputReader, by_likeness, nearest
from ..model.json_pointer import JSON
from ..model.objects import Node, Requirement, Selector
from ..model.obstacle import Obstacle
from ..model.rendering import plural
from ..model.topology import Topology, UndeclaredKey
from ..moves.run_options import RunOptions, request_digest
from ..moves.run_plan import RunPlan
from ..scheduler.labels import is_label_key, is_label_value, is_subdomain
from .mark import LONGEST_REASON, DamagedMark, has_begun, is_marked, mark_of, unmarked
from .preflight_findings import PREFLIGHT_FINDINGS
from .returned_plan import DRAIN_PLAN

if t.TYPE_CHECKING:
    from ..moves.window import Window

STOP_AND_START = "stop_and_start"

VM_POLICIES = ("migrate", "restart", "stop", STOP_AND_START, "evict", "refuse")
"""How a VM leaves a node: live migration, a new VMI, shut down, shut down and started once the node is in service, by
the controller of its eviction strategy, or not at all."""

State = t.Literal["cordoned", "drained", "in_service"]


@dataclass(frozen=True, slots=True)
class MaintenanceOptions:
    """`nodes` are names; None where `labels`, each a key and its value, select the nodes. `assume_in_service` are
    names of nodes that check mode takes for in service, `serviced_later` of those that the same job drains later.
    `planned`: the options that a plan fixes, as they were given. `approved`: the plan that is carried out."""

    nodes: tuple[str, ...] | None
    labels: tuple[tuple[str, str], ...]
    state: State
    reason: str
    change_id: str
    vm_policy: tuple[str, ...]
    reboot_expected: bool
    max_nodes: int
    window: Window | None
    allow_findings: frozenset[str]
    run_timeout: int
    move_timeout: int
    topology: Topology
    assume_in_service: frozenset[str] = frozenset()
    delegation: Delegation = field(default_factory=Delegation.known)
    planned: t.Mapping[str, JSON] = field(default_factory=dict)
    approved: RunPlan | None = None
    serviced_later: frozenset[str] = frozenset()

    @property
    def zone_key(self) -> str:
        return self.topology.resolve("zone")

    @property
    def run_options(self) -> RunOptions:
        """Those of the run that drains. Disruption budgets limit it, and a failed move does not end it."""
        return RunOptions(
            request=request_digest((self.state, *(self.nodes or ()), *map("=".join, self.labels))),
            run_timeout=self.run_timeout,
            move_timeout=self.move_timeout,
            topology=self.topology,
        )


def parse_options(
    given: t.Mapping[str, JSON], topology: Topology, approved: RunPlan | None = None
) -> MaintenanceOptions:
    """Raises InvalidInput with every error. `approved`: the plan that `given` has its options from."""
    errors: list[InputError] = []
    nodes = given["nodes"]
    names = InputReader("nodes", errors).texts(nodes) if nodes is not None else None
    labels = _labels(given["topology"], topology, errors) if given["topology"] is not None else ()
    window: Window | None = None
    if given["window"]:
        from ..moves.window import parse_window

        window, wrong = parse_window(given["window"])
        errors += wrong
    errors += [
        InputError(name, f"must have at most {LONGEST_REASON} characters")
        for name in ("reason", "change_id")
        if len(given[name]) > LONGEST_REASON
    ]
    if given["change_id"] and given["state"] != "in_service":
        errors.append(InputError("change_id", "is recorded with state in_service only"))
    errors += [
        InputError(name, f"must be at least 1, not {given[name]}")
        for name in ("max_nodes", "run_timeout", "move_timeout")
        if given[name] < 1
    ]
    errors += [
        InputError(
            "allow_findings",
            f"'{name}' is not a finding of a maintenance{nearest(name, PREFLIGHT_FINDINGS)}",
        )
        for name in given["allow_findings"]
        if name not in PREFLIGHT_FINDINGS
    ]
    delegation = _delegation(given["delegated_budgets"], errors)
    policies = InputReader("vm_policy", errors).texts(given["vm_policy"])
    if policies is not None and (wrong_policy := why_invalid(policies)):
        errors.append(InputError("vm_policy", wrong_policy.text))
    if errors:
        raise InvalidInput(errors)
    return MaintenanceOptions(
        nodes=tuple(dict.fromkeys(names)) if names is not None else None,
        labels=labels,
        state=given["state"],
        reason=given["reason"],
        change_id=given["change_id"],
        vm_policy=policies or (),
        reboot_expected=given["reboot_expected"],
        max_nodes=given["max_nodes"],
        window=window,
        allow_findings=frozenset(given["allow_findings"]),
        run_timeout=given["run_timeout"],
        move_timeout=given["move_timeout"],
        topology=topology,
        assume_in_service=frozenset(given["assume_in_service"]),
        delegation=delegation,
        planned={name: given.get(name) for name in DRAIN_PLAN.options},
        approved=approved,
        serviced_later=frozenset(given["serviced_later"]),
    )


def _delegation(given: JSON, errors: list[InputError]) -> Delegation:
    """An API group has a dot: that of an operator does, and of Kubernetes' own ones with workloads none does. Ansible
    would split a text at each comma, and make two selectors of one with two labels."""
    entries = given if isinstance(given, list) else [given]
    groups, selectors = [], {}
    for text in map(str, entries):
        pairs = [pair.strip().partition("=")[::2] for pair in text.split(",")]
        if "=" not in text and "." in text and is_subdomain(text):
            groups.append(text)
        elif all(is_label_key(key) and value and is_label_value(value) for key, value in pairs):
            selectors[text] = Selector(tuple(Requirement(key, "In", (x,)) for key, x in pairs))
        else:
            known = ", ".join(sorted({*DELEGATED_OWNERS, *DELEGATED_POD_OWNERS}))
            errors.append(
                InputError(
                    "delegated_budgets",
                    f"'{text}' is neither the API group of an operator, such as longhorn.io, nor a label"
                    f" selector, such as app=store,tier=db; several are a list; known without it: {known}",
                )
            )
    return Delegation.known(groups, selectors)


def _labels(
    given: t.Mapping[str, JSON], topology: Topology, errors: list[InputError]
) -> tuple[tuple[str, str], ...]:
    """The label of each topology domain, in the order in which they are given."""
    name, values = next(iter(given.items()), ("", []))
    texts = values if isinstance(values, list) else [values]
    if len(given) != 1 or not texts:
        text = f"must have one topology name and its value or values, such as zone: a, not {given}"
        errors.append(InputError("topology", text))
        return ()
    errors += [
        InputError(f"topology.{name}", f"must be text, not {value!r}: quote it")
        for value in texts
        if not isinstance(value, str) or not value
    ]
    try:
        key = topology.resolve(str(name))
    except UndeclaredKey as error:
        errors.append(InputError("topology", str(error)))
        return ()
    return tuple((key, value) for value in dict.fromkeys(map(str, texts)))


def missing_nodes(options: MaintenanceOptions, nodes: t.Iterable[Node]) -> list[InputError]:
    """The nodes that the task names and that do not exist."""
    known = {node.name for node in nodes}
    return [
        InputError("nodes", f"there is no node '{name}'{nearest(name, known)}")
        for name in options.nodes or ()
        if name not in known
    ]


def select(options: MaintenanceOptions, nodes: t.Sequence[Node]) -> tuple[Node, ...]:
    """The nodes of the task. Raises InvalidInput for nodes that do not exist, unless they are those of a plan, and for
    a selected one whose mark is damaged."""
    errors = missing_nodes(options, nodes) if options.approved is None else []
    if options.nodes is not None:
        by_name = {node.name: node for node in nodes}
        selected = [by_name[name] for name in options.nodes if name in by_name]
    else:
        selected = []
        for key, value in options.labels:
            values = {node.labels[key] for node in nodes if key in node.labels}
            selected += [node for node in nodes if node.labels.get(key) == value]
            if value not in values:
                known = f"; known values: {by_likeness(value, values)}" if values else ""
                errors.append(InputError("topology", f"no node has the label {key}={value}{known}"))
    for node in selected:
        try:
            mark_of(node)
        except DamagedMark as damage:
            errors.append(InputError(f"Node {node.name}", str(damage)))
    if errors:
        raise InvalidInput(errors)
    return tuple(selected)


def select_for_drain(
    options: MaintenanceOptions, nodes: t.Sequence[Node]
) -> tuple[tuple[Node, ...], list[str]]:
    """The nodes of the task. Outside of the window those that were begun, if any was, and the names of the others."""
    selected = select(options, nodes)
    if not _window_is_closed(options) or not any(map(has_begun, selected)):
        return selected, []
    others = [node.name for node in selected if not has_begun(node)]
    return tuple(filter(has_begun, selected)), others


def outside_of_window(options: MaintenanceOptions, nodes: t.Iterable[Node]) -> bool:
    """Whether the maintenance of these nodes has not begun, and does not begin now."""
    return _window_is_closed(options) and not any(map(has_begun, nodes))


def _window_is_closed(options: MaintenanceOptions) -> bool:
    now = datetime.datetime.now(datetime.timezone.utc)
    return options.window is not None and now not in options.window


def with_assumed(options: MaintenanceOptions, nodes: t.Iterable[Node]) -> tuple[Node, ...]:
    """The nodes, those of `assume_in_service` as they are in service. Raises InvalidInput for one whose mark is
    damaged: whose cordon it has is unknown."""
    result, errors = [], []
    for node in nodes:
        try:
            assumed = node.name in options.assume_in_service
            result.append(unmarked(node) if assumed else node)
        except DamagedMark as damage:
            errors.append(InputError(f"Node {node.name}", str(damage)))
    if errors:
        raise InvalidInput(errors)
    return tuple(result)


def check_limits(
    options: MaintenanceOptions, selected: t.Sequence[Node], nodes: t.Sequence[Node]
) -> None:
    """Raises InvalidInput where the selected nodes, with those that are in maintenance already, are of
    more than one topology domain, or more than `max_nodes`."""
    names = {node.name for node in selected}
    others = [node for node in nodes if is_marked(node) and node.name not in names]
    together = [*selected, *others]
    errors = []
    zones = {node.labels.get(options.zone_key, "") for node in together}
    if selected and len(zones) > 1:
        errors.append(
            InputError(
                "nodes",
                f"would be in maintenance in {len(zones)} topology domains ({options.zone_key}) at the"
                f" same time: {_named(together, names, options.zone_key)}; put the nodes of one domain"
                " in service first",
            )
        )
    elif selected and len(together) > options.max_nodes:
        fewer = "put nodes in service first" if others else "select fewer nodes"
        errors.append(
            InputError(
                "max_nodes",
                f"allows {plural(options.max_nodes, 'node')} in maintenance at the same time, and with this"
                f" task it would be {len(together)}: {_named(together, names, options.zone_key)}; {fewer}, or"
                " raise max_nodes",
            )
        )
    if errors:
        raise InvalidInput(errors)


def _named(nodes: t.Iterable[Node], selected: t.Container[str], zone_key: str) -> str:
    texts = []
    for node in nodes:
        zone = node.labels.get(zone_key, "no zone")
        already = "" if node.name in selected else ", in maintenance already"
        texts.append(f"{node.name} ({zone}{already})")
    return ", ".join(texts)


def why_invalid(policies: t.Sequence[str]) -> Obstacle | None:
    """What is wrong with a list of policies."""
    known = f"known are {', '.join(VM_POLICIES)}"
    unknown = [policy for policy in policies if policy not in VM_POLICIES]
    twice = [policy for policy, count in Counter(policies).items() if count > 1]
    if not policies:
        text = f"must name a policy; {known}"
    elif unknown:
        text = f"'{unknown[0]}' is not a policy{nearest(unknown[0], VM_POLICIES) or f'; {known}'}"
    elif twice:
        text = f"names '{twice[0]}' twice"
    elif "refuse" in policies and len(policies) > 1:
        text = "'refuse' must be alone"
    else:
        return None
    return Obstacle("invalid_policy", text)
