# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/from-vsphere.md with two dozen rules, by its commands as they are printed, to a green verification and back.

Between, each rule is broken by a move that no scheduler made: it is red, and no other.
"""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.virt.placement.plugins.module_utils.drs.vm_names import forklift_name
from ansible_collections.virt.placement.plugins.modules import placement_info
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import CHECKOUT, RunModule
from tests.page_commands import run_as_printed
from tests.shop import Shop
from tests.vsphere import VsphereRules, name_in_vcenter

EXPORTS = CHECKOUT / "tests" / "unit" / "drs" / "exports" / "vcsim"
HOSTS = {f"esx{n}.example.com": f"w{n}" for n in range(1, 7)}
FILES = [str(path) for path in sorted(EXPORTS.glob("*.json"))]
SATISFIED = {
    "w1": ("app", "db.prod", "cache", "lone"),
    "w2": ("SAP HANA", "sap-app", "Legacy VM (old)", "mail-1"),
    "w3": ("WEB_1", "mail-2", "build"),
    "w4": ("WEB_2", "batch"),
    "w5": ("WEB_3",),
}
ARRIVED = {
    "w1": ("db.prod", "cache", "lone", "sap-app"),
    "w2": ("SAP HANA", "Legacy VM (old)"),
    "w3": ("WEB_1", "WEB_2", "mail-1", "mail-2", "build"),
    "w4": ("batch",),
    "w5": ("WEB_3", "app"),
}
"""Where Forklift leaves the VMs."""
VIOLATED = {"app with db", "cache with app", "mail apart", "sap together", "web apart"}
RENAMED = "lone"
"""A VM that nothing in the cluster shows to be this one."""
GUIDE = CHECKOUT / "docs" / "from-vsphere.md"
OF_MIGRATION = {"podAntiAffinity"}
"""KubeVirt keeps the target of a migration off the node of its source."""
BROKEN = ("violated", "preference_not_met")


@pytest.fixture
def shop(six: Sandbox, namespace: MakeNamespace, run_module: RunModule) -> t.Iterator[Shop]:
    yield Shop(six, namespace(six, "drs"), run_module)
    six.restore_nodes()


@pytest.fixture
def export() -> VsphereRules:
    return VsphereRules.read(EXPORTS, HOSTS)


def test_commands_of_the_page_lead_to_rules_of_which_each_broken_one_is_red_and_back(
    shop: Shop, export: VsphereRules, tmp_path: Path
) -> None:
    """Broken by the move, of one VM or of VMs that belong together, that breaks the fewest other rules."""
    placed = {vm: node for node, names in ARRIVED.items() for vm in names}
    assert set(export.broken(placed)) == VIOLATED
    vms = start_migrated_vms(shop, export, placed)
    page, before = Page(shop, tmp_path), everything(shop)
    page.import_rules(vms)
    checks, writes = page.commands("## 4. Check", "check mode"), page.commands("## 4. Check")
    assert len(checks) == 2
    page.run(checks[0], writes=False)
    page.run(*writes[:2])
    page.run(checks[1], writes=False)

    page.run(*writes[2:])

    verdicts = red(shop, export)
    assert verdicts == export.broken({vm: shop.nodes()[name] for vm, name in vms.items()})
    assert set(verdicts.values()) <= {"preference_not_met"}
    page.run(*writes, writes=False)
    satisfy(shop, export, vms)
    assert_each_broken_rule_is_red_and_no_other(shop, export, vms)

    page.take_back()

    assert everything(shop) == before


def satisfy(shop: Shop, export: VsphereRules, vms: t.Mapping[str, str]) -> None:
    """Moves VMs until no preference is missed either."""
    for node, names in SATISFIED.items():
        for vm in names:
            if shop.nodes()[vms[vm]] != node:
                force(shop, vms[vm], node)
    assert red(shop, export) == {}


def assert_each_broken_rule_is_red_and_no_other(
    shop: Shop, export: VsphereRules, vms: t.Mapping[str, str]
) -> None:
    placed = {vm: node for node, names in SATISFIED.items() for vm in names}
    alone: set[str] = set()
    together: set[str] = set()
    for rule in export.rules:
        move, broken = export.smallest_break(rule, placed)
        for vm, node in move.items():
            force(shop, vms[vm], node)

        assert red(shop, export) == broken, (rule, move)
        (alone if set(broken) == {rule} else together).add(rule)
        for vm in move:
            force(shop, vms[vm], placed[vm])
    assert red(shop, export) == {}
    # two are the same rule twice; no node that has the GPU is in site A
    doubled = {"batch / build apart", "batch-build apart", "legacy not on gpu"}
    assert together == doubled
    assert alone | together == set(export.rules)


class Page:
    """Runs the commands of the guide. The names of its files, namespace and nodes are replaced by those of the test."""

    def __init__(self, shop: Shop, folder: Path) -> None:
        self._shop, self._folder = shop, folder
        self._text = GUIDE.read_text()
        self.output = ""

    @property
    def imported(self) -> Path:
        return self._folder / "imported"

    def commands(self, heading: str, only: str = "") -> list[str]:
        """Those of the first block below a heading, with the path of the folder. `only` check mode, or the others."""
        (block,) = re.findall(rf"^{heading}.*?^```console\n(.*?)^```$", self._text, re.M | re.S)[:1]
        lines = [re.sub(r" +# .*", "", line) for line in block.splitlines()]
        return [
            self._replaced(line)
            for line in lines
            if not line.startswith("cd ") and ("--check" in line) is bool(only)
        ]

    def import_rules(self, vms: t.Mapping[str, str]) -> None:
        """With the variables of the page, of which each is replaced by the value for this export."""
        (block,) = re.findall(r"^```yaml\n# import.yml\n(.*?)^```$", self._text, re.M | re.S)
        given = {
            "placement_drs_import_files": FILES,
            "placement_drs_import_folder": str(self.imported),
            "placement_drs_import_namespace": self._shop.namespace,
            "placement_drs_import_host_groups": {
                "site B": [HOSTS[f"esx{n}.example.com"] for n in (4, 5, 6)]
            },
            "placement_drs_import_vm_names": {RENAMED: f"{self._shop.namespace}/{vms[RENAMED]}"},
        }
        assert list(yaml.safe_load(block)) == list(given)
        variables = {**given, "placement_drs_import_host_names": HOSTS}
        (self._folder / "import.yml").write_text(yaml.safe_dump(variables))
        self.imported.mkdir()
        (command,) = self.commands("## 2. Import")
        self.run(command.replace("@import.yml", "@../import.yml"), writes=False)
        assert {path.name for path in self.imported.iterdir()} == {
            "node_labels.yml",
            "report.txt",
            f"rules-{self._shop.namespace}.yml",
            "vm_labels.yml",
        }

    def take_back(self) -> None:
        """The last command stands for each label."""
        *commands, topology = self.commands("To take the import back")
        self.run(*commands)
        labels = yaml.safe_load((self.imported / "node_labels.yml").read_text())
        for key, nodes in labels["placement_topology_per_value"].items():
            listed = json.dumps(sorted(name for names in nodes.values() for name in names))
            command = topology.replace('["worker-1", "worker-2"]', listed)
            self.run(command.replace("drs.placement.virt/licensed-hosts", key))

    def run(self, *commands: str, writes: bool = True) -> None:
        """`writes`: whether they may write to the cluster."""
        mark = self._shop.sandbox.audit.mark()
        for command in commands:
            done = run_as_printed(self._shop.sandbox, command, "labeler-mover", self.imported)
            self.output = done.stdout
            assert done.returncode == 0, f"{command}\n{done.stdout}"
        assert writes or self._shop.sandbox.audit.writes(since=mark) == []

    def _replaced(self, line: str) -> str:
        namespace = self._shop.namespace
        line = line.replace('["shop"]', json.dumps([namespace])).replace('"shop"', f'"{namespace}"')
        line = line.replace(" -n shop ", f" -n {namespace} ")
        return line.replace("rules-shop.yml", f"rules-{namespace}.yml")


def everything(shop: Shop) -> dict[str, t.Any]:
    """What the import may write to VMs, their VMIs and pods, and nodes."""
    found: dict[str, t.Any] = {}
    for vm in shop.api.list(shop.path("VirtualMachine")):
        found[f"VM {vm['metadata']['name']}"] = (*own_metadata(vm), vm["spec"])
    for name, vmi in shop.instances().items():
        found[f"VMI {name}"] = (*own_metadata(vmi), vmi["spec"])
    for pod in shop.api.list(shop.path("Pod")):
        if pod["status"]["phase"] == "Running":
            name = pod["metadata"]["labels"]["vm.kubevirt.io/name"]
            affinity = pod["spec"].get("affinity", {})
            required = affinity.get("nodeAffinity")
            found[f"pod {name}"] = (
                *own_metadata(pod),
                required,
                sorted({*affinity} - OF_MIGRATION),
            )
    for node in shop.api.list("/api/v1/nodes"):
        found[f"node {node['metadata']['name']}"] = own_metadata(node)
    return found


def own_metadata(manifest: t.Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    """Labels and annotations without those that KubeVirt and Kubernetes keep."""
    return tuple(
        {
            key: value
            for key, value in (manifest["metadata"].get(part) or {}).items()
            if not re.match(r"([\w.-]+\.)?(kubevirt|kubernetes)\.io/", key)
        }
        for part in ("labels", "annotations")
    )


def start_migrated_vms(
    shop: Shop, export: VsphereRules, placed: t.Mapping[str, str]
) -> dict[str, str]:
    """VMs on these nodes as Forklift leaves them, by their name in vCenter."""
    names = {}
    for node in sorted(set(placed.values())):
        made = []
        for source in (vm for vm, there in placed.items() if there == node):
            names[source] = "renamed" if source == RENAMED else forklift_name(source)
            vm = objects.virtual_machine(names[source], shop.namespace, cpu="100m", memory="64Mi")
            if names[source] != source and source != RENAMED:
                names[source] += "-x7qz"
                vm["metadata"]["name"] = names[source]
                vm["metadata"]["annotations"] = {
                    "openshift.io/display-name": source,
                    "original-ID": export.vms[source],
                }
            made.append(vm)
        shop.start(*made, nodes=[node])
    return names


def force(shop: Shop, vm: str, node: str) -> None:
    """Migrate a VM to a node. If the scheduler refuses that, its pod is bound to the node nevertheless."""
    migration = objects.migration(vm, shop.namespace)
    migration["spec"]["addedNodeSelector"] = {"kubernetes.io/hostname": node}
    created = shop.api.create(shop.path("VirtualMachineInstanceMigration"), migration)
    label = f"kubevirt.io/migrationJobUID={created['metadata']['uid']}"

    def decided(pods: list[dict[str, t.Any]]) -> bool:
        return any(pod["spec"].get("nodeName") or conditions(pod) for pod in pods)

    (pod,) = shop.api.wait_list(f"{shop.path('Pod')}?labelSelector={label}", decided, 30)
    if not pod["spec"].get("nodeName"):
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        shop.api.create(f"{shop.path('Pod', name)}/binding", body)
    path = shop.path("VirtualMachineInstance", vm)
    shop.api.wait(lambda vmi: vmi["status"]["nodeName"] == node, path, 60)
    shop.wait_ready(len(shop.instances()))


def conditions(pod: dict[str, t.Any]) -> list[str]:
    return [c["type"] for c in pod.get("status", {}).get("conditions") or []]


def red(shop: Shop, export: VsphereRules) -> dict[str, str]:
    """The rules that are not satisfied, by their name in vCenter, as placement_info reports them."""
    found = shop.done(placement_info.main, "reader", namespaces=[shop.namespace])
    verdicts = {
        (rule["rule"].rpartition("/")[2], rule["verdict"])
        for instance in found["instances"]
        for rule in instance["rules"]
        if rule["verdict"] in BROKEN
    }
    return {name_in_vcenter(name, export.rules): verdict for name, verdict in verdicts}
