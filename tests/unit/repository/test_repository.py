# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of manifests, charts, patches and other files: what is linted, and what is passed over and why."""

from __future__ import annotations

import json
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.lint import run
from ansible_collections.virt.placement.plugins.module_utils.flows.manifest_files import (
    documents_of,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from tests.support.manifests import workload
from tests.support.modules import bounded
from tests.unit.lint.documented import MISTAKE_OF
from tests.unit.repository.repository import FILES, write_repository

JSON = t.Any
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def lint(*files: Path, **options: JSON) -> tuple[JSON, list[str]]:
    """The result of lint_info without a cluster, and its warnings."""
    warnings: list[str] = []
    params = {
        "files": [str(file) for file in files],
        "exclude": [],
        "exclude_namespaces": [],
        "manifests": [],
        "rules": [],
        "namespace": "default",
        "rule_set": "default",
        "topology_keys": {},
        "cluster_uid": None,
        "timeout": 60,
        "kubernetes_version": None,
        "kubevirt_version": None,
        "assume_node_labels": {},
        "new_members": "none",
        **options,
    }
    module = types.SimpleNamespace(params=params, warn=warnings.append)
    return run(t.cast(t.Any, module)), warnings


def write(folder: Path, files: t.Mapping[str, str]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def by_reason(result: JSON) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in result["passed_over"]:
        found.setdefault(entry["reason"], []).extend(x["where"] for x in entry["documents"])
    return found


def errors(*files: Path, **options: JSON) -> list[str]:
    with pytest.raises(InvalidInput) as refused:
        lint(*files, **options)
    return [str(error) for error in refused.value.errors]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_repository(tmp_path / "repo")
    return Path("repo")


def test_repository_has_the_findings_of_its_manifests(repository: Path) -> None:
    assert len(FILES) > 24

    result, _warnings = lint(repository)

    found = {(f["name"], f["severity"]): f["objects"] for f in result["findings"]}
    without_selector = found.pop(("selector_matches_nothing", "error"))
    assert without_selector == [
        "CronJob default/nightly",
        "Job default/once",
        "KubevirtMachineTemplate default/${CLUSTER_NAME}-workers",
        "PodTemplate default/form",
        "ReplicaSet default/trio",
        "ReplicationController default/old",
        "VirtualMachine default/fedora",
    ]
    zone = [f["objects"] for f in result["findings"] if f["name"] == "no_node_has_key"]
    assert sorted(zone) == [["Deployment books/ledger"], ["Pod default/one"]]
    invalid = {
        f["objects"][0]: f["why"] for f in result["findings"] if f["name"] == "invalid_manifest"
    }
    assert invalid == {
        "Deployment books/level": "repo/apps/level.yaml (Deployment level), spec: unknown field 'nodeSelector': it"
        " belongs into spec.template.spec: indent it.",
        "Deployment books/wrong": "repo/apps/wrong.yaml (Deployment wrong), spec.template.spec: unknown field"
        " 'nodeSelecter'; did you mean 'nodeSelector'?",
    }
    names = {"selector_matches_nothing", "no_node_has_key", "invalid_manifest", "rollout_deadlock"}
    assert {f["name"] for f in result["findings"]} == names
    assert (result["ok"], result["counts"]["objects"]) == (False, 11)


def test_repository_has_one_line_of_what_was_passed_over(repository: Path) -> None:
    result, warnings = lint(repository)

    (line,) = [warning for warning in warnings if warning.startswith("not checked")]
    assert "\n" not in line
    for part in (
        "2 Helm templates (repo/chart/templates/deployment.yaml and 1 more; lint the output of helm template)",
        "1 Go template",
        "1 Jinja template",
        "2 templates with variables such as ${NAME} (repo/envsubst/pod.yaml and 1 more",
        "3 patches or incomplete objects (repo/overlays/ops.yaml and 2 more; lint the output of kubectl kustomize)",
        "5 documents without apiVersion or kind",
        "1 list that is no object (repo/.github/labels.yml)",
        "1 text that is no object (repo/notes.yaml)",
        "1 file that is not valid YAML (repo/broken.yaml: line 2, column 2: ",
        "2 objects with placement fields of kinds that lint does not know (1 Kafka.kafka.strimzi.io,"
        " 1 Prometheus.monitoring.coreos.com)",
    ):
        assert part in line, (part, line)
    found = by_reason(result)
    assert found["patch"] == [
        "repo/overlays/ops.yaml",
        "repo/overlays/partial.yaml",
        "repo/overlays/size.yaml",
    ]
    assert found["no_kind"] == [
        "repo/.github/workflows/ci.yml",
        "repo/apps/anchors.yaml, document 1",
        "repo/chart/Chart.yaml",
        "repo/chart/values.yaml",
        "repo/overlays/kustomization.yaml",
    ]
    counts = {(x["reason"], x["kind"]): x["count"] for x in result["passed_over"]}
    assert counts["no_placement", ""] == 4, "a Service, a ConfigMap and two definitions"
    assert result["counts"]["passed_over"] == sum(counts.values()) == 23
    kafka = next(x for x in result["passed_over"] if x["kind"].startswith("Kafka"))
    assert kafka["fields"] == ["tolerations"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("chart/templates/deployment.yaml", "is not valid YAML: line 7, column "),
        (".github/labels.yml", "must be a Kubernetes object, not a list"),
        ("notes.yaml", "must be a Kubernetes object, not 'only text'"),
        ("broken.yaml", "is not valid YAML: line 2, column 2: "),
        ("apps/wrong.yaml", "unknown field 'nodeSelecter'; did you mean 'nodeSelector'?"),
        ("envsubst/replicas.yaml", "spec.replicas: must be a whole number, not '${COUNT}'"),
    ],
)
def test_file_that_is_named_by_itself_is_still_an_error(
    repository: Path, name: str, message: str
) -> None:
    (error,) = errors(repository / name)
    assert message in error


def test_field_01_a_template_does_not_hide_the_findings(tmp_path: Path) -> None:
    names = ("apps/ledger.yml", "chart/templates/deployment.yaml", ".github/labels.yml")
    result, warnings = lint(write(tmp_path, {name: FILES[name] for name in names}))

    found = {(f["name"], f["severity"]) for f in result["findings"]}
    assert found == {("no_node_has_key", "error"), ("rollout_deadlock", "warning")}
    assert set(by_reason(result)) == {"helm_template", "list"}
    assert sum(warning.startswith("not checked: 1 Helm template") for warning in warnings) == 1


def test_field_02_a_definition_with_an_equals_sign(tmp_path: Path) -> None:
    names = ("apps/ledger.yml", "monitoring/crd.yaml", "monitoring/enum.yaml")
    result, warnings = lint(write(tmp_path, {name: FILES[name] for name in names}))

    found = {(f["name"], f["severity"]) for f in result["findings"]}
    assert found == {("no_node_has_key", "error"), ("rollout_deadlock", "warning")}
    assert by_reason(result) == {"no_placement": []}
    assert not any(warning.startswith("not checked") for warning in warnings)


PLACEMENT_07 = """apiVersion: apps/v1
kind: {kind}
metadata:
  name: {name}
spec:
  selector:
    matchLabels:
      app: {name}
  template:
    metadata:
      labels:
        app: {name}
    spec:
{spec}
      containers: []
"""
SPREAD_07 = """      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
          matchLabels:
            app: queue"""
ANTI_07 = """      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - labelSelector:
              matchExpressions:
                - {key: app, operator: In, values: [gate]}
              topologyKey: kubernetes.io/hostname"""


def test_field_07_a_selector_that_is_one_level_too_high(tmp_path: Path) -> None:
    files = {
        "queue.yaml": PLACEMENT_07.format(kind="StatefulSet", name="queue", spec=SPREAD_07),
        "gate.yaml": PLACEMENT_07.format(kind="Deployment", name="gate", spec=ANTI_07),
        "ledger.yml": FILES["apps/ledger.yml"],
    }
    result, _warnings = lint(write(tmp_path, files))

    why = {f["objects"][0]: f["why"] for f in result["findings"] if f["name"] == "invalid_manifest"}
    assert why["StatefulSet default/queue"].endswith(
        "topologySpreadConstraints[0]: unknown field 'matchLabels': it belongs into labelSelector, which is empty"
        " here: indent it."
    )
    assert why["Deployment default/gate"].endswith(
        f"{REQUIRED}[0]: unknown field 'matchExpressions': it belongs into labelSelector, which is empty here:"
        " indent it."
    )
    assert "no_node_has_key" in {f["name"] for f in result["findings"]}, "the rest is checked"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "nodeAffinity: {}",
            "spec: unknown field 'nodeAffinity': it belongs into affinity, which is missing here",
        ),
        (
            "affinity: {nodeSelector: {a: b}}",
            "affinity: unknown field 'nodeSelector': it belongs beside affinity, not into it: move it one level out",
        ),
        (
            "affinity: {nodeAffinity: {nodeSelectorTerms: []}}",
            f"nodeAffinity: unknown field 'nodeSelectorTerms': it belongs into {REQUIRED}, which is missing here",
        ),
        (
            f"affinity: {{nodeAffinity: {{{REQUIRED}: {{matchExpressions: []}}}}}}",
            "unknown field 'matchExpressions': it belongs into an entry of nodeSelectorTerms, which is missing here",
        ),
        (
            f"affinity: {{podAffinity: {{{REQUIRED}: [{{labelSelector: {{topologyKey: a/b}}}}]}}}}",
            "labelSelector: unknown field 'topologyKey': it belongs beside labelSelector, not into it",
        ),
        (
            "affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution:"
            " [{weight: 1, topologyKey: a/b, podAffinityTerm: {labelSelector: {}}}]}}",
            "unknown field 'topologyKey': it belongs into podAffinityTerm: indent it",
        ),
        (
            "containers: [{name: a, tolerations: []}]",
            "containers[0]: unknown field 'tolerations': it belongs into spec: move it out of containers",
        ),
    ],
)
def test_field_at_the_level_of_a_neighbor_says_where_it_belongs(
    tmp_path: Path, spec: str, message: str
) -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\nspec:\n  {spec}\n"
    more = "" if "containers" in spec else "  containers: []\n"
    result, _warnings = lint(write(tmp_path, {"pod.yaml": text + more}))

    (finding,) = result["findings"]
    assert message in finding["why"]


