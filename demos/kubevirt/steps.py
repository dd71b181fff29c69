# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The article's steps B1 to B9 by the collection's playbooks, and one that it does not have, each with its proof."""

from __future__ import annotations

import pathlib
import typing as t

import yaml

from demos import board
from demos.effort import Effort
from demos.stage import Stage, Step, beyond, check, proves, rows, variables
from sandbox import drain

FOLDER = pathlib.Path(__file__).parent
NAMESPACE = "shop"
CLUSTER = "article"
COLUMNS = {"ZONE": board.ZONE, "PERFORMANCE": "performance"}
PUBLISHED = Effort(commands=19, ended=7, migrations=0)
"""Six labels, three creations, an edit, three drains, three times uncordon and three deletions by hand."""

SLOW = ["kni-worker", "kni-worker3", "kni-worker5"]
SCREEN = 40
"""Rows of a screen."""
FAST = ["kni-worker2", "kni-worker4", "kni-worker6"]
HOME = {"mssql2016": FAST, "varnish-cache": SLOW, "blackbox": SLOW}
BESIDE = sorted(["kni-worker2", *SLOW[1:]])
AWAY = {"mssql2016": FAST, "varnish-cache": BESIDE, "blackbox": BESIDE}
"""While kni-worker is drained."""

MAINTAINER = "maintainer-mover"
POLICIES = "policies-writer"
POLICIES_SINCE = 36
"""The minor release of Kubernetes 1 that has MutatingAdmissionPolicy as v1 (KEP 3962)."""
NO_POLICY = ("needs Kubernetes 1.36 or later", "Set new_members to warn.")


def create(stage: Stage, name: str) -> None:
    stage.sandbox.api.apply(yaml.safe_load((FOLDER / f"{name}.yml").read_text()))


def expect(stage: Stage, workload: str, nodes: list[str]) -> None:
    stage.until(
        lambda: board.nodes_of(stage.sandbox, NAMESPACE, workload),
        nodes,
        f"{workload} on {', '.join(nodes)}",
    )


@proves("S17")
def label_the_nodes(stage: Stage) -> None:
    """Exact labels on six nodes, the control plane untouched."""
    stage.sandbox.api.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    wanted = variables(FOLDER, "topology.yml")
    before = _labels(stage, "kni-control-plane")
    stage.play_twice("topology", wanted, identity="labeler")
    for node, labels in wanted["placement_topology_per_node"].items():
        seen = _labels(stage, node)
        expected = {
            "topology.kubernetes.io/region": labels["region"],
            "topology.kubernetes.io/zone": labels["zone"],
            "performance": labels.get("performance"),
        }
        check(
            {key: seen.get(key) for key in expected} == expected,
            f"{node} has the labels {seen}",
        )
    check(_labels(stage, "kni-control-plane") == before, "the control plane's labels changed")


def start_the_database(stage: Stage) -> None:
    """B1: one on each fast node, although no rule requires it yet."""
    create(stage, "mssql")
    expect(stage, "mssql2016", FAST)


@proves("S18")
def maintain_a_fast_node(stage: Stage) -> None:
    """B2: without a rule two end up in one zone, which the playbook maintenance forecasts. They stay there after the
    node is back."""
    result = stage.play("maintenance", maintain(FAST[0]), identity=MAINTAINER, check=True)
    check(result.rc == 0, f"the forecast ended with rc {result.rc}")
    check("2 in one zone" in result.stdout, "it was not forecast that 2 end up in one zone")
    result = stage.play("maintenance", maintain(FAST[0]), identity=MAINTAINER)
    check(result.rc == 0, f"maintenance ended with rc {result.rc}")
    stage.until(
        lambda: len(board.nodes_of(stage.sandbox, NAMESPACE, "mssql2016")), 3, "three databases run"
    )
    nodes = board.nodes_of(stage.sandbox, NAMESPACE, "mssql2016")
    check(
        set(nodes) == set(FAST[1:]),
        f"two databases share a node of another zone (they run on {nodes})",
    )


