# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""KubeVirt on a running control plane: virt-api and virt-controller, real, as plain processes.

virt-handler is simulated, but not where nodes are real.

The part of virt-operator is played here: definitions, configuration, webhooks, API services.
"""

from __future__ import annotations

import base64
import json
import sys
import typing as t
from pathlib import Path

import requests

from .admin_api import AdminApi, ApiFailure
from .cluster_file import Cluster
from .control_plane import ControlPlane
from .installation import PACKAGE
from .layout import HOST
from .objects import virtual_machine
from .pace import set_pace

NAMESPACE = "kubevirt"

Object = dict[str, t.Any]


class KubeVirt:
    """Installs and starts KubeVirt; the two steps are apart since others wait for the first."""

    def __init__(self, control_plane: ControlPlane, api: AdminApi, cluster: Cluster) -> None:
        self._control_plane = control_plane
        self._layout = control_plane.layout
        self._api = api
        self._cluster = cluster
        lines = (self._layout.programs / "kubevirt-manifests.jsonl").read_text().splitlines()
        self._manifests: list[Object] = [json.loads(line) for line in lines]

    def install(self) -> None:
        """Create the definitions; returns when all kinds are served."""
        definitions = self._of("CustomResourceDefinition")
        self._api.create_all([{**entry, "status": None} for entry in definitions])
        self._control_plane.wait("KubeVirt's kinds are served", lambda: self._served(definitions))

    def configure(self) -> None:
        """Show KubeVirt's configuration, as if its processes ran."""
        self._create_namespace()
        self._create_kubevirt()

    def start(self) -> None:
        """Start the processes and route requests to them; returns when KubeVirt works."""
        self._create_namespace()
        self._prepare_virt_api()
        self._start_virt_api()
        # The API server holds the first object of a new kind back for two seconds, in case another
        # server has not heard of the kind: virt-api, the slowest to start, uses them.
        self._create_kubevirt()
        self._start_virt_controller()
        if not self._cluster.real:
            set_pace(self._api, self._layout.pace)
            self._start_virt_handler()
        wait = self._control_plane.wait
        wait("virt-api answers", lambda: self._answer("virt-api", "/healthz"))
        self._route_to_virt_api()
        wait("virt-api's subresources are served", self._subresources_served)
        wait("virt-api's webhooks are asked", self._webhooks_asked)
        wait("virt-controller leads", lambda: "true" in self._answer("virt-controller", "/leader"))

    def _served(self, definitions: list[Object]) -> bool:
        """Whether discovery, small beside the definitions themselves, shows each of them."""
        for group_version in {_group_version(entry) for entry in definitions}:
            shown = self._api.get(f"/apis/{group_version}")["resources"]
            wanted = {
                entry["spec"]["names"]["plural"]
                for entry in definitions
                if _group_version(entry) == group_version
            }
            if not wanted <= {resource["name"] for resource in shown}:
                return False
        return True

    def _create_namespace(self) -> None:
        self._api.create(self._api.path("Namespace"), {"metadata": {"name": NAMESPACE}})

    def _prepare_virt_api(self) -> None:
        api = self._api
        # virt-api is found by a name that resolves to loopback
        service = {"type": "ExternalName", "externalName": "localhost"}
        api.create(
            api.path("Service", NAMESPACE), {"metadata": {"name": "virt-api"}, "spec": service}
        )
        authority = {"ca-bundle": self._layout.ca_file.read_text()}
        api.create(
            api.path("ConfigMap", NAMESPACE),
            {"metadata": {"name": "kubevirt-ca"}, "data": authority},
        )

    def _create_kubevirt(self) -> None:
        path = self._api.path("KubeVirt", NAMESPACE)
        body = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "KubeVirt",
            "metadata": {"name": "kubevirt"},
            "spec": {"configuration": self._cluster.configuration},
        }
        self._api.create(path, body)
        version = f"v{self._layout.release.kubevirt}"
        status = {
            "phase": "Deployed",
            # without it every VM is refused: "unsupported architecture"
            "defaultArchitecture": "amd64",
            "operatorVersion": version,
            "observedKubeVirtVersion": version,
            "targetKubeVirtVersion": version,
        }
        self._api.patch(f"{path}/kubevirt/status", {"status": status})

    def _start_virt_api(self) -> None:
        pki = self._layout.pki
        self._control_plane.run(
            "virt-api",
            f"--kubeconfig={self._layout.kubeconfig('kubevirt-apiserver')}",
            *self._listen("virt-api"),
            f"--tls-cert-file={pki}/virt-api.crt",
            f"--tls-key-file={pki}/virt-api.key",
            f"--handler-cert-file={pki}/virt-handler-client.crt",
            f"--handler-key-file={pki}/virt-handler-client.key",
            again=True,
        )

    def _start_virt_controller(self) -> None:
        pki = self._layout.pki
        self._control_plane.run(
            "virt-controller",
            f"--kubeconfig={self._layout.kubeconfig('kubevirt-controller')}",
            *self._listen("virt-controller"),
            "--launcher-image=virt-launcher",
            f"--prom-cert-file={pki}/virt-controller.crt",
            f"--prom-key-file={pki}/virt-controller.key",
            again=True,
        )

    def _listen(self, process: str) -> tuple[str, str]:
        return f"--listen={HOST}", f"--port={self._layout.ports[process]}"

    def _start_virt_handler(self) -> None:
        self._control_plane.run(
            "virt-handler",
            "-u",
            "-m",
            f"{__package__}.virt_handler",
            self._layout.directory,
            program=Path(sys.executable),
            environment={"PYTHONPATH": str(PACKAGE.parent)},
            again=True,
        )

    def _route_to_virt_api(self) -> None:
        port = self._layout.ports["virt-api"]
        authority = base64.b64encode(self._layout.ca_file.read_bytes()).decode()
        webhooks = self._of("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for configuration in webhooks:
            for webhook in configuration["webhooks"]:
                webhook["clientConfig"]["caBundle"] = authority
                webhook["clientConfig"]["service"]["port"] = port
        services = self._of("APIService")
        for service in services:
            service["spec"]["caBundle"] = authority
            service["spec"]["service"]["port"] = port
        self._api.create_all([*webhooks, *services])

    def _subresources_served(self) -> bool:
        services = self._api.list(self._api.path("APIService"))
        ours = [entry for entry in services if entry["spec"].get("service")]
        return bool(ours) and all(_is(entry, "Available") for entry in ours)

    def _webhooks_asked(self) -> bool:
        """Whether one webhook completes an object and the other refuses one, which no other component does."""
        path = self._api.path("VirtualMachine", "default") + "?dryRun=All"
        good = virtual_machine("probe")
        answer = self._api.create(path, good)
        bad = virtual_machine("probe", placement={"networks": []})
        try:
            self._api.create(path, bad)
        except ApiFailure as refusal:
            return refusal.status == 422 and "architecture" in answer["spec"]["template"]["spec"]
        return False

    def _answer(self, process: str, path: str) -> str:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get(
                f"https://{HOST}:{self._layout.ports[process]}{path}",
                verify=str(self._layout.ca_file),
                timeout=10,
            )
        answer.raise_for_status()
        return answer.text or "ok"

    def _of(self, *kinds: str) -> list[Object]:
        return [entry for entry in self._manifests if entry["kind"] in kinds]


def _group_version(definition: Object) -> str:
    spec = definition["spec"]
    return f"{spec['group']}/{next(v['name'] for v in spec['versions'] if v['storage'])}"


def _is(entry: Object, condition: str) -> bool:
    conditions = entry.get("status", {}).get("conditions") or ()
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)
