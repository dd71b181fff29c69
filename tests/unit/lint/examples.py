# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""For each finding that can be seen without a cluster: where it is found, and the same mended."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import HOLD
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import (
    HOST,
    PREFERRED,
    REQUIRED,
    ZONE,
    Cluster,
    affinity,
    anti_affinity,
    apart,
    expression,
    node_affinity,
    spread,
)
from tests.unit.lint.online_offline import deployment

JSON = t.Any
Build = t.Callable[[Cluster], None]
ARCH = "kubernetes.io/arch"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD = Platform(kubernetes=(1, 25), kubevirt="v1.0.0")
FAULTY = Platform(kubernetes=(1, 34), kubevirt="v1.8.4")
SOUND = Platform(kubernetes=(1, 33), kubevirt="v1.8.4")


@dataclass(frozen=True)
class Example:
    """`bad` and `good` grow a cluster; `platform` is that of the bad one."""

    bad: Build
    good: Build
    platform: Platform = SOUND
    zones: str = "aabbcc"


def machine(spec: JSON, **labels: str) -> Build:
    """A machine that runs, and one that others may want to be near to or away from."""

    def build(cluster: Cluster) -> None:
        cluster.run("db", "n3", tier="db")
        cluster.run("app", "n1", spec, **labels)

    return build


def web(spec: JSON, **more: t.Any) -> Build:
    return lambda cluster: deployment(cluster, "web", spec, **more)


def with_labels(key: str, build: Build) -> Build:
    """The same on nodes that have one more label each."""

    def labelled(cluster: Cluster) -> None:
        for number, node in enumerate(cluster.nodes.values()):
            node["metadata"]["labels"][key] = f"v{number}"
        build(cluster)

    return labelled


def held(strategy: JSON) -> Build:
    """A StatefulSet with the annotation of a hold, and with this strategy by now."""

    def build(cluster: Cluster) -> None:
        template = {"metadata": {"labels": {"app": "log"}}, "spec": {}}
        spec = {"replicas": 1, "template": template, "updateStrategy": strategy}
        ref = cluster.workload("StatefulSet", "log", spec)
        kept = '{"updateStrategy": {"type": "RollingUpdate"}}'
        cluster.workloads[ref]["metadata"]["annotations"] = {HOLD: kept}

    return build


def nodes_with(name: str, labels: JSON) -> Build:
    return lambda cluster: cluster.node(name, labels)


def beside_tainted_zone(build: Build) -> Build:
    """The same with a zone whose node takes none of the pods."""

    def tainted(cluster: Cluster) -> None:
        taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
        cluster.node("boss", {ZONE: "z"}, taints=[taint])
        build(cluster)

    return tainted


MOUNTED: JSON = {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}]}


def with_claim(build: Build) -> Build:
    """The same with a claim that the pods of one node can use."""

    def claimed(cluster: Cluster) -> None:
        cluster.claims["data"] = ("ReadWriteOnce",)
        build(cluster)

    return claimed


def pair(when: str) -> Build:
    """Two machines of which each is to run beside the other: a must, or a wish."""

    def near(app: str) -> JSON:
        term = apart(HOST, plain=True, app=app)
        wish = {"weight": 1, "podAffinityTerm": term}
        return {"affinity": {"podAffinity": {when: [term if when == REQUIRED else wish]}}}

    def build(cluster: Cluster) -> None:
        cluster.run("a", "n1", near("b"), app="a")
        cluster.run("b", "n1", near("a"), app="b")

    return build


def in_team(name: str, build: Build) -> Build:
    """The same where the namespace belongs to a team."""

    def labelled(cluster: Cluster) -> None:
        cluster.namespace("shop", team=name)
        build(cluster)

    return labelled