@proves("S19")
def repair_the_database(stage: Stage) -> None:
    """B3: rules, then exactly one instance deleted, on the doubled node."""
    before = {s.uid: s.node for s in board.seats(stage.sandbox, NAMESPACE)}
    nodes = list(before.values())
    mark = stage.sandbox.audit.mark()
    rules = variables(FOLDER, "database_rules.yml")
    output = stage.play_twice("apply", rules, identity="mover").stdout
    check(rows(output) <= 2 * SCREEN, f"the output of apply takes {rows(output)} rows")
    table = output[output.rindex("ZONE  NODE") :]
    check("not_enforced: " in table, "the output of apply ends with the table and its verdicts")
    expect(stage, "mssql2016", FAST)
    after = {s.uid for s in board.seats(stage.sandbox, NAMESPACE)}
    replaced = [node for uid, node in before.items() if uid not in after]
    check(len(replaced) == 1, f"exactly one instance was replaced (those on {replaced} were)")
    check(nodes.count(replaced[0]) == 2, f"it ran on the doubled node (it ran on {replaced[0]})")
    deletes = [e for e in stage.sandbox.audit.writes(since=mark) if e.verb == "delete"]
    check(len(deletes) == 1, f"the audit log has exactly one delete (seen: {deletes})")


def spread_the_cache(stage: Stage) -> None:
    """B4: one cache a zone, on the slow nodes."""
    create(stage, "varnish")
    stage.until(
        lambda: len(board.nodes_of(stage.sandbox, NAMESPACE, "varnish-cache")),
        3,
        "three caches run",
    )
    stage.play_twice("apply", variables(FOLDER, "cache_rules.yml"), identity="mover")
    expect(stage, "varnish-cache", SLOW)


@proves("S20")
def refuse_the_misspelt_key(stage: Stage) -> None:
    """B5 as printed: refused with a finding, nothing written. The application started while two
    of the caches' nodes were cordoned, so it does not run beside them."""
    for node in SLOW[1:]:
        drain.cordon(stage.sandbox, node)
    create(stage, "blackbox")
    stage.until(
        lambda: len(board.nodes_of(stage.sandbox, NAMESPACE, "blackbox")), 3, "three blackboxes run"
    )
    for node in SLOW[1:]:
        drain.uncordon(stage.sandbox, node)
    wanted = variables(FOLDER, "application_rules_as_printed.yml")
    stage.play_refused("apply", wanted, "no_node_has_key", identity="mover")


@proves("S20")
def bring_the_application_beside_the_cache(stage: Stage) -> None:
    """B5 with the key that nodes have: each blackbox on a cache's node, one a zone. No cache moves."""
    stage.play_twice("apply", variables(FOLDER, "application_rules.yml"), identity="mover")
    expect(stage, "blackbox", SLOW)
    expect(stage, "varnish-cache", SLOW)


def prove_it(stage: Stage) -> None:
    """The playbook verify finds no violated rule, and writes nothing. An instance that was placed
    correctly before its rule was written is `not_enforced`: it is enforced from its next start."""
    mark = stage.sandbox.audit.mark()
    wanted = {"placement_verify_namespaces": [NAMESPACE]}
    result = stage.play("verify", wanted, identity="reader")
    check(result.rc == 0, f"verify ended with rc {result.rc}")
    check(not stage.sandbox.audit.writes(since=mark), "verify wrote something")
    expect(stage, "mssql2016", FAST)
    expect(stage, "varnish-cache", SLOW)


def drill_each_failure(stage: Stage) -> None:
    """The playbook drill forecasts the loss of each node and zone: each zone would leave a database
    without a node, since its rules allow no other. Nothing is written."""
    mark = stage.sandbox.audit.mark()
    result = stage.play("drill", {}, identity="reader")
    check(result.rc == 0, f"drill ended with rc {result.rc}")
    check(not stage.sandbox.audit.writes(since=mark), "drill wrote something")
    for zone in ("scu", "bcn", "sab"):
        down = [
            line
            for line in result.stdout.splitlines()
            if f"unschedulable if zone {zone} fails" in line
        ]
        check(
            "/mssql2016" in "".join(down),
            f"the loss of zone {zone} leaves no database unschedulable",
        )


def maintain(node: str, **options: t.Any) -> dict[str, t.Any]:
    """Extra vars of the playbook maintenance."""
    named = {f"placement_maintenance_{name}": value for name, value in options.items()}
    return {"placement_maintenance_nodes": [node], "placement_maintenance_reason": "demo", **named}


@proves("S21")
def drain_a_slow_node(stage: Stage) -> None:
    """B6: the cache on the node and the application beside it move to the other node of their zone, the cache first."""
    stage.play_twice("maintenance", maintain(SLOW[0], state="drained"), identity=MAINTAINER)
    for workload, nodes in AWAY.items():
        expect(stage, workload, nodes)