def test_field_beside_the_spec_of_a_pod_says_where_it_belongs(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nnodeSelector: {a/b: c}\nspec: {containers: []}\n"
    result, _warnings = lint(write(tmp_path, {"pod.yaml": text}))

    (finding,) = result["findings"]
    assert finding["why"].endswith("unknown field 'nodeSelector': it belongs into spec: indent it.")


VM_WITH_SPEC_IN_METADATA = """apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: desk}
spec:
  runStrategy: Always
  template:
    metadata:
      labels: {app: desk}
      spec:
        tolerations: [{key: example.com/gpu, operator: Exists}]
    domain:
      devices: {}
"""


def test_object_with_its_spec_at_a_wrong_level_is_no_patch(tmp_path: Path) -> None:
    file = write(tmp_path, {"desk.yaml": VM_WITH_SPEC_IN_METADATA}) / "desk.yaml"
    result, _warnings = lint(tmp_path)

    message = (
        "desk.yaml (VirtualMachine desk), spec.template.metadata: unknown field 'spec': it belongs"
        " beside metadata: move it one level out"
    )
    beside = "spec.template: unknown field 'domain': it belongs into spec.template.spec: indent it"
    found = [(f["name"], f["why"].partition("/desk")[0] and f["why"]) for f in result["findings"]]
    assert [name for name, _why in found] == ["invalid_manifest", "invalid_manifest"]
    assert found[0][1].endswith(f"{message}.") and found[1][1].endswith(f"{beside}.")
    assert not result["ok"] and "patch" not in by_reason(result)
    first, second = errors(file)
    assert first.endswith(message) and second.endswith(beside)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "metadata: {name: x, spec: {nodeName: a}}\nspec: {containers: []}",
            "metadata: unknown field 'spec': it belongs beside metadata: move it one level out",
        ),
        (
            "metadata: {name: x}\ncontainers: []\nspec: {nodeSelector: {a/b: c}}",
            "unknown field 'containers': it belongs into spec: indent it",
        ),
    ],
)
def test_pod_with_its_spec_at_a_wrong_level(tmp_path: Path, text: str, message: str) -> None:
    result, _warnings = lint(write(tmp_path, {"pod.yaml": f"apiVersion: v1\nkind: Pod\n{text}\n"}))

    (finding,) = result["findings"]
    assert message in finding["why"], finding["why"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("template:", "templates:", "spec: unknown field 'templates': did you mean 'template'?"),
        ("spec:", "specs:", "VirtualMachine x): unknown field 'specs': did you mean 'spec'?"),
        ("template:", "templateRef:", ""),
    ],
)
def test_object_whose_template_is_misspelt_is_no_patch(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    text = (
        "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: x}\n"
        "spec:\n  template: {spec: {domain: {}}}\n"
    )
    result, _warnings = lint(write(tmp_path, {"vm.yaml": text.replace(old, new, 1)}))

    assert [f["why"].endswith(message) for f in result["findings"]] == [True] * bool(message)
    assert ("patch" in by_reason(result)) is not bool(message)


HOLDERS = {
    "manifestwork": """apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: x, namespace: edge-1}
spec:
  workload:
    manifests:
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {name: pump, namespace: pumps}
        spec: SPEC
""",
    "csv": """apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: pump.v1, namespace: pumps}
spec:
  install:
    strategy: deployment
    spec:
      deployments:
        - name: pump
          label: {team: water}
          spec: SPEC
""",
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_deployments_inside_of_objects_of_operators_are_linted(tmp_path: Path, holder: str) -> None:
    spec = (
        "{selector: {matchLabels: {app: pump}}, template: {metadata: {labels: {app: pump}}, spec: {containers: [],"
        " nodeSelector: {topology.kubernetes.io/zones: a}}}}"
    )
    text = HOLDERS[holder].replace("SPEC", spec)
    result, _warnings = lint(write(tmp_path, {"held.yaml": text}))

    (finding,) = result["findings"]
    assert (finding["name"], finding["objects"]) == ("no_node_has_key", ["Deployment pumps/pump"])
    assert result["passed_over"] == []


def test_service_version_without_deployments_is_counted(tmp_path: Path) -> None:
    text = HOLDERS["csv"].partition("  install:")[0] + "  tolerations: [{key: a}]\n"
    result, _warnings = lint(write(tmp_path, {"held.yaml": text}))

    assert [x["kind"] for x in result["passed_over"]] == [
        "ClusterServiceVersion.operators.coreos.com"
    ]


VENDORED_POD = """apiVersion: v1
kind: Pod
metadata: {name: nginx, uid: "1"}
spec: {nodeName: gke-1, containers: []}
status: {phase: Running}
"""


def test_vendored_folders_say_nothing_about_the_cluster(tmp_path: Path) -> None:
    files = {
        "deploy/web.yaml": _web("role.example.com/fast"),
        "vendor/modules.txt": "",
        "vendor/k8s.io/managedfields/node.yaml": "apiVersion: v1\nkind: Node\nmetadata: {name: gke-1}\n",
        "vendor/k8s.io/managedfields/pod.yaml": VENDORED_POD,
        "ui/node_modules/a/pod.yaml": VENDORED_POD,
        "charts/vendor/pod.yaml": VENDORED_POD,
    }
    result, warnings = lint(write(tmp_path, files))

    vendored = [str(tmp_path / name) for name in ("ui/node_modules", "vendor")]
    assert sorted(by_reason(result)["vendored"]) == vendored
    assert (result["counts"]["nodes"], result["counts"]["objects"]) == (0, 2)
    assert not any("no_node_has_key" in warning for warning in warnings), "no Node manifest counts"
    assert any("2 folders of vendored code" in warning for warning in warnings)
    result, _warnings = lint(tmp_path / "vendor")
    assert result["counts"]["nodes"] == 1, "a folder that is named by itself is read"


def _web(key: str) -> str:
    return _deployment_text(
        f"      nodeSelector: {{{key}: 'yes'}}\n"
        "      affinity:\n"
        "        podAffinity:\n"
        f"          {REQUIRED}:\n"
        "            - topologyKey: kubernetes.io/hostname\n"
        "              labelSelector: {matchLabels: {app: cache}}\n"
    )


def _deployment_text(placement: str) -> str:
    return (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n"
        "  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n"
        f"    spec:\n{placement}      containers: []\n"
    )


def test_manifest_of_a_pod_with_a_node_name_is_no_running_pod(tmp_path: Path) -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: probe}\nspec: {nodeName: w1, containers: []}\n"
    )
    result, _warnings = lint(write(tmp_path, {"web.yaml": _web("example.com/a"), "pod.yaml": pod}))

    found = {f["name"] for f in result["findings"]}
    assert "selector_matches_nothing" not in found, "the pods of the cluster are not known"


