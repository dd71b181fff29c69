# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that workloads carry, as the option `rules` would have them."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.json_pointer import Pointer
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.declaration import (
    DeclarationReader,
)

from .builders import NAMESPACE, applied, deployment, plan, snapshot, vm, vmirs, workload

Object = dict[str, t.Any]
R = RuleId(NAMESPACE, "default", "r")


def cluster() -> list[Workload]:
    labels = {"app": "db"}
    found = [vm(name, labels=labels) for name in ("db1", "db2")]
    return [*found, vm("lead"), vm("web"), deployment("api"), deployment("cache"), vmirs("pool")]


def written(workloads: t.Sequence[Workload], *rules: Object) -> list[Workload]:
    """The workloads once the rules are written to them."""
    made = plan(snapshot(*workloads), *rules, workload_rollout="allow")
    assert not made.refused, made.refused
    writes = {write.target: write for write in made.writes}
    return [
        workload(applied(dict(each.manifest), writes[each.ref])) if each.ref in writes else each
        for each in workloads
    ]


def declared(workloads: t.Sequence[Workload]) -> Object | None:
    return DeclarationReader(snapshot(*workloads), Topology.of()).declaration(R)


TOLERATION = {"key": "gpu", "operator": "Exists"}
OF_OTHERS = {"matchLabels": {"app": "x"}}
SAME: t.Mapping[str, Object] = {
    "run on": {"run_on": {"zone": "a"}},
    "run on several": {"run_on": {"zone": ["a", "b"], "example.com/rack": "r1"}},
    "preferred": {"avoid": {"zone": "a"}, "preferred": True, "weight": 7},
    "apart": {"keep_apart": "node"},
    "apart with a label": {"keep_apart": "zone", "label": {"tier": "x"}},
    "apart preferred": {"keep_apart": "zone", "preferred": True},
    "apart from": {"keep_apart": {"topology_key": "zone", "from": "lead"}},
    "apart from pods": {"keep_apart": {"topology_key": "zone", "pods": {"labels": {"app": "x"}}}},
    "with": {"keep_together": {"topology_key": "node", "with": "lead"}},
    "with, preferred": {
        "keep_together": {"topology_key": "node", "with": "lead"},
        "preferred": True,
        "weight": 3,
    },
    "together": {"keep_together": "zone"},
    "spread": {"spread": "zone"},
    "spread more": {"spread": {"topology_key": "zone", "max_skew": 2}, "preferred": True},
    "label": {"label": {"tier": "db"}},
    "tolerations": {"terms": {"tolerations": [TOLERATION]}},
    "fields": {
        "terms": {
            "nodeSelector": {"disk": "fast"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                            {"matchExpressions": [{"key": "b", "operator": "Gt", "values": ["1"]}]},
                        ]
                    }
                },
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "kubernetes.io/hostname", "labelSelector": OF_OTHERS}
                    ]
                },
            },
        }
    },
}


@pytest.mark.parametrize("options", SAME.values(), ids=SAME)
def test_rule_of_vms_is_declared_as_it_was(options: Object) -> None:
    rule = {"name": "r", "workloads": ["db1", "db2"], **options}
    if "keep_together" in options:
        rule["workloads"] = ["web"] if options["keep_together"] != "zone" else ["db1", "db2"]
    allowed = ["mutual_affinity", "no_node_has_key", "selector_matches_nothing"]
    carrying = written(cluster(), {**rule, "allow_findings": allowed})
    assert declared(carrying) == rule


OTHERWISE: t.Mapping[str, Object] = {
    "by labels": {"workloads": [{"labels": {"app": "db"}}], "keep_apart": "node"},
    "a deployment": {"workloads": [{"kind": "Deployment", "name": "api"}], "keep_apart": "node"},
    "two deployments": {
        "workloads": [{"kind": "Deployment", "names": ["api", "cache"]}],
        "keep_apart": "zone",
    },
    "a spread deployment": {
        "workloads": [{"kind": "Deployment", "name": "api"}],
        "spread": "zone",
    },
    "kinds mixed": {
        "workloads": ["db1", {"kind": "Deployment", "name": "api"}],
        "keep_apart": "zone",
    },
    "beside a deployment": {
        "workloads": [{"kind": "Deployment", "name": "api"}],
        "keep_together": {"topology_key": "zone", "with": {"kind": "Deployment", "name": "cache"}},
    },
    "a replica set": {
        "workloads": [{"kind": "VirtualMachineInstanceReplicaSet", "name": "pool"}],
        "keep_apart": "node",
    },
    "from several": {
        "workloads": ["web"],
        "keep_apart": {
            "topology_key": "node",
            "from": ["lead", {"kind": "Deployment", "name": "api"}],
        },
    },
}


@pytest.mark.parametrize("options", OTHERWISE.values(), ids=OTHERWISE)
def test_declaration_changes_nothing_where_it_is_written(options: Object) -> None:
    rule = {"name": "r", **options}
    carrying = [*written(cluster(), rule)]
    found = declared(carrying)
    assert found is not None and not {"terms"} & {*found}
    assert plan(snapshot(*carrying), found).writes == ()


def test_rule_that_lost_a_term_or_rests_has_none() -> None:
    rule = {"name": "r", "workloads": ["db1", "db2"], "run_on": {"zone": "a"}}
    carrying = written(cluster(), rule)
    assert declared(written(carrying, {**rule, "enabled": False})) is None
    spec = Pointer(("spec", "template", "spec", "affinity"))
    for each in carrying[:2]:
        spec_of = Pointer(spec.parts[:-1]).read(dict(each.manifest))
        spec_of.pop("affinity")
    assert declared(carrying) is None
    assert DeclarationReader(snapshot(), Topology.of()).declaration(R) is None
