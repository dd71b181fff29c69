# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a pod from a level of the Pod Security Standards, so that a namespace may refuse the next one like it?

A pod for which nothing is named satisfies every version of the level. What is named is what the latest version
forbids; an older version, a pod of Windows or one in a user namespace may be allowed it.

Source: k8s.io/pod-security-admission, policy/check_*.go; the names are their reasons.
"""

from __future__ import annotations

import re
import typing as t

from .json_pointer import JSON, Object
from .objects import Labels

Forbidden = tuple[tuple[str, ...], tuple[str, ...]]
"""What baseline and what restricted may forbid of a pod."""
_NONE: t.Final[Object] = {}

ENFORCE: t.Final = "pod-security.kubernetes.io/enforce"
ENFORCE_VERSION: t.Final = "pod-security.kubernetes.io/enforce-version"
PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"

_CAPABILITIES = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
    }
)
"""Those of the oldest version; newer ones allow more."""
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t")
_VOLUMES = frozenset(
    (
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
        *("persistentVolumeClaim", "projected", "secret"),
    )
)
_PROFILE_ANNOTATIONS = {
    "container.apparmor.security.beta.kubernetes.io/": "appArmorProfile",
    "container.seccomp.security.alpha.kubernetes.io/": "seccompProfile",
    "seccomp.security.alpha.kubernetes.io/pod": "seccompProfile",
}
"""Prefixes of annotations that stand for fields in old versions."""
_PROFILES = ("runtime/default", "docker/default", "localhost/")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def enforced_level(labels: Labels) -> tuple[str, str]:
    """The level and the version that a namespace with these labels enforces. A level that is none counts as
    restricted (api/helpers.go, PolicyToEvaluate). A default of the whole cluster is not readable."""
    level = labels.get(ENFORCE) or PRIVILEGED
    version = labels.get(ENFORCE_VERSION) or "latest"
    return (level if level in (PRIVILEGED, BASELINE) else RESTRICTED), version


def refusing_level(message: str) -> tuple[str, str]:
    """The level that a pod violates by an answer of the API server, and the strictest one that admits the pod, empty
    where the answer does not show it. Both are empty in an answer about something else."""
    if (refused := _VIOLATES.search(message)) is None:
        return "", ""
    level, violations = refused.groups()
    if level == RESTRICTED:
        return level, BASELINE if _OF_RESTRICTED.fullmatch(violations.strip()) else ""
    return level, PRIVILEGED


_VIOLATES = re.compile(r'violates PodSecurity "(baseline|restricted):[^"]*": (.*)', re.S)
"""admission/admission.go, EvaluatePod"""

_LACKING = (
    r"(?:allowPrivilegeEscalation != false|unrestricted capabilities|runAsNonRoot != true|seccompProfile)"
    r" \((?:(?!must not)[^()])* must set (?:(?!must not)[^()])*\)"
)
_OF_RESTRICTED = re.compile(f"{_LACKING}(?:, {_LACKING})*")
"""What a pod must set for restricted, and baseline does not ask for (policy/check_*.go)."""


def forbidden(metadata: Object, spec: Object) -> Forbidden:
    """What the levels baseline and restricted may forbid of a pod. Ephemeral containers do not come again."""
    containers = [*_entries(spec, "containers"), *_entries(spec, "initContainers")]
    pod = spec.get("securityContext") or _NONE
    contexts = [container.get("securityContext") or _NONE for container in containers]
    baseline = [*_of_host(spec, containers)]
    for context in (pod, *contexts):
        if context:
            baseline += _of_context(context)
    baseline += _of_annotations(metadata.get("annotations") or _NONE)
    restricted = (*baseline, *_of_restricted(spec, pod, contexts))
    return tuple(dict.fromkeys(baseline)), tuple(dict.fromkeys(restricted))


def _of_host(spec: Object, containers: t.Iterable[Object]) -> t.Iterator[str]:
    """What a pod has of its node."""
    if spec.get("hostNetwork") or spec.get("hostPID") or spec.get("hostIPC"):
        yield "host namespaces"
    for volume in _entries(spec, "volumes"):
        if volume.get("hostPath") is not None:
            yield "hostPath volumes"
    for container in containers:
        for port in _entries(container, "ports"):
            if port.get("hostPort"):
                yield "hostPort"
        handlers = [container.get(name) for name in _PROBES]
        handlers += (container.get("lifecycle") or _NONE).values()
        for handler in filter(None, handlers):
            for kind in ("httpGet", "tcpSocket"):
                if (handler.get(kind) or _NONE).get("host"):
                    yield "probe or lifecycle host"


def _of_context(context: Object) -> t.Iterator[str]:
    """What the security context of a pod or a container has that baseline forbids."""
    if context.get("privileged"):
        yield "privileged"
    if (context.get("windowsOptions") or _NONE).get("hostProcess"):
        yield "hostProcess"
    if not _CAPABILITIES.issuperset(_entries(context.get("capabilities") or _NONE, "add")):
        yield "non-default capabilities"
    if selinux := context.get("seLinuxOptions"):
        allowed = (selinux.get("type") or "") in _SELINUX_TYPES
        if not allowed or selinux.get("user") or selinux.get("role"):
            yield "seLinuxOptions"
    if (context.get("procMount") or "Default") != "Default":
        yield "procMount"
    for name in ("seccompProfile", "appArmorProfile"):
        if context.get(name) is not None and not _is_profile(context[name]):
            yield name
    for entry in _entries(context, "sysctls"):
        if entry.get("name") not in _SYSCTLS:
            yield "forbidden sysctls"


def _of_annotations(annotations: Object) -> t.Iterator[str]:
    for prefix, name in _PROFILE_ANNOTATIONS.items():
        for key in annotations:
            value = annotations[key]
            if key.startswith(prefix) and value and not str(value).startswith(_PROFILES):
                yield name


def _of_restricted(spec: Object, pod: Object, contexts: t.Iterable[Object]) -> t.Iterator[str]:
    """What restricted asks for beside baseline, and these have not."""
    for volume in _entries(spec, "volumes"):
        if all(volume.get(name) is None for name in _VOLUMES):
            yield "restricted volume types"
    non_root, default = pod.get("runAsNonRoot"), pod.get("seccompProfile")
    if non_root is False:
        yield "runAsNonRoot != true"
    if pod.get("runAsUser") == 0:
        yield "runAsUser=0"
    for context in contexts:
        if context.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation != false"
        capabilities = context.get("capabilities") or _NONE
        if "ALL" not in (capabilities.get("drop") or ()) or (
            {*_entries(capabilities, "add")} - {"NET_BIND_SERVICE"}
        ):
            yield "unrestricted capabilities"
        own = context.get("runAsNonRoot")
        if (non_root if own is None else own) is not True:
            yield "runAsNonRoot != true"
        if context.get("runAsUser") == 0:
            yield "runAsUser=0"
        profile = context.get("seccompProfile")
        if not _is_profile(default if profile is None else profile):
            yield "seccompProfile"


def _is_profile(profile: JSON) -> bool:
    return (profile or _NONE).get("type") in ("RuntimeDefault", "Localhost")


def _entries(of: Object, name: str) -> t.Iterator[t.Any]:
    """Those of a list. A null counts as absent, as for the API server."""
    return (entry for entry in of.get(name) or () if entry is not None)