def test_nodes_of_a_folder_are_named(tmp_path: Path) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: w1}\n"
    folder = write(tmp_path, {"web.yaml": _web("example.com/a"), "nodes/w1.yaml": node})
    result, warnings = lint(folder)

    assert "no_node_has_key" in {f["name"] for f in result["findings"]}
    (line,) = [warning for warning in warnings if "Node manifest" in warning]
    assert line == (
        f"1 Node manifest ({folder / 'nodes/w1.yaml'}) counts as all nodes of the cluster: exclude it if there are"
        " others"
    )
    _result, warnings = lint(folder, exclude=["nodes/"])
    assert not any("Node manifest" in warning for warning in warnings)
    _result, warnings = lint(folder / "web.yaml", folder / "nodes/w1.yaml")
    assert not any("Node manifest" in warning for warning in warnings), "named by themselves"


def test_pods_of_a_cluster_in_a_folder_are_named(tmp_path: Path) -> None:
    """With them required affinity to other pods is an error."""
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, uid: u1}\nspec: {nodeName: w1, containers: []}\n"
    folder = write(tmp_path, {"a.yaml": pod, "b.yaml": pod.replace("u1", "u2"), "c.json": "{}"})

    _result, warnings = lint(folder)

    (line,) = [warning for warning in warnings if "Pod manifest" in warning]
    assert line == (
        f"2 Pod manifests ({folder / 'a.yaml'} and 1 more) count as all pods of the cluster: exclude them if there are"
        " others"
    )
    _result, warnings = lint(folder / "a.yaml")
    assert not any("Pod manifest" in warning for warning in warnings), "named by itself"


