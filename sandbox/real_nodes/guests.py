# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs whose guests run, and the witness that reads what they count on their consoles."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import time
import typing as t

import requests

from ..admin_api import AdminApi, ApiFailure, WaitTimeout
from ..objects import virtual_machine

Object = dict[str, t.Any]
_IMAGE = {"image": "guest", "imagePullPolicy": "IfNotPresent"}
_BOOT: t.Final = {"kernelPath": "/boot/vmlinuz", "initrdPath": "/boot/initrd.gz"}
#: what a guest that only counts has no use for
_NO_DEVICES: t.Final = dict.fromkeys(
    ("autoattachPodInterface", "autoattachGraphicsDevice", "autoattachMemBalloon"), False
)
_LAUNCHERS = "kubevirt.io=virt-launcher"
_CONSOLE = "guest-console-log"
_TICK = re.compile(r"tick (\d+) boot ([0-9a-f]+) ")
_JOIN_TIMEOUT = 30.0
_LATE = 60.0
"""Seconds in which a console's lines may come after those of the next pod: two kubelets send them."""

#: on a busy machine the timer of a guest without KVM comes so late that Linux takes it for broken, and stops
_KERNEL: t.Final = ("console=ttyS0", "quiet", "panic=1", "no_timer_check")


def guest(
    name: str,
    namespace: str,
    *arguments: str,
    labels: t.Mapping[str, str] | None = None,
    placement: Object | None = None,
    run_strategy: str = "Always",
) -> Object:
    """A VirtualMachine of 128 MiB that counts once a second. `arguments` are of its kernel: `fill=70`, `dirty=0` keep
    70 MiB of its memory changing, so that a migration takes as long as it may."""
    vm = virtual_machine(name, namespace, labels=labels, run_strategy=run_strategy)
    words = " ".join([*_KERNEL, *arguments])
    kernel = {"kernelArgs": words, "container": {**_IMAGE, **_BOOT}}
    vm["spec"]["template"]["spec"] = {
        "terminationGracePeriodSeconds": 2,
        "domain": {
            "firmware": {"kernelBoot": kernel},
            "devices": dict(_NO_DEVICES),
            "memory": {"guest": "128Mi"},
            "resources": {"requests": {"cpu": "50m"}},
        },
        **(placement or {}),
    }
    return vm


@dataclasses.dataclass(frozen=True)
class Count:
    """What a VM's guest has counted: the number of its last tick, its boots in their order, and the ticks that are on
    no console though a later one of the same boot is."""

    last: int
    boots: tuple[str, ...]
    lost: int


class Witness:
    """Reads the consoles of all guests of a namespace while they run, since a log goes with its pod."""

    def __init__(self, api: AdminApi, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._ticks: dict[str, dict[str, set[int]]] = {}
        self._pods: set[str] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Witness:
        self._begin(self._look_for_pods)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(_JOIN_TIMEOUT)

    def counts(self) -> dict[str, Count]:
        """What each guest has counted so far, by its VM, once late lines have come."""
        deadline = time.monotonic() + _LATE
        while True:
            with self._lock:
                names = list(self._ticks)
            counts = {name: self.count(name) for name in names}
            if time.monotonic() > deadline or not any(count.lost for count in counts.values()):
                return counts
            time.sleep(0.5)

    def count(self, vm: str) -> Count:
        """What this VM's guest has counted so far."""
        with self._lock:
            boots = {boot: sorted(ticks) for boot, ticks in self._ticks.get(vm, {}).items()}
        lost = sum(ticks[-1] - ticks[0] + 1 - len(ticks) for ticks in boots.values())
        last = [ticks[-1] for ticks in boots.values()]
        return Count(last[-1] if last else 0, tuple(boots), lost)

    def wait(self, vm: str, more: int = 2, timeout: float = 300) -> Count:
        """Wait until the guest has counted on, in whichever boot, and late lines have come."""
        before = self.count(vm)
        deadline = time.monotonic() + timeout
        late: float | None = None
        while True:
            now = self.count(vm)
            start = before.last if now.boots == before.boots else 0
            if now.last >= start + more:
                late = late or time.monotonic() + _LATE
                if not now.lost or time.monotonic() > late:
                    return now
            if time.monotonic() > deadline:
                raise WaitTimeout(f"the guest of {vm} has counted to {now.last} for {timeout:g} s")
            time.sleep(0.2)

    def _begin(self, work: t.Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _look_for_pods(self) -> None:
        path = self._api.path("Pod", self._namespace)
        while not self._ended.wait(0.5):
            with contextlib.suppress(ApiFailure, requests.RequestException):
                for pod in self._api.list(path, labelSelector=_LAUNCHERS):
                    if pod["metadata"]["name"] not in self._pods and _console_runs(pod):
                        self._pods.add(pod["metadata"]["name"])
                        self._begin(self._read, pod)

    def _read(self, pod: Object) -> None:
        """Read a console until its pod ends; anew after an interruption."""
        vm = pod["metadata"]["labels"]["vm.kubevirt.io/name"]
        path = self._api.path("Pod", self._namespace, pod["metadata"]["name"])
        while not self._ended.is_set() and not self._has_read_all(vm, path):
            self._ended.wait(1)

    def _has_read_all(self, vm: str, path: str) -> bool:
        """Read the console from its start; whether its pod had ended before, or is gone, so that no line is left."""
        try:
            pod = self._api.find(path)
            if pod is None:
                return True
            for line in self._api.lines(f"{path}/log?container={_CONSOLE}&follow=true"):
                if self._ended.is_set():
                    return True
                if match := _TICK.match(line):
                    self._note(vm, match[2], int(match[1]))
        except (ApiFailure, requests.RequestException):
            return False
        return pod["status"].get("phase") in ("Succeeded", "Failed")

    def _note(self, vm: str, boot: str, tick: int) -> None:
        with self._lock:
            self._ticks.setdefault(vm, {}).setdefault(boot, set()).add(tick)


def _console_runs(pod: Object) -> bool:
    status = pod["status"]
    containers = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    return any(
        entry["name"] == _CONSOLE
        and ("running" in entry["state"] or "terminated" in entry["state"])
        for entry in containers
    )
