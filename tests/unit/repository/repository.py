# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository as people have them: manifests between charts, patches, configuration and broken files.

Its files are here as text, since linters would refuse many of them, and Git could change their line ends.
"""

from __future__ import annotations

from pathlib import Path


def _deployment(name: str, affinity: str = "", more: str = "") -> str:
    placement = f"      affinity:{affinity.rstrip()}\n" if affinity else ""
    return f"""apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: books
spec:
  replicas: 3
  selector:
    matchLabels:
      app: {name}
  template:
    metadata:
      labels:
        app: {name}
    spec:
{placement}{more}      containers:
        - name: {name}
          image: example.invalid/{name}:1
"""


_ZONE_TERM = """
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/zone
              labelSelector:
                matchLabels:
                  app: NAME
"""
_NO_SELECTOR = """
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: topology.kubernetes.io/zone
"""


def _indented(text: str, depth: int) -> str:
    return "".join(f"{' ' * depth}{line}\n" for line in text.strip().splitlines())


def _template(
    depth: int, name: str, body: str = "containers:\n  - {name: a, image: example.invalid/a}"
) -> str:
    inner = f"metadata:\n  labels:\n    app: {name}\nspec:\n{_indented(_NO_SELECTOR, 2)}{_indented(body, 2)}"
    return _indented(inner, depth)


_DOMAIN = "domain:\n  devices: {}"

FILES: dict[str, str] = {
    # What is linted.
    "apps/ledger.yml": _deployment("ledger", _ZONE_TERM.replace("NAME", "ledger")),
    "apps/windows.yaml": "\ufeff" + _deployment("windows").replace("\n", "\r\n"),
    "apps/anchors.yaml": "---\n# two of one name\n---\n"
    "x: &a {x: 1}\ny: {<<: *a, y: 2}\nz: &a {x: 2}\n---\n" + _deployment("anchors"),
    "apps/stream.json": '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"nodeSelector":'
    ' {"kubernetes.io/zone": "a"}, "containers": []}}\n{"apiVersion": "v1", "kind": "Service", "metadata":'
    ' {"name": "two"}}\n',
    "apps/list.yaml": "apiVersion: v1\nkind: List\nitems:\n"
    + "  - apiVersion: batch/v1\n    kind: Job\n    metadata: {name: once}\n    spec:\n      template:\n"
    + _template(8, "once"),
    "apps/cron.yaml": "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n  schedule: 0 3 * * *\n"
    "  jobTemplate:\n    spec:\n      template:\n" + _template(8, "nightly"),
    "apps/trio.yaml": "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: trio}\nspec:\n  replicas: 3\n"
    "  template:\n"
    + _template(4, "trio")
    + "---\napiVersion: v1\nkind: ReplicationController\nmetadata: {name: old}\nspec:\n  template:\n"
    + _template(4, "old")
    + "---\napiVersion: v1\nkind: PodTemplate\nmetadata: {name: form}\ntemplate:\n"
    + _template(2, "form"),
    "vms/catalog.yaml": "apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: catalog}\nobjects:\n"
    "  - apiVersion: kubevirt.io/v1\n    kind: VirtualMachine\n    metadata: {name: '${NAME}'}\n    spec:\n"
    "      template:\n"
    + _template(8, "'${NAME}'", _DOMAIN)
    + "parameters:\n  - name: NAME\n    value: fedora\n",
    "vms/machines.yaml": "apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\nkind: KubevirtMachineTemplate\n"
    "metadata: {name: '${CLUSTER_NAME}-workers'}\nspec:\n  template:\n    spec:\n      virtualMachineTemplate:\n"
    "        spec:\n          template:\n" + _template(12, "'${CLUSTER_NAME}'", _DOMAIN),
    "apps/wrong.yaml": _deployment("wrong", more="      nodeSelecter: {disktype: ssd}\n"),
    "apps/level.yaml": _deployment("level").replace(
        "  template:\n", "  nodeSelector: {a: b}\n  template:\n"
    ),
    # What is not.
    "monitoring/crd.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
    "metadata: {name: routes.alerts.example.com}\nspec:\n  properties:\n    nodeSelector: {enum: ['!=', =, =~]}\n",
    "monitoring/crd-in-json.json": '{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",'
    ' "metadata": {"name": "x"}, "spec": {"properties": {"tolerations": {"type": "array"}}}}',
    "monitoring/enum.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: =\n  b: y\n",
    "operators/kafka.yaml": "apiVersion: kafka.strimzi.io/v1beta2\nkind: Kafka\nmetadata: {name: log}\nspec:\n"
    "  kafka:\n    template:\n      pod:\n        tolerations: [{operator: Exists}]\n",
    "operators/prometheus.yaml": "apiVersion: monitoring.coreos.com/v1\nkind: Prometheus\nmetadata: {name: k8s}\n"
    "spec:\n  nodeSelector: {kubernetes.io/os: linux}\n  tolerations: []\n",
    "chart/Chart.yaml": "apiVersion: v2\nname: abacus\n",
    "chart/values.yaml": "kind: DaemonSet\naffinity: {}\n",
    "chart/templates/deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n"
    '  name: {{ include "abacus.fullname" . }}\nspec:\n{{- with .Values.affinity }}\n'
    "  affinity: {{ toYaml . | nindent 4 }}\n{{- end }}\n",
    "chart/templates/job.yaml": "{{ if .Values.job }}\napiVersion: batch/v1\nkind: Job\n{{ end }}\n",
    "go/pod.yaml": "{{ range .Pods }}\nkind: Pod\n{{ end }}\n",
    "jinja/vm.yaml": "{% for vm in vms %}\nkind: VirtualMachine\n{% endfor %}\n",
    "envsubst/pod.yaml": _deployment("pod", more="      nodeSelector: {zone: '${ZONE}'}\n"),
    "envsubst/replicas.yaml": _deployment("replicas").replace("replicas: 3", "replicas: ${COUNT}"),
    "overlays/kustomization.yaml": "resources: [../apps]\npatches:\n  - path: size.yaml\n  - path: ./ops.yaml\n"
    "    target: {kind: Deployment}\n",
    "overlays/size.yaml": _deployment("ledger"),
    "overlays/ops.yaml": "- op: replace\n  path: /spec/replicas\n  value: 5\n",
    "overlays/partial.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: ledger}\nspec:\n  replicas: 9\n",
    ".github/labels.yml": "- bug\n- question\n",
    ".github/workflows/ci.yml": "on: push\njobs: {test: {runs-on: '${{ matrix.os }}'}}\n",
    "notes.yaml": "only text\n",
    "broken.yaml": "a: [1\nb: 2\n",
    "README.md": "{{ no manifest }}\n",
}


def write_repository(folder: Path) -> None:
    """The files of FILES in a folder."""
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
