# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole sandbox: start it, use it, stop it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import shutil
import typing as t
from pathlib import Path

from . import (
    certificates,
    cluster_file,
    identities,
    layout,
    node_faults,
    nodes,
    processes,
    releases,
    used_rights,
)
from .admin_api import AdminApi
from .audit import AuditLog
from .cluster_file import Cluster
from .control_plane import KEEP, ControlPlane
from .etcd import Etcd
from .kubevirt import KubeVirt
from .pace import FAST
from .real_nodes import control_groups

if t.TYPE_CHECKING:
    from .fault_proxy import FaultProxy, Rule
    from .real_nodes.cluster import RealNodes


class Sandbox:
    """A running control plane with its nodes, simulated or real; a context manager that stops it.

    Made by :meth:`start` or :meth:`attach`.
    """

    def __init__(self, where: layout.Layout, supervisor: processes.Supervisor | None) -> None:
        self._layout = where
        self._supervisor = supervisor
        self.cluster: Cluster = cluster_file.load(where.cluster, where.release)

    @classmethod
    def start(
        cls,
        cluster: str | Path,
        directory: Path | None = None,
        *,
        detached: bool = False,
        pace: str = FAST,
    ) -> Sandbox:
        """Start a cluster (a name in sandbox/clusters, or a file) and return when all of it works.

        It runs the releases that VIRT_PLACEMENT_RELEASE names. With the pace "real" pods and migrations take as
        long as on real nodes.

        Without a directory it gets one of its own that is gone after the end, unless the variable
        VIRT_PLACEMENT_SANDBOX_KEEP is set. A sandbox that is still in the given directory is ended
        first. Everything ends with this process, except when it is detached.
        """
        from . import binaries  # at the top, `python -m sandbox.binaries` would meet itself

        release = releases.chosen()
        wanted = cluster_file.load(cluster, release)
        programs = binaries.directory(release)
        _discard_abandoned()
        own = directory is None
        directory = layout.own_directory(wanted.name) if directory is None else directory.resolve()
        _clear(directory)
        file = wanted.name if cluster == wanted.name else str(Path(cluster).resolve())
        where = layout.Layout.create(directory, file, programs, release, pace)
        supervisor = processes.Supervisor(
            directory, detached=detached, discard=own and not os.environ.get(KEEP)
        )
        sandbox = cls(where, supervisor)
        try:
            sandbox._start()
        except BaseException:
            sandbox.stop()
            raise
        return sandbox

    @classmethod
    def attach(cls, directory: Path) -> Sandbox:
        """The sandbox that runs in this directory; stopping it ends it for its owner too."""
        return cls(layout.Layout.read(directory.resolve()), None)

    def stop(self) -> None:
        """End every process of the sandbox and wait until they are gone."""
        used_rights.record(self.audit_log)
        if self._supervisor is not None:
            self._supervisor.stop()
        else:
            processes.end_recorded(self.directory)

    def release(self) -> None:
        """Leave a detached sandbox running."""
        if self._supervisor is not None:
            self._supervisor.release()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def directory(self) -> Path:
        """Where its keys, kubeconfigs and logs are."""
        return self._layout.directory

    @property
    def versions(self) -> releases.Release:
        """Which Kubernetes and which KubeVirt it runs."""
        return self._layout.release

    @property
    def url(self) -> str:
        """Where the API server answers."""
        return self._layout.url

    @property
    def ca_file(self) -> Path:
        """Certificate authority of the API server."""
        return self._layout.ca_file

    @property
    def etcd(self) -> Etcd:
        """Where the API server keeps its objects."""
        return Etcd(f"http://{layout.HOST}:{self._layout.ports['etcd']}")

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON event a line."""
        return self._layout.audit_log

    @functools.cached_property
    def audit(self) -> AuditLog:
        """The requests to the API server, by user."""
        names = {name: identity.username for name, identity in identities.IDENTITIES.items()}
        return AuditLog(self.audit_log, names, self.api)

    def kubeconfig(self, identity: str = "admin") -> Path:
        """Kubeconfig file of an identity (``identities.py``)."""
        return self._layout.kubeconfig(_known(identity))

    def token(self, identity: str) -> str:
        """Bearer token of an identity."""
        return identities.token(self._layout, _known(identity))

    def username(self, identity: str) -> str:
        """What the API server calls an identity."""
        return identities.IDENTITIES[_known(identity)].username

    @functools.cached_property
    def api(self) -> AdminApi:
        """Client with all rights."""
        return self.api_as("admin")

    def api_as(self, identity: str) -> AdminApi:
        """Client with the rights of an identity."""
        return AdminApi(self.url, self.ca_file, self.token(identity), f"sandbox-{identity}")

    def fault_proxy(self, rules: t.Iterable[Rule] = ()) -> FaultProxy:
        """A proxy before the API server that misbehaves by these rules, to be used in a with block."""
        from .fault_proxy import FaultProxy  # needs aiohttp, which nothing else here does

        return FaultProxy(
            rules,
            upstream=self.url,
            ca_file=self.ca_file,
            certificate=self._layout.pki / "kube-apiserver.crt",
            key=self._layout.pki / "kube-apiserver.key",
            kubeconfig_of=self.kubeconfig,
        )

    @functools.cached_property
    def real_nodes(self) -> RealNodes:
        """Its nodes, where the cluster says that they are real."""
        from .real_nodes.cluster import RealNodes  # it builds programs: see start()

        return RealNodes(self.directory, self.cluster, self.api)

    def running(self) -> list[str]:
        """Names of its processes that run."""
        return processes.running(self.directory)

    @contextlib.contextmanager
    def without(self, process: str) -> t.Iterator[None]:
        """A process is ended meanwhile. At the end it is started again, if it is one that is."""
        processes.end(self.directory, process)
        try:
            yield
        finally:
            processes.start_again(self.directory, process)

    def node_down(self, name: str, *, without_heartbeat: bool = False) -> None:
        """The node dies; see :func:`sandbox.node_faults.node_down`. A real one loses its power."""
        if self.cluster.real:
            self.real_nodes[name].power_off()
            return
        node_faults.node_down(self.api, name, without_heartbeat=without_heartbeat)

    def node_up(
        self, name: str, *, new_boot: bool = False, virt_handler_ready: bool = True
    ) -> None:
        """The node is back, after a reboot or not; see :func:`sandbox.node_faults.node_up`. A real one boots."""
        if self.cluster.real:
            self.real_nodes[name].power_on()
            return
        node_faults.node_up(
            self.api, name, new_boot=new_boot, virt_handler_ready=virt_handler_ready
        )

    def node_reboot(self, name: str) -> None:
        """The node reboots within seconds; see :func:`sandbox.node_faults.node_reboot`. A real one loses its power."""
        if self.cluster.real:
            self.real_nodes[name].power_off()
            self.real_nodes[name].power_on()
            return
        node_faults.node_reboot(self.api, name)

    def restore_nodes(self) -> None:
        """Give all nodes their first labels and taints again and make them schedulable."""
        if self.cluster.real:
            self.real_nodes.restore()
        else:
            nodes.restore(self.api, self.cluster)

    def _start(self) -> None:
        assert self._supervisor is not None
        if self.cluster.real:
            self._start_with_real_nodes(self._supervisor)
            return
        certificates.issue_all(self._layout.pki)
        tokens = identities.create_all(self._layout)
        control_plane = ControlPlane(self._layout, self._supervisor)
        create = functools.partial(nodes.create, self.api, self.cluster, self.versions)
        self._start_control_plane(control_plane, tokens, create)
        control_plane.wait("the nodes are Ready", lambda: nodes.all_ready(self.api, self.cluster))
        control_plane.check_processes()

    def _start_with_real_nodes(self, supervisor: processes.Supervisor) -> None:
        from .real_nodes import cluster as real

        certificates.issue_all(self._layout.pki, real.ADDRESS)
        names = [node.name for node in self.cluster.nodes]
        tokens = identities.create_all(self._layout, names)
        control_plane = ControlPlane(self._layout, supervisor, real.ADDRESS)
        real.start_network(control_plane)
        real.remove_groups_at_end(supervisor)
        real.write_keys(self._layout, names)
        boot = functools.partial(self.real_nodes.boot, control_plane)
        self._start_control_plane(control_plane, tokens, boot)
        self.api.apply(real.virt_handlers())
        self.real_nodes.wait_ready(control_plane)
        control_plane.check_processes()

    def _start_control_plane(
        self, control_plane: ControlPlane, tokens: Path, make_nodes: t.Callable[[], None]
    ) -> None:
        control_plane.start_api_server(tokens)
        control_plane.wait_api_server(self.api)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            steps: list[concurrent.futures.Future[t.Any]] = [
                pool.submit(make_nodes),
                pool.submit(self.api.create_all, identities.access_objects()),
                pool.submit(self._start_controllers, control_plane),
            ]
            for step in concurrent.futures.as_completed(steps):
                step.result()

    def _start_controllers(self, control_plane: ControlPlane) -> None:
        if not self.cluster.kubevirt:
            control_plane.start_controllers(self.cluster)
            return
        kubevirt = KubeVirt(control_plane, self.api, self.cluster)
        kubevirt.install()
        if not self.cluster.controllers:
            kubevirt.configure()
            return
        # now, since its garbage collector learns of later kinds only every 30 seconds
        control_plane.start_controllers(self.cluster)
        kubevirt.start()


def _known(identity: str) -> str:
    if identity not in identities.IDENTITIES:
        raise KeyError(f"no identity {identity}; known are {', '.join(identities.IDENTITIES)}")
    return identity


def _clear(directory: Path) -> None:
    """End the sandbox of this directory and remove what it left; refuse anything else."""
    if not directory.exists() or not any(directory.iterdir()):
        return
    if not layout.holds_sandbox(directory):
        raise FileExistsError(
            f"{directory} holds something that is no sandbox; give an empty or a new directory"
        )
    processes.end_recorded(directory)
    if directory.exists():  # its supervisor may have removed it
        shutil.rmtree(directory)


def _discard_abandoned() -> None:
    """Remove the files and control groups of sandboxes whose supervisor was killed."""
    if layout.root().is_dir():
        for directory in layout.root().iterdir():
            if processes.abandoned(directory):
                processes.end_recorded(directory)
                shutil.rmtree(directory, ignore_errors=True)
    control_groups.sweep(processes.is_running)