def rule_of(*, uid: str = "", foreign: bool = False, argo: bool = False) -> Build:
    """A machine under a rule, with what may be wrong with that."""

    def build(cluster: Cluster) -> None:
        ref = cluster.vm("db")
        cluster.write(ref, "in-a", (TermLocation.NODE_EXPRESSION, expression(ZONE, "In", "a")))
        if uid:
            cluster.workloads[ref]["metadata"]["uid"] = uid
        if foreign:
            required = cluster.template(ref)["spec"]["affinity"]["nodeAffinity"][REQUIRED]
            required["nodeSelectorTerms"].append({"matchExpressions": [expression(HOST, "Exists")]})
        if argo:
            labels = {"argocd.argoproj.io/instance": "shop"}
            cluster.workloads[ref]["metadata"]["labels"] = labels

    return build


def group(*, all_written: bool) -> Build:
    """Two machines with the label of a rule, which both have, or the first one alone."""

    def build(cluster: Cluster) -> None:
        refs = [cluster.vm(name, tier="db") for name in ("db1", "db2")]
        for ref in refs if all_written else refs[:1]:
            cluster.write(ref, "db-apart", (TermLocation.ANTI_AFFINITY, apart(tier="db")))

    return build


def patched(*, restarted: bool) -> Build:
    """A spread constraint written into the template of a machine that runs."""

    def build(cluster: Cluster) -> None:
        ref = cluster.vm("web", tier="web")
        if not restarted:
            cluster.start(ref, "n1")
        cluster.template(ref)["spec"].update(honoured(tier="web"))
        status = {"printableStatus": "Stopped" if restarted else "Running"}
        cluster.workloads[ref]["status"] = status

    return build


def honoured(**labels: JSON) -> JSON:
    (constraint,) = spread(**labels)["topologySpreadConstraints"]
    return {"topologySpreadConstraints": [{**constraint, "nodeTaintsPolicy": "Honor"}]}


def one_node(*names: str) -> JSON:
    return node_affinity({"matchExpressions": [expression(HOST, "In", *names)]})


def in_zone(*zones: str) -> JSON:
    return node_affinity({"matchExpressions": [expression(ZONE, "In", zone) for zone in zones]})


def elsewhere(**chosen: JSON) -> JSON:
    return affinity({**apart(plain=True, tier="db"), "namespaceSelector": chosen})


HARVESTER = "harvesterhci.io/machineSetName"
POOL: dict[str, JSON] = {HARVESTER: "default-rke2-pool1"}
NEGATIVE = {"matchExpressions": [expression("team", "DoesNotExist")]}
WRONG_KEY = affinity(apart("topology.kubernetes.io/hostname", plain=True, tier="db"))
MIN_DOMAINS = {**honoured(app="web")["topologySpreadConstraints"][0], "minDomains": 0}
PLAIN = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}

