# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who depends on whom, and which move waits for which."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Namespace,
    Placement,
    Pod,
    PodTerm,
    Requirement,
    Selector,
    SpreadConstraint,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.planning.dependencies import (
    Dependencies,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.order import order
from ansible_collections.virt.placement.plugins.module_utils.planning.repair import PlannedMove

HOST = "kubernetes.io/hostname"


def selecting(app: str) -> Selector:
    return Selector((Requirement("app", "In", (app,)),))


FREE = Placement()


def pod(name: str, app: str, placement: Placement = FREE, namespace: str = "shop") -> Pod:
    return Pod(namespace, name, name, {"app": app}, placement=placement)


def to(app: str, **more: object) -> PodTerm:
    return PodTerm(HOST, selecting(app), **more)  # type: ignore[arg-type]


def links(*pods: Pod, namespaces: tuple[Namespace, ...] = ()) -> Dependencies:
    return Dependencies.among({found.uid: found for found in pods}, namespaces)


def test_followers_know_their_leader() -> None:
    found = links(
        pod("cache", "cache"),
        pod("box", "box", Placement(affinity=(to("cache"),))),
        pod("soft", "soft", Placement(preferred_affinity=((5, to("cache")),))),
    )
    assert found.affinity_targets("box") == {"cache"}
    assert found.affinity_targets("soft") == {"cache"}
    assert found.affinity_targets("cache") == frozenset()


def test_anti_affinity_relates_both_instances() -> None:
    found = links(pod("a", "a", Placement(anti_affinity=(to("b"),))), pod("b", "b"))
    assert found.anti_affinity_peers("a") == {"b"}
    assert found.anti_affinity_peers("b") == {"a"}


def test_a_group_that_keeps_apart_among_itself() -> None:
    own = Placement(anti_affinity=(to("web"),))
    found = links(*(pod(name, "web", own) for name in "abc"))
    assert found.anti_affinity_peers("a") == {"b", "c"}


def test_terms_end_at_their_namespaces() -> None:
    here = pod("a", "web", Placement(anti_affinity=(to("web"),)))
    there = pod("b", "web", namespace="other")
    assert links(here, there).anti_affinity_peers("a") == frozenset()
    named = pod("a", "web", Placement(anti_affinity=(to("web", namespaces=("other",)),)))
    assert links(named, there).anti_affinity_peers("a") == {"b"}
    chosen = to("web", namespace_selector=Selector((Requirement("team", "In", ("x",)),)))
    by_label = pod("a", "web", Placement(anti_affinity=(chosen,)))
    team = (Namespace("other", {"team": "x"}),)
    assert links(by_label, there, namespaces=team).anti_affinity_peers("a") == {"b"}
    assert links(by_label, there).anti_affinity_peers("a") == frozenset()


@pytest.mark.parametrize("kind", ["affinity", "anti_affinity"])
@pytest.mark.parametrize("namespace", ["shop", "other"])
def test_preferred_terms_link_no_instance_of_another_namespace(kind: str, namespace: str) -> None:
    term = to("web", namespaces=("shop",))
    required = pod("a", "a", Placement(**{kind: (term,)}), namespace)  # type: ignore[arg-type]
    soft = {f"preferred_{kind}": ((1, term),)}
    preferred = pod("b", "b", Placement(**soft), namespace)  # type: ignore[arg-type]

    found = links(required, preferred, pod("c", "web"))

    linked = {"a", "b"} if namespace == "shop" else {"a"}
    assert found.related("c") == linked
    assert [found.related(uid) for uid in "ab"] == [{"c"}, {"c"} if "b" in linked else set()]
    assert {
        uid for uid in "ab" if found.affinity_targets(uid) | found.anti_affinity_peers(uid)
    } == linked


def test_spread_links_its_group() -> None:
    spread = Placement(spread=(SpreadConstraint("zone", 1, "DoNotSchedule", selecting("web")),))
    found = links(pod("a", "web", spread), pod("b", "web", spread), pod("c", "db"))
    assert found.related("a") == {"b"}
    assert found.anti_affinity_peers("a") == frozenset()


def test_a_selector_without_a_value_to_look_up() -> None:
    exists = PodTerm(HOST, Selector((Requirement("app", "Exists"),)))
    found = links(pod("a", "x", Placement(anti_affinity=(exists,))), pod("b", "y"))
    assert found.anti_affinity_peers("a") == {"b"}


def move(uid: str, source: str = "w1", target: str = "w2") -> PlannedMove:
    return PlannedMove(uid, Method.MIGRATE, source, target, (target,), "")


def is_target(move: PlannedMove, node: str) -> bool:
    return node in move.targets


@pytest.mark.parametrize("first", [True, False])
def test_independent_moves_do_not_wait(first: bool) -> None:
    found = links(pod("a", "a"), pod("b", "b"))
    after = order([move("a"), move("b", "w3", "w4")], found, lambda _move: True, is_target)
    assert after == {"a": (), "b": ()}


def test_a_follower_waits_for_its_leader() -> None:
    found = links(pod("cache", "cache"), pod("box", "box", Placement(affinity=(to("cache"),))))
    after = order([move("cache"), move("box")], found, lambda _move: True, is_target)
    assert after == {"cache": (), "box": ("cache",)}


def test_a_group_that_keeps_apart_moves_one_by_one() -> None:
    own = Placement(anti_affinity=(to("web"),))
    found = links(*(pod(name, "web", own) for name in "abc"))
    after = order([move("a"), move("b"), move("c")], found, lambda _move: True, is_target)
    assert after == {"a": (), "b": ("a",), "c": ("b",)}


def test_a_move_waits_for_the_one_that_makes_room() -> None:
    found = links(pod("a", "a"), pod("b", "b"), pod("c", "c"))
    sequence = [move("a", "w2", "w9"), move("c", "w7", "w8"), move("b", "w1", "w2")]
    after = order(sequence, found, lambda found: found.uid != "b", is_target)
    assert after["b"] == ("a",)