def test_field_18_kinds_with_a_template_are_linted_and_others_counted(tmp_path: Path) -> None:
    names = (
        "apps/cron.yaml",
        "apps/trio.yaml",
        "vms/catalog.yaml",
        "vms/machines.yaml",
        "operators/kafka.yaml",
    )
    result, warnings = lint(write(tmp_path, {name: FILES[name] for name in names}))

    (finding,) = result["findings"]
    assert (finding["name"], len(finding["objects"])) == ("selector_matches_nothing", 6)
    assert (result["counts"]["objects"], result["counts"]["passed_over"]) == (6, 1)
    assert [(x["reason"], x["kind"], x["fields"]) for x in result["passed_over"]] == [
        ("other_kind", "Kafka.kafka.strimzi.io", ["tolerations"])
    ]
    assert any("1 object with placement fields of kinds" in warning for warning in warnings)


KINDS_OF_VMS = {
    "kubevirt.io/v1 VirtualMachine": "spec.template",
    "kubevirt.io/v1 VirtualMachineInstance": "",
    "kubevirt.io/v1 VirtualMachineInstanceReplicaSet": "spec.template",
    "pool.kubevirt.io/v1beta1 VirtualMachinePool": "spec.virtualMachineTemplate.spec.template",
    "infrastructure.cluster.x-k8s.io/v1alpha1 KubevirtMachine": "spec.virtualMachineTemplate.spec.template",
    "infrastructure.cluster.x-k8s.io/v1alpha1 KubevirtMachineTemplate": (
        "spec.template.spec.virtualMachineTemplate.spec.template"
    ),
    "harvesterhci.io/v1beta1 VirtualMachineTemplateVersion": "spec.vm.spec.template",
    "template.kubevirt.io/v1alpha1 VirtualMachineTemplate": "spec.virtualMachine.spec.template",
}
KINDS_OF_PODS = {
    "v1 Pod": "",
    "v1 PodTemplate": "template",
    "v1 ReplicationController": "spec.template",
    "apps/v1 Deployment": "spec.template",
    "extensions/v1beta1 Deployment": "spec.template",
    "apps/v1 StatefulSet": "spec.template",
    "apps/v1 DaemonSet": "spec.template",
    "apps/v1 ReplicaSet": "spec.template",
    "batch/v1 Job": "spec.template",
    "batch/v1 CronJob": "spec.jobTemplate.spec.template",
    "apps.openshift.io/v1 DeploymentConfig": "spec.template",
    "argoproj.io/v1alpha1 Rollout": "spec.template",
    "serving.knative.dev/v1 Service": "spec.template",
}


def of_kind(kind: str, path: str, spec: JSON) -> JSON:
    inner: JSON = {"metadata": {"labels": {"app": "x"}}, "spec": spec}
    for part in reversed(path.split(".") if path else []):
        inner = {part: inner}
    version, name = kind.split()
    inner.setdefault("metadata", {})["name"] = "x"
    return {"apiVersion": version, "kind": name, **inner}


