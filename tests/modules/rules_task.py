# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module rules against a sandbox, as the identity that is shipped for it."""

from __future__ import annotations

import contextlib
import copy
import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows import rules as rules_flow
from ansible_collections.virt.placement.plugins.modules import forecast_info, rules
from sandbox import Sandbox, objects
from tests.conftest import RunModule
from tests.shop import PATIENCE

JSON = t.Any
_SETTLED: dict[str, t.Callable[[JSON], t.Any]] = {
    "VirtualMachine": lambda each: each["status"] and _NOTE in each["metadata"]["annotations"],
    "VirtualMachineInstanceReplicaSet": lambda each: each["status"],
}
"""virt-controller writes each of them once by itself: an annotation, or the template without its
empty lists."""
_NOTE = "kubevirt.io/latest-observed-api-version"
OURS = ("placement.virt/rules", "placement.virt/undo")


def stop_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of a change has its time: two runs write the same only at the same time."""
    monkeypatch.setattr(rules_flow, "utc_now", lambda: "2026-11-26T07:45:12Z")


@contextlib.contextmanager
def machine_and_deployment(sandbox: Sandbox, namespace: str) -> t.Iterator[None]:
    """A namespace with the halted machine `web` and the empty Deployment `cache`."""
    api = sandbox.api
    api.create(api.path("Namespace"), {"metadata": {"name": namespace}})
    machine = objects.virtual_machine("web", namespace, run_strategy="Halted")
    for manifest in (machine, objects.deployment("cache", namespace, replicas=0)):
        api.create(api.path(manifest["kind"], namespace), manifest)
    yield
    api.delete(api.path("Namespace", name=namespace))


class RulesTask:
    """One namespace of a sandbox, and the module run on it."""

    def __init__(self, sandbox: Sandbox, run_module: RunModule, namespace: str) -> None:
        self.sandbox = sandbox
        self.api = sandbox.api
        self.namespace = namespace
        self._run = run_module

    def __call__(
        self,
        *listed: dict[str, t.Any],
        check: bool = False,
        diff: bool = False,
        identity: str = "mover",
        **options: t.Any,
    ) -> dict[str, t.Any]:
        """Run the module with these rules, or with option rules as it is given."""
        params = {
            "kubeconfig": str(self.sandbox.kubeconfig(identity)),
            "namespace": self.namespace,
            "rules": list(listed),
            **options,
        }
        return self._run(rules.main, params, check=check, diff=diff)

    def after_forecast(
        self, rule: dict[str, t.Any], *, check: bool = False, **options: t.Any
    ) -> dict[str, t.Any]:
        """Run the module with a rule and its forecast, as the action plugin does."""
        params = {
            "kubeconfig": str(self.sandbox.kubeconfig("mover")),
            "namespace": self.namespace,
            "rules": [rule],
        }
        forecast = self._run(forecast_info.main, params)
        forecast.pop("warnings", None)  # Ansible shows them, and no module takes them
        return self(rule, check=check, forecast=forecast, **options)

    def create(self, manifest: JSON) -> JSON:
        manifest = copy.deepcopy(manifest)
        manifest["metadata"]["namespace"] = self.namespace
        path = self.api.path(manifest["kind"], self.namespace)
        made = self.api.create(path, manifest)
        if manifest["kind"] in _SETTLED:
            settled = _SETTLED[manifest["kind"]]
            made = self.api.wait(settled, f"{path}/{made['metadata']['name']}")
        return made

    def get(self, kind: str, name: str) -> JSON:
        return self.api.get(self.api.path(kind, self.namespace, name))

    def patch(self, kind: str, name: str, operations: list[JSON]) -> JSON:
        return self.api.patch(self.api.path(kind, self.namespace, name), operations, type="json")

    def migrate(self, name: str) -> JSON:
        """The VMI after a migration as somebody else would make it. It begins once each VM has one pod: until then,
        the source pods of other migrations keep its pod away, and kube-scheduler tries that late."""
        pods = self.api.path("Pod", self.namespace)
        self.api.wait_list(pods, _each_has_one_pod, PATIENCE)
        made = self.create(objects.migration(name))
        path = self.api.path(made["kind"], self.namespace, made["metadata"]["name"])
        self.api.wait(lambda m: m["status"]["phase"] == "Succeeded", path, PATIENCE)
        return self.get("VirtualMachineInstance", name)

    def running(self, *names: str) -> dict[str, JSON]:
        """The VMIs of these names once they run."""
        return {
            name: self.api.wait(
                lambda vmi: (vmi.get("status") or {}).get("phase") == "Running",
                self.api.path("VirtualMachineInstance", self.namespace, name),
                PATIENCE,
            )
            for name in names
        }

    def launcher(self, vmi: JSON) -> JSON:
        """The pod in which a VMI runs, and not the source of a migration that has yet to end."""
        instance, node = vmi["metadata"]["uid"], vmi["status"]["nodeName"]
        (launcher,) = (
            pod
            for owner, pod in _launchers(self.api.list(self.api.path("Pod", self.namespace)))
            if owner == instance and pod["spec"].get("nodeName") == node
        )
        return t.cast("JSON", launcher)

    def placement(self, kind: str, name: str) -> str:
        """The template without what KubeVirt itself writes there, as text."""
        template = copy.deepcopy(self.get(kind, name)["spec"]["template"])
        fields = ("affinity", "nodeSelector", "tolerations", "topologySpreadConstraints")
        spec = {key: template["spec"][key] for key in fields if key in template["spec"]}
        labels = (template.get("metadata") or {}).get("labels")
        return json.dumps({"labels": labels, "spec": spec}, sort_keys=True)

    def ours(self, kind: str, name: str) -> dict[str, JSON]:
        """Our annotations, decoded."""
        annotations = self.get(kind, name)["metadata"].get("annotations") or {}
        return {key: json.loads(annotations[key]) for key in OURS if key in annotations}


def anti_affinity(manifest: JSON) -> list[JSON]:
    affinity = manifest["spec"]["template"]["spec"].get("affinity") or {}
    found: list[JSON] = (affinity.get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution", []
    )
    return found


def _launchers(pods: t.Iterable[JSON]) -> t.Iterator[tuple[str, JSON]]:
    """The launcher pods that have not ended, each with the uid of its VMI."""
    for pod in pods:
        owner = pod["metadata"].get("labels", {}).get("kubevirt.io/created-by")
        if owner is not None and pod["status"]["phase"] not in ("Succeeded", "Failed"):
            yield owner, pod


def _each_has_one_pod(pods: t.Iterable[JSON]) -> bool:
    owners = [owner for owner, _pod in _launchers(pods)]
    return len(set(owners)) == len(owners)
