# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK as plain processes.

They listen on loopback. Where nodes are real, all of it is in a network of its own, whose loopback has the same ports;
the API server listens for the nodes, too, and there is no KWOK.
"""

from __future__ import annotations

import os
import time
import typing as t
from pathlib import Path

import requests
import yaml

from . import identities, processes
from .admin_api import AdminApi, ApiFailure
from .audit import COLLECTION
from .cluster_file import Cluster
from .layout import HOST, Layout
from .pace import stage_files

STAGES = Path(__file__).resolve().parent / "stages"
#: a label, not an annotation: KWOK drops a node only when its watch does, by selector
MANAGED_NODE = "kwok.x-k8s.io/node"
#: environment variable: directories of sandboxes are not removed at their end
KEEP = "VIRT_PLACEMENT_SANDBOX_KEEP"
_READY_TIMEOUT = 240.0
_SERVICE_RANGE = "10.0.0.0/24"
_POD_RANGE = "10.128.0.0/16"
#: collections of the Go programs' heaps are rarer while they are small: less CPU while everything starts
#: at once
_ENVIRONMENT = {"GOGC": "200", "GOMEMLIMIT": os.environ.get("GOMEMLIMIT", "5GiB")}

Object = dict[str, t.Any]


class ControlPlane:
    """Starts the parts of one control plane, in their order, through its supervisor."""

    def __init__(
        self, layout: Layout, supervisor: processes.Supervisor, address: str = HOST
    ) -> None:
        """`address` is where nodes reach the API server."""
        self.layout = layout
        self.network: int | None = None
        """The process in whose network programs run, None: in that of this process."""
        self._address = address
        self._supervisor = supervisor

    def run(
        self,
        name: str,
        *flags: object,
        program: Path | None = None,
        environment: t.Mapping[str, str] | None = None,
        again: bool = False,
        outside: bool = False,
    ) -> int:
        """Start one of the sandbox's programs, or another one under a name; returns its process id.

        With ``again`` it is started again whenever it ends by itself, as by a Deployment. It runs in the control
        plane's network if that has one of its own, unless it shall be outside.
        """
        command = [program or self.layout.programs / name, *flags]
        if self.network is not None and not outside:
            command = ["nsenter", f"--net=/proc/{self.network}/ns/net", *command]
        temporary = {"TMPDIR": str(self.layout.directory)}
        variables = {**_ENVIRONMENT, **temporary, **(environment or {})}
        return self._supervisor.start(name, command, again=again, **variables)

    def start_api_server(self, token_file: Path) -> None:
        """Start etcd and kube-apiserver; the API server itself waits for etcd."""
        layout = self.layout
        policy = layout.directory / "audit-policy.yml"
        policy.write_text(yaml.safe_dump(audit_policy()))
        self.run("etcd", *_etcd_flags(layout))
        self.run("kube-apiserver", *_api_server_flags(layout, token_file, policy, self._address))

    def start_controllers(self, cluster: Cluster) -> None:
        """Start kube-controller-manager and kube-scheduler, and KWOK where nodes are simulated."""
        layout = self.layout
        self.run("kube-controller-manager", *_controller_manager_flags(layout, cluster))
        self.run(
            "kube-scheduler",
            f"--kubeconfig={layout.kubeconfig('kube-scheduler')}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )
        if not cluster.real:
            self._start_kwok(cluster)

    def _start_kwok(self, cluster: Cluster) -> None:
        layout = self.layout
        self.run(
            "kwok",
            f"--kubeconfig={layout.kubeconfig('kwok')}",
            f"--manage-nodes-with-label-selector={MANAGED_NODE}=fake",
            f"--node-lease-duration-seconds={cluster.heartbeat_grace}",
            f"--server-address={HOST}:{layout.ports['kwok']}",
            f"--cidr={_POD_RANGE}",
            *(f"--config={file}" for file in stage_files(layout.pace, STAGES, layout.directory)),
            f"--config={layout.programs / 'kwok-node-stages.yml'}",
        )

    def wait_api_server(self, api: AdminApi) -> None:
        """Wait until the API server serves whole: its roles and its own namespaces are there."""
        self.wait("the API server is ready", lambda: api.request("GET", "/readyz").ok)

    def wait(self, what: str, check: t.Callable[[], object], timeout: float | None = None) -> None:
        """Wait until the check holds; fails at once when a process has ended.

        An answer that is an error, or none, means not yet. `timeout` in seconds, by default that of a start.
        """
        timeout = _READY_TIMEOUT if timeout is None else timeout
        deadline = time.monotonic() + timeout
        while True:
            last = "the answer is not yet as it must be"
            try:
                if check():
                    return
            except (requests.RequestException, ApiFailure) as error:
                last = str(error)
            self.check_processes()
            if time.monotonic() > deadline:
                raise processes.ProcessError(
                    f"not within {timeout:g} s: {what}; last seen: {last}; logs are in "
                    f"{self.layout.directory}/log (set {KEEP}=1 to keep them)"
                )
            time.sleep(0.05)

    def check_processes(self) -> None:
        """ProcessError with the end of its log if one has ended by itself."""
        for name, code in processes.ended(self.layout.directory).items():
            lines = self.layout.log(name).read_text(errors="replace").splitlines()
            tail = "\n".join(lines[-15:])
            raise processes.ProcessError(f"{name} ended with exit code {code}:\n{tail}")


def audit_policy() -> Object:
    """Every request of a user is recorded with its query, the control plane's own are not.

    Deletions and evictions are recorded with their body, since it is there that they say dryRun. So are
    the writes of the collection, in which a test looks for secrets.
    """
    users = [identities.IDENTITIES[name].username for name in COLLECTION]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "users": list(identities.CONTROL_PLANE)},
            {"level": "None", "userGroups": ["system:nodes"]},
            {"level": "Request", "verbs": ["delete", "deletecollection"]},
            {"level": "Request", "resources": [{"group": "", "resources": ["pods/eviction"]}]},
            {"level": "Request", "verbs": ["create", "update", "patch"], "users": users},
            {"level": "Metadata"},
        ],
    }


def _etcd_flags(layout: Layout) -> list[str]:
    clients = f"http://{HOST}:{layout.ports['etcd']}"
    peers = f"http://{HOST}:{layout.ports['etcd-peer']}"
    return [
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",
    ]


def _api_server_flags(layout: Layout, token_file: Path, policy: Path, address: str) -> list[str]:
    pki = layout.pki
    return [
        f"--etcd-servers=http://{HOST}:{layout.ports['etcd']}",
        f"--bind-address={HOST if address == HOST else '0.0.0.0'}",
        f"--advertise-address={address}",
        # names of nodes do not resolve here
        "--kubelet-preferred-address-types=InternalIP",
        f"--secure-port={layout.ports['kube-apiserver']}",
        f"--cert-dir={layout.directory / 'certificates'}",
        f"--tls-cert-file={pki}/kube-apiserver.crt",
        f"--tls-private-key-file={pki}/kube-apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--token-auth-file={token_file}",
        "--authorization-mode=RBAC",
        # no kubelet mounts tokens here
        "--disable-admission-plugins=ServiceAccount",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/service-account.pub",
        f"--service-account-signing-key-file={pki}/service-account.key",
        f"--service-cluster-ip-range={_SERVICE_RANGE}",
        # the aggregation layer: virt-api trusts what this certificate says about the user
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front-proxy-client.crt",
        f"--proxy-client-key-file={pki}/front-proxy-client.key",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={layout.audit_log}",
        # a line is there before the answer is, and the file is never rotated away
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=1000000",
    ]


def _controller_manager_flags(layout: Layout, cluster: Cluster) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig('kube-controller-manager')}",
        "--leader-elect=false",
        "--secure-port=0",
        "--use-service-account-credentials=false",
        f"--service-account-private-key-file={layout.pki}/service-account.key",
        f"--root-ca-file={layout.ca_file}",
        f"--node-monitor-grace-period={cluster.heartbeat_grace}s",
        "--node-monitor-period=1s",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]