@proves("S21")
def put_it_back_in_service(stage: Stage) -> None:
    """B7: nothing moves by itself, and one preference is not met."""
    wanted = maintain(SLOW[0], state="in_service", return_home="none")
    result = stage.play("maintenance", wanted, identity=MAINTAINER)
    check(result.rc == 0, f"maintenance ended with rc {result.rc}")
    for workload, nodes in AWAY.items():
        expect(stage, workload, nodes)


@proves("S21")
def return_home(stage: Stage) -> None:
    """B8: the pair returns by two evictions, the cache first. A second run moves nothing."""
    wanted = maintain(SLOW[0], state="in_service", return_home_allow=["migrate", "recreate"])
    mark = stage.sandbox.audit.mark()
    stage.play_twice("maintenance", wanted, identity=MAINTAINER)
    ended = [
        event.resource
        for event in stage.sandbox.audit.writes(since=mark)
        if event.subresource == "eviction" or event.verb == "delete"
    ]
    check(ended == ["pods", "virtualmachineinstances"], f"what was ended, in this order: {ended}")
    for workload, nodes in HOME.items():
        expect(stage, workload, nodes)


@proves("S22")
def drain_the_only_fast_node_of_a_zone(stage: Stage) -> None:
    """B9: by its rules the database has no other node. The drain is refused with the forecast that exactly 1 is
    Pending, and leaves no trace. Where that is allowed, exactly this happens, and all return home."""
    text = "no_place: 1 of 1 instances of node kni-worker2 would have no node"
    stage.play_refused("maintenance", maintain(FAST[0]), text, identity=MAINTAINER)
    allowed = maintain(
        FAST[0], state="drained", vm_policy="restart", allow_findings=["no_place"], move_timeout=5
    )
    result = stage.play("maintenance", allowed, identity=MAINTAINER)
    check(result.rc == 0, f"maintenance ended with rc {result.rc}")
    for workload, nodes in {**HOME, "mssql2016": FAST[1:]}.items():
        expect(stage, workload, nodes)
    pending = board.without_node(stage.sandbox, NAMESPACE)
    check(len(pending) == 1, f"exactly 1 is Pending (it is {pending})")
    result = stage.play("maintenance", maintain(FAST[0], state="in_service"), identity=MAINTAINER)
    check(result.rc == 0, f"maintenance ended with rc {result.rc}")
    for workload, nodes in HOME.items():
        expect(stage, workload, nodes)
    for node in SLOW + FAST:
        seen = stage.sandbox.api.get(f"/api/v1/nodes/{node}")
        check(not seen["spec"].get("unschedulable"), f"{node} is cordoned at the end")


@beyond
def place_a_vm_that_is_created_later(stage: Stage) -> None:
    """The rule is there before its VM: the API server writes it to the VM at its creation. Nothing is moved or written
    afterwards. Kubernetes before 1.36 has no such policies, and the job says what to use."""
    rules = variables(FOLDER, "reports_rules.yml")
    if int(stage.sandbox.api.get("/version")["minor"].rstrip("+")) < POLICIES_SINCE:
        stage.play_refused("apply", rules, *NO_POLICY, identity=POLICIES)
        return
    stage.play_twice("apply", rules, identity=POLICIES)
    create(stage, "reports")
    stage.until(
        lambda: [node in FAST for node in board.nodes_of(stage.sandbox, NAMESPACE, "reports")],
        [True],
        "reports runs on a fast node",
    )
    stage.play_again("apply", rules, identity=POLICIES)


def _labels(stage: Stage, node: str) -> dict[str, str]:
    manifest = stage.sandbox.api.get(f"/api/v1/nodes/{node}")
    return t.cast("dict[str, str]", manifest["metadata"]["labels"])


STEPS: tuple[Step, ...] = (
    label_the_nodes,
    start_the_database,
    maintain_a_fast_node,
    repair_the_database,
    spread_the_cache,
    refuse_the_misspelt_key,
    bring_the_application_beside_the_cache,
    prove_it,
    drill_each_failure,
    drain_a_slow_node,
    put_it_back_in_service,
    return_home,
    drain_the_only_fast_node_of_a_zone,
    place_a_vm_that_is_created_later,
)