@pytest.mark.parametrize("kind", [*KINDS_OF_VMS, *KINDS_OF_PODS])
def test_template_of_each_kind_is_linted(kind: str) -> None:
    term = {"topologyKey": "topology.kubernetes.io/zone"}
    spec = {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}, "domain": {}, "containers": []}
    item = of_kind(kind, {**KINDS_OF_VMS, **KINDS_OF_PODS}[kind], spec)

    result, _warnings = lint(manifests=[item])

    assert "selector_matches_nothing" in {f["name"] for f in result["findings"]}
    assert (result["counts"]["objects"], result["counts"]["passed_over"]) == (1, 0)


@pytest.mark.parametrize(
    "kind",
    [
        "example.com/v1 Deployment",
        "batch.volcano.sh/v1alpha1 Job",
        "v1 Service",
        "example.com/v1 Pod",
    ],
)
def test_kind_of_another_group_is_not_taken_for_a_kind_that_is_known(kind: str) -> None:
    spec = {"tolerations": [{"operator": "Exists"}]}
    result, _warnings = lint(manifests=[of_kind(kind, "spec.template", spec)])

    assert result["counts"]["objects"] == 0
    assert [x["reason"] for x in result["passed_over"]] == ["other_kind"]


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("batch/v1 Job", "batch.kubernetes.io/job-name"),
        (
            "infrastructure.cluster.x-k8s.io/v1alpha1 KubevirtMachineTemplate",
            "cluster.x-k8s.io/role",
        ),
        ("argoproj.io/v1alpha1 Rollout", "rollouts-pod-template-hash"),
    ],
)
def test_labels_that_a_controller_sets_are_labels_of_the_pods(kind: str, label: str) -> None:
    constraint = {
        "topologyKey": "topology.kubernetes.io/zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {label: "x"}},
    }
    spec = {"topologySpreadConstraints": [constraint], "domain": {}, "containers": []}
    result, _warnings = lint(
        manifests=[of_kind(kind, {**KINDS_OF_VMS, **KINDS_OF_PODS}[kind], spec)]
    )

    assert "template_and_selector_disagree" not in {f["name"] for f in result["findings"]}


def test_placeholders_in_labels_are_no_invalid_labels(tmp_path: Path) -> None:
    term = (
        "{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: '${X}-db'}}}"
    )
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: '${X}', labels: {app: '${X}-db'}}\n"
        f"spec:\n  affinity: {{podAntiAffinity: {{{REQUIRED}: [{term}]}}}}\n  containers: []\n"
    )
    result, warnings = lint(write(tmp_path, {"pod.yaml": text}))

    assert (result["findings"], result["counts"]["objects"]) == ([], 1)
    assert warnings == [
        f"1 manifest has a name or label that a template fills in ({tmp_path}/pod.yaml: '${{X}}'): what depends on"
        " its value is not checked. Lint the rendered files"
    ]


@pytest.mark.parametrize("value", ["${NAME}", "{{ name }}", "$(NAME)", "{% raw %}"])
@pytest.mark.parametrize("place", ["name", "namespace", "label", "template"])
def test_template_in_a_name_or_label_is_a_note(tmp_path: Path, value: str, place: str) -> None:
    """Also in a file that is named by itself; rendered, there is none."""

    def warnings_of(text: str) -> list[str]:
        labels = {"app": text if place == "template" else "web"}
        metadata: JSON = {"name": text if place == "name" else "web"}
        metadata |= {"namespace": text} if place == "namespace" else {}
        metadata |= {"labels": {"app": text}} if place == "label" else {}
        web = workload("Deployment", "web", labels, {"containers": []}, metadata=metadata)
        (tmp_path / "web.json").write_text(json.dumps(web))
        found, in_folder = [lint(path)[1] for path in (tmp_path / "web.json", tmp_path)]
        assert found == in_folder
        return found

    (note,) = warnings_of(value)
    assert f"a name or label that a template fills in ({tmp_path}/web.json: {value!r})" in note
    assert warnings_of("shop") == []


ROLE = "example.com/role"


def test_labels_that_the_kubelet_sets_are_not_those_of_the_manifest_of_a_node() -> None:
    """A Node manifest in Git has no label for the architecture, the operating system or the hostname."""
    names = ("w1", "w2", "w3")
    nodes: JSON = [{"kind": "Node", "metadata": {"name": x, "labels": {ROLE: "ci"}}} for x in names]
    arch = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
    affinity = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [arch]}]}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    spec: JSON = {
        "containers": [],
        "nodeSelector": {"kubernetes.io/os": "linux", ROLE: "ci"},
        "affinity": {"nodeAffinity": affinity, "podAntiAffinity": {REQUIRED: [term]}},
    }
    web = of_kind("apps/v1 Deployment", "spec.template", spec)
    web["spec"]["template"]["metadata"] = {"labels": {"app": "a"}}
    web["spec"] |= {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}}
    assert lint(manifests=[web, *nodes])[0]["findings"] == []

    web["spec"]["replicas"] = 4
    found = {finding["name"] for finding in lint(manifests=[web, *nodes])[0]["findings"]}
    assert "no_node_has_key" not in found and found
    spec["nodeSelector"][ROLE] = "db"
    found = {finding["name"] for finding in lint(manifests=[web, *nodes])[0]["findings"]}
    assert {"no_node_has_value", "unsatisfiable"} <= found
    nodes[0]["metadata"]["labels"]["kubernetes.io/os"] = "windows"
    spec["nodeSelector"][ROLE] = "ci"
    found = {finding["name"] for finding in lint(manifests=[web, *nodes])[0]["findings"]}
    assert "no_node_has_value" in found


KEY = "topology.kubernetes.io/zone"