EXAMPLES: dict[str, Example] = {
    "unprefixed_label_key": Example(
        with_labels("rack", machine(anti_affinity(apart("rack", tier="db")))),
        with_labels(
            "example.com/rack", machine(anti_affinity(apart("example.com/rack", tier="db")))
        ),
    ),
    "blocks_live_migration": Example(machine(one_node("n1")), machine(one_node("n1", "n2"))),
    "bypassed_by_node_term": Example(rule_of(foreign=True), rule_of()),
    "rule_not_on_new_member": Example(group(all_written=False), group(all_written=True)),
    "copied_annotation": Example(rule_of(uid="another"), rule_of()),
    "deprecated_node_label": Example(
        with_labels(OLD_ZONE, machine(anti_affinity(apart(OLD_ZONE, tier="db")))),
        machine(anti_affinity(apart(tier="db"))),
    ),
    "empty_node_term": Example(machine(node_affinity({})), machine(in_zone("a"))),
    "depends_on_other_workload": Example(
        machine(affinity(apart(HOST, plain=True, tier="db"))), machine({})
    ),
    "invalid_placement": Example(
        web({"topologySpreadConstraints": [MIN_DOMAINS]}), web(honoured(app="web"))
    ),
    "no_node_has_key": Example(
        machine(WRONG_KEY), machine(affinity(apart(HOST, plain=True, tier="db")))
    ),
    "nodes_lack_key": Example(
        lambda cluster: [nodes_with("bare", {})(cluster), web(honoured(app="web"))(cluster)][0],
        web(honoured(app="web")),
    ),
    "externally_managed": Example(rule_of(argo=True), rule_of()),
    "max_skew_misread": Example(
        web(honoured(app="web"), replicas=4), web(honoured(app="web"), replicas=3)
    ),
    "mutual_affinity": Example(pair(REQUIRED), pair(PREFERRED)),
    "negative_namespace_selector": Example(
        machine(elsewhere(**NEGATIVE)),
        in_team("a", machine(elsewhere(matchLabels={"team": "a"}))),
        FAULTY,
    ),
    "unsatisfiable": Example(machine(in_zone("a", "b")), machine(in_zone("a"))),
    "rollout_deadlock": Example(
        web(anti_affinity(PLAIN)),
        web(anti_affinity({**PLAIN, "matchLabelKeys": ["pod-template-hash"]})),
    ),
    "restart_required": Example(patched(restarted=False), patched(restarted=True)),
    "selector_matches_everything": Example(
        machine(anti_affinity({"topologyKey": ZONE, "labelSelector": {}})),
        machine(anti_affinity(apart(tier="db"))),
    ),
    "selector_matches_nothing": Example(
        machine(anti_affinity({"topologyKey": ZONE}), **POOL),
        machine(anti_affinity(apart(**POOL)), **POOL),
    ),
    "unsupported_by_server": Example(
        machine(anti_affinity(apart(tier="app")), tier="app"), machine({}), OLD
    ),
    "single_domain": Example(web(honoured(app="web")), web({}), zones="aaa"),
    "spread_blocks_drain": Example(web(spread(app="web")), web(honoured(app="web"))),
    "spread_counts_unusable_domain": Example(
        beside_tainted_zone(web(spread(app="web"), replicas=6)),
        beside_tainted_zone(web(honoured(app="web"), replicas=3)),
    ),
    "template_and_selector_disagree": Example(web(honoured(app="wep")), web(honoured(app="web"))),
    "too_many_terms": Example(
        machine(anti_affinity(*(apart(tier=f"app-{number}") for number in range(33)))),
        machine(anti_affinity(apart(tier="app-1"))),
    ),
    "architecture_mismatch": Example(
        machine({"nodeSelector": {ARCH: "arm64"}, "architecture": "amd64"}),
        machine({"nodeSelector": {ARCH: "amd64"}, "architecture": "amd64"}),
    ),
    "other_scheduler": Example(
        web({"schedulerName": "batch"}), web({"schedulerName": "default-scheduler"})
    ),
    "names_node": Example(web({"nodeName": "n1"}), web({"nodeSelector": {HOST: "n1"}})),
    "workload_rollout_held": Example(
        held({"type": "OnDelete"}), held({"type": "RollingUpdate", "rollingUpdate": {}})
    ),
    "volume_blocks_rollout": Example(
        with_claim(web(MOUNTED, replicas=1)),
        with_claim(web(MOUNTED, replicas=1, strategy={"type": "Recreate"})),
    ),
    "no_node_has_value": Example(
        machine(node_affinity({"matchExpressions": [expression(ZONE, "NotIn", "aa")]})),
        machine(node_affinity({"matchExpressions": [expression(ZONE, "NotIn", "a")]})),
    ),
    "similar_domain_names": Example(nodes_with("n7", {ZONE: "A"}), nodes_with("n7", {ZONE: "a"})),
    "duplicate_hostname": Example(
        nodes_with("n7", {ZONE: "a", HOST: "n1"}), nodes_with("n7", {ZONE: "a"})
    ),
    "topology_incomplete": Example(nodes_with("n7", {}), nodes_with("n7", {ZONE: "a"})),
    "zone_in_two_regions": Example(
        with_labels("topology.kubernetes.io/region", machine({})), machine({})
    ),
}