def app(name: str, label: str, selector: str | None = None, *, own: str | None = None) -> JSON:
    """A Deployment with a term about the pods with the label `selector`, and that selects its own ones by `own`."""
    term = {"topologyKey": KEY, "labelSelector": {"matchLabels": {"app": selector or label}}}
    spec = {"containers": [], "affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
    selects = {"selector": {"matchLabels": {"app": own or label}}}
    return workload("Deployment", name, {"app": label}, spec, **selects)


@pytest.mark.parametrize("value", ["${APP}", "{{ .Values.app }}", "$(APP)"])
def test_value_that_a_template_fills_in_is_not_guessed(value: str) -> None:
    """Whether a term selects `APP` or any other value is not known, and nothing is said of it."""

    def names(*items: JSON) -> set[str]:
        return {finding["name"] for finding in lint(manifests=list(items))[0]["findings"]}

    wrong = {"template_and_selector_disagree"}
    assert wrong <= names(app("web", "web", "APP")) & names(app("web", "web", own="db"))
    assert names(app("web", value)) == names(app("web", "web")) == {"rollout_deadlock"}
    unknown = [
        [app("web", value, "APP")],
        [app("web", "APP", value)],
        [app("web", value, f"{value}-db")],
        [app("web", "web", own=value)],
        [app("web", value, own="web")],
        [app("web", "web", "db"), app("other", value)],
    ]
    assert [names(*items) & wrong for items in unknown] == [set()] * len(unknown)
    known = [app("web", "web", "db"), app("other", "cache")]
    assert wrong <= names(*known), "no template fills in a label"
    vm = app("web", value) | {"spec": {**app("web", value)["spec"], "replicas": 9}}
    assert "APP" not in str(lint(manifests=[vm])[0]).replace(value, "")


@pytest.mark.parametrize("spec", ["web", ["web"]])
def test_pod_without_a_map_as_its_spec_is_a_finding_beside_a_label_of_a_template(
    tmp_path: Path, spec: JSON
) -> None:
    metadata = {"name": "web", "labels": {"app": "${APP}"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    result, _warnings = lint(write(tmp_path, {"pod.json": json.dumps(pod)}))

    (finding,) = result["findings"]
    assert finding["name"] == "invalid_manifest"
    assert "spec: must be a map" in finding["why"]


@pytest.mark.parametrize(
    "selector",
    [
        {"matchExpressions": [{"key": "app"}]},
        {"matchExpressions": [{"operator": "In"}]},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": 5}]},
        {"matchExpressions": "app", "matchLabels": {"app": "${APP}"}},
        {"matchLabels": ["app"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
def test_invalid_selector_beside_a_label_of_a_template_is_no_exception(
    tmp_path: Path, kind: str, selector: JSON
) -> None:
    web = {**app("web", "${APP}"), "kind": kind}
    web["spec"]["selector"] = selector

    result, _warnings = lint(write(tmp_path, {"web.json": json.dumps(web)}))

    names = {finding["name"] for finding in result["findings"]}
    assert result["counts"]["objects"] == ("invalid_manifest" not in names)


def test_label_that_only_looks_like_a_stand_in_stays() -> None:
    web = app("web", "unrendered.placement.virt-7", "db")
    rule = {
        "name": "apart",
        "keep_apart": "zone",
        "workloads": [{"kind": "Deployment", "name": "web"}],
    }

    result, _warnings = lint(manifests=[web], rules=[rule])

    assert "unrendered.placement.virt-7" in str(result)


@pytest.mark.parametrize("place", ["nodeSelector", "topologyKey", "namespaces", "key"])
def test_object_with_a_place_that_a_template_fills_in_is_a_note(place: str) -> None:
    """Also one that is named by itself. It had errors about the text as it stands."""
    web = app("web", "web")
    spec = web["spec"]["template"]["spec"]
    (term,) = spec["affinity"]["podAntiAffinity"][REQUIRED]
    term |= {"topologyKey": "${X}"} if place == "topologyKey" else {}
    term |= {"namespaces": ["${X}"]} if place == "namespaces" else {}
    spec |= {"nodeSelector": {KEY: "${X}"}} if place == "nodeSelector" else {}
    spec |= {"tolerations": [{"key": "${X}", "operator": "Exists"}]} if place == "key" else {}
    result, warnings = lint(manifests=[web])
    assert (result["findings"], result["ok"]) == ([], True)
    assert by_reason(result) == {"variables": ["manifests[0]"]}
    assert any("1 template with variables such as ${NAME} (manifests[0]" in x for x in warnings)


def test_findings_show_the_text_that_a_template_fills_in() -> None:
    """A constraint over a misspelt key, whatever is filled in."""
    web = json.loads(
        json.dumps(app("web", "${APP}-1")).replace(KEY, "topology.kubernetes.io/zones")
    )
    rule = {
        "name": "apart",
        "workloads": [{"kind": "Deployment", "name": "web"}],
        "keep_apart": "zone",
    }
    result, _warnings = lint(manifests=[web], rules=[rule])
    assert "no_node_has_key" in {finding["name"] for finding in result["findings"]}
    assert "app" in str(result["rendered"]) and "${APP}-1" in str(result["rendered"])
    assert "unrendered" not in str(result)


@pytest.mark.parametrize("folder", [True, False])
@pytest.mark.parametrize("place", ["", "patches"])
def test_patch_that_a_kustomization_names_is_a_note(
    tmp_path: Path, folder: bool, place: str
) -> None:
    """Also of a file that is named by itself, and that looks like a whole object."""
    patch = Path(place, "patch.yaml")
    files = {
        "kustomization.yaml": f"patches: [{{path: ./{patch}}}, {{path: ops.json}}]\n",
        str(patch): POD.replace("containers: []", "containers: [{name: a}]") % "pod",
        "ops.json": '[{"op": "remove", "path": "/spec"}]',
    }
    write(tmp_path, files)
    paths = [tmp_path] if folder else [tmp_path / patch, tmp_path / "ops.json"]
    result, warnings = lint(*paths)
    assert (result["findings"], result["counts"]["objects"]) == ([], 0)
    (entry,) = (x for x in result["passed_over"] if x["reason"] == "patch")
    assert {(x["where"], x["why"]) for x in entry["documents"]} == {
        (str(tmp_path / patch), f"a patch of {'../' if place else ''}kustomization.yaml"),
        (str(tmp_path / "ops.json"), "a patch of kustomization.yaml"),
    }
    assert any("2 patches or incomplete objects" in x for x in warnings)


SIZE = {"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}}


def test_instance_type_that_is_not_there_is_a_note() -> None:
    spec: JSON = {"template": {"spec": {"domain": {}}}}
    vm = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "a"}}
    matchers: JSON = {"instancetype": {"name": "u1.medium"}, "preference": {"name": "fedora"}}
    group = {"apiVersion": "instancetype.kubevirt.io/v1beta1", "metadata": {"name": "u1.medium"}}
    kind = {**group, "kind": "VirtualMachineClusterInstancetype", "spec": SIZE}
    preference = {
        **group,
        "kind": "VirtualMachineClusterPreference",
        "metadata": {"name": "fedora"},
        "spec": {},
    }

    def note(*items: JSON, **options: JSON) -> list[str]:
        warnings = lint(manifests=[{**vm, "spec": {**spec, **matchers}}, *items], **options)[1]
        return [x for x in warnings if x.startswith("not read")]

    assert note() == [
        "not read: 2 of the instance types and preferences that VMs name (VirtualMachine default/a: instancetype"
        " u1.medium, VirtualMachine default/a: preference fedora). What they ask of nodes is not checked: add them to"
        " the files"
    ]
    assert "1 of the" in note(kind)[0] and "preference fedora" in note(kind)[0]
    assert note(kind, preference) == note(exclude_namespaces=["default"]) == []
    matchers["preference"] = {"inferFromVolume": "root"}
    assert "preference of its volume" in note(kind)[0]
    del matchers["preference"]
    matchers["instancetype"] = "u1"
    assert "instancetype" in note()[0]


@pytest.mark.parametrize("in_folder", [True, False])
def test_list_of_objects_is_read(tmp_path: Path, in_folder: bool) -> None:
    """As scripts write it: [{"kind": ...}, ...]."""
    specs = [{"containers": [], "nodeSelector": {"kubernetes.io/zone": x}} for x in "ab"]
    items = [of_kind("apps/v1 Deployment", "spec.template", spec) for spec in specs]
    file = tmp_path / "all.json"
    file.write_text(json.dumps(items))
    result, warnings = lint(tmp_path if in_folder else file)

    assert (result["counts"]["objects"], result["counts"]["passed_over"]) == (2, 0)
    assert {f["name"] for f in result["findings"]} == {"no_node_has_key"}
    assert not any("not checked" in x for x in warnings)


def test_items_of_a_typed_list_have_its_kind() -> None:
    item = of_kind(
        "apps/v1 Deployment", "spec.template", {"nodeSelector": {"kubernetes.io/zone": "a"}}
    )
    del item["kind"], item["apiVersion"]
    result, _warnings = lint(
        manifests={"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [item]}
    )

    assert {f["name"] for f in result["findings"]} == {"no_node_has_key"}


def test_the_last_of_several_manifests_of_a_node_counts() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1", "labels": {}}}
    labels = {"kubernetes.io/hostname": "w1"}
    result, _warnings = lint(
        manifests=[node, {**node, "metadata": {"name": "w1", "labels": labels}}] * 2
    )

    assert "duplicate_hostname" not in {f["name"] for f in result["findings"]}


@pytest.mark.parametrize(
    ("pattern", "excluded"),
    [
        ("chart", ["a/chart", "chart"]),
        ("chart/", ["a/chart", "chart"]),
        ("/chart", ["chart"]),
        ("a/x.yml", ["a/x.yml"]),
        ("a/*.yml", ["a/b/x.yml", "a/chart/c.yml", "a/x.yml"]),
        ("*/b", ["a/b"]),
        ("x.y?l", ["a/b/x.yml", "a/x.yml", "x.yml"]),
        ("[!a-w].yml", ["a/b/x.yml", "a/x.yml", "x.yml"]),
    ],
)
def test_pattern_is_that_of_a_name_or_of_a_path(
    tmp_path: Path, pattern: str, excluded: list[str]
) -> None:
    files = ["a/b/x.yml", "a/chart/c.yml", "a/x.yml", "chart/c.yml", "x.yml"]
    write(tmp_path, dict.fromkeys(files, POD % "pod"))
    read = documents_of([str(tmp_path)], [pattern], []).documents
    missing = set(files) - {str(Path(x.where).relative_to(tmp_path)) for x in read}
    assert missing == {x for x in files if any(x == y or x.startswith(f"{y}/") for y in excluded)}


@pytest.mark.parametrize("pattern", ["", "/", "!x.yml", "a/../x.yml", "x\\.yml", "nowhere"])
def test_pattern_that_matches_nothing_is_a_warning(tmp_path: Path, pattern: str) -> None:
    write(tmp_path, {"x.yml": POD % "pod"})
    _result, warnings = lint(tmp_path, exclude=[pattern])
    assert any(x.startswith(f"exclude: {pattern!r} matches nothing") for x in warnings)


@pytest.mark.parametrize("pattern", ["*a" * 20 + "b", "/" + "*a" * 40 + "b", "[a-c]*" * 20 + "x"])
def test_pattern_of_many_stars_ends(tmp_path: Path, pattern: str) -> None:
    write(tmp_path, {f"{'a' * 100}/{'a' * 200}.yml": POD % "pod"})
    with bounded():
        assert lint(tmp_path, exclude=[pattern])[0]["counts"]["objects"] == 1


DEEP = 100_000
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [], nodeSelector: {kubernetes.io/zone: a}}\n"
NOT_READ: dict[str, tuple[str | bytes, str]] = {
    "half.json": (
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\\ud800"}}',
        "half a char",
    ),
    "half.yaml": ('kind: Pod\nmetadata: {name: "a\\ud800"}\n', ""),
    "bytes.yaml": (b"kind: Pod\nmetadata: {name: a\xff}\n", "it is not UTF-8"),
    "deep.json": ("[" * DEEP + "]" * DEEP, "more than 200 deep"),
    "maps.json": ('{"a":' * DEEP + "1" + "}" * DEEP, "more than 200 deep"),
    "deep.yaml": ("a: " + "[" * DEEP, "more than 200 deep"),
    "block.yaml": ("".join(" " * n + "a:\n" for n in range(300)), "more than 200 deep"),
    "list.yaml": ("- " * 3000 + "a\n", ""),
}


@pytest.mark.parametrize("name", NOT_READ)
def test_one_document_that_cannot_be_read_hides_no_other(tmp_path: Path, name: str) -> None:
    """In a folder it is a note, and others beside it or after it in its file are checked; by itself it is one error."""
    content, why = NOT_READ[name]
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "pod.yaml").write_text(POD % "other")
    result, warnings = lint(tmp_path)

    (entry,) = [x for x in result["passed_over"] if x["reason"] != "no_placement"]
    assert entry["reason"] == "not_yaml"
    assert [x["where"].partition(",")[0] for x in entry["documents"]] == [str(file)]
    assert why in entry["documents"][0]["why"]
    assert [f["objects"] for f in result["findings"]] == [["Pod default/other"]]
    assert len([x for x in warnings if "not checked" in x]) == 1
    json.dumps(result, ensure_ascii=False).encode()
    (error,) = errors(file)
    assert why in error
    if isinstance(content, str) and name.startswith("half"):
        file.write_text(f"{content}\n---\n{POD % 'next'}")
        result, _warnings = lint(tmp_path)
        assert [f["objects"] for f in result["findings"]] == [
            ["Pod default/next", "Pod default/other"]
        ]


def test_object_of_the_option_that_cannot_be_read_is_an_error() -> None:
    deep: JSON = "a"
    for _level in range(5_000):
        deep = {"a": deep}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\ud800"}}
    first, second = errors(manifests=[{**pod, "spec": deep}, pod])
    assert "manifests[0]: lists and maps stand more than 200 deep" in first
    assert second == "manifests[1]: has half a character, such as \\ud800"


def test_excluded_files_are_not_read(repository: Path) -> None:
    exclude = ["chart/", "*.json", "/overlays", "nowhere/*.yml"]
    result, warnings = lint(repository, exclude=exclude)

    assert "helm_template" not in by_reason(result)
    assert "Pod default/one" not in str(result["findings"])
    (unused,) = [warning for warning in warnings if warning.startswith("exclude")]
    assert unused == (
        "exclude: 'nowhere/*.yml' matches nothing in the folders of files: correct or remove it"
    )


def test_a_folder_of_which_all_is_excluded_is_an_error(repository: Path) -> None:
    (error,) = errors(repository, exclude=["*"])
    assert error == "repo: the folder holds no file with .json, .yaml, .yml that is not excluded"


def test_documented_manifest_has_the_finding_in_a_folder(tmp_path: Path) -> None:
    entry = MISTAKE_OF["invalid_manifest"]
    found, _warnings = lint(write(tmp_path, {"web.yaml": entry.example}))
    fixed, _warnings = lint(write(tmp_path, {"web.yaml": entry.fix}))

    assert {f["name"] for f in found["findings"]} == {"invalid_manifest"}
    assert fixed["findings"] == []


def test_label_to_be_filled_in_is_found_above_the_template_of_a_vm(tmp_path: Path) -> None:
    (tmp_path / "vm.yaml").write_text(
        "apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: vm}\nobjects:\n"
        "  - apiVersion: kubevirt.io/v1\n    kind: VirtualMachine\n"
        "    metadata: {name: '${NAME}', labels: {app: '${NAME}'}}\n    spec:\n      template:\n"
        "        metadata: {labels: {kubevirt.io/domain: '${NAME}'}}\n        spec:\n"
        "          domain: {devices: {}}\n          affinity: {podAntiAffinity: {"
        "requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname,"
        " labelSelector: {matchLabels: {app: '${NAME}'}}}]}}\n"
    )

    result, _warnings = lint(tmp_path)

    (finding,) = result["findings"]
    assert finding["name"] == "selector_matches_nothing"
    assert "is a label of VirtualMachine default/${NAME} (metadata.labels)" in finding["why"]
