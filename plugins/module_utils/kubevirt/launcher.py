# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does virt-controller put into the launcher pod of a VMI: node labels, requests, and what is unknown?

It follows KubeVirt 1.8.4: pkg/defaults/defaults.go (what virt-api fills in), pkg/virt-controller/services
(nodeselectorrenderer.go, renderresources.go, template.go, serialconsolelog.go), pkg/container-disk, and
pkg/hypervisor/kvm/hypervisorbackend.go (GetMemoryOverhead). What older releases do otherwise, from 1.4 on,
is in the same files of their tags, the overhead in renderresources.go. Amounts are in billionths of their unit.
"""

from __future__ import annotations

import math
import typing as t

from ..model.json_pointer import JSON, Object
from ..model.quantity import NANO, Container, parse_quantity, pod_requests
from ..model.snapshot import Platform
from .labels import (
    CPU_FEATURE,
    CPU_MODEL,
    DEVICE,
    HOST_MODEL,
    MACHINE_TYPE,
    MACHINE_TYPE_SINCE,
    SCHEDULABLE,
    cluster_node_selector,
)

OBSOLETE_HOST_MODEL = "node-labeller.kubevirt.io/obsolete-host-model"
CPU_MANAGER = "kubevirt.io/cpumanager"
CPU_MANAGER_BEFORE_1_8 = "cpumanager"
"""Node label where the kubelet gives whole CPUs to pods. New nodes have both."""

_EVEN_PARITY = "alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity"
"""Annotation on a VMI: its CPUs and the one of its emulator make pairs. With the feature gate AlignCPUs virt-api
copies it from the KubeVirt object (mutators/vmi-mutator.go), of which annotations are not read."""

HOST_MODELS = (HOST_MODEL, "host-passthrough", "")
"""CPU models that stand for that of the node. They bind a running VM to nodes like the one on which it started."""
_MACHINE_TYPES = {"arm64": "virt", "s390x": "s390-ccw-virtio"}
_MIB = 1024**2 * NANO
_GUEST_OVERHEAD = 25 + 100 + 25 + 40 + 30 + 8
"""MiB for virt-launcher-monitor, virt-launcher, virtlogd, virtqemud, QEMU, and its I/O thread."""


def _before(platform: Platform, *minor: int) -> bool:
    """Whether KubeVirt is older than a release. An unknown version is taken for a new one."""
    return (0, 0) < platform.kubevirt_release < minor


def launcher_node_selector(spec: Object, platform: Platform) -> dict[str, str]:
    """The node labels that the launcher pod of a VMI with this spec asks for."""
    cpu, selector = _cpu(spec), {SCHEDULABLE: "true", "kubernetes.io/arch": _arch(spec, platform)}
    selector |= {**cluster_node_selector(platform), **(spec.get("nodeSelector") or {})}
    asked = []
    if cpu.get("dedicatedCpuPlacement"):
        asked.append(CPU_MANAGER_BEFORE_1_8 if _before(platform, 1, 8) else CPU_MANAGER)
    if (model := cpu_model(spec, platform)) not in HOST_MODELS:
        asked.append(CPU_MODEL + model)
    if not _before(platform, *MACHINE_TYPE_SINCE):
        asked.append(MACHINE_TYPE + _machine_type(spec, platform))
    asked += [CPU_FEATURE + name for name in cpu_features(spec, "require")]
    special = [f"kubevirt.io/{name}" for name in _encryption(spec, platform)]
    if cpu.get("realtime") is not None:
        special.append("kubevirt.io/realtime")
    # Before 1.5 virt-api adds these (mutators/vmi-mutator.go, addNodeSelector).
    value = "" if _before(platform, 1, 5) else "true"
    return {**selector, **dict.fromkeys(asked, "true"), **dict.fromkeys(special, value)}


def launcher_node_expressions(spec: Object, platform: Platform) -> list[tuple[str, str]]:
    """Key and operator of the expressions that stand in each required node term of the launcher pod (template.go,
    setNodeAffinityForPod)."""
    absent = [CPU_FEATURE + name for name in cpu_features(spec, "forbid")]
    if cpu_model(spec, platform) in (HOST_MODEL, ""):
        absent.insert(0, OBSOLETE_HOST_MODEL)
    return [(key, "DoesNotExist") for key in absent]


def launcher_containers(
    spec: Object,
    platform: Platform,
    annotations: t.Container[str] = (),
    network_devices: t.Iterable[str] = (),
) -> dict[str, list[dict[str, JSON]]]:
    """`containers` and `initContainers` of the launcher pod with their requests. `annotations` are those of
    the VMI, `network_devices` the resources that its networks request, one for each."""
    guaranteed = _is_dedicated(spec) or _wants_guaranteed(spec)
    disk = {
        "cpu": "10m" if guaranteed else "1m",
        "memory": "40M" if guaranteed else "1M",
        "ephemeral-storage": "50M",
    }
    disks = [disk for volume in spec.get("volumes") or () if "containerDisk" in volume]
    containers = [_container(x) for x in disks]
    initial = [
        _container({"cpu": "10m", "memory": "40M" if guaranteed else "1M"}) for _x in disks[:1]
    ]
    if _logs_console(spec, platform):
        console = {
            "cpu": "15m" if guaranteed else "5m",
            "memory": "60M" if guaranteed else "35M",
        }
        if _before(platform, 1, 6):
            containers.append(_container(console))
        else:
            initial.insert(0, {**_container(console), "restartPolicy": "Always"})
    requests = compute_requests(spec, platform, annotations)
    for device in network_devices:
        requests[device] = requests.get(device, 0) + NANO
    compute = {name: f"{amount}n" for name, amount in requests.items()}
    return {
        "containers": [_container(compute), *containers],
        "initContainers": initial,
    }


def launcher_requests(
    spec: Object, platform: Platform, annotations: t.Container[str] = ()
) -> dict[str, int]:
    """What the launcher pod requests of its node, without what its networks do."""
    made = launcher_containers(spec, platform, annotations)
    running, initial = (
        [Container(x["resources"]["requests"], x.get("restartPolicy") == "Always") for x in made[y]]
        for y in ("containers", "initContainers")
    )
    return pod_requests(running, initial, None, None)


def compute_requests(
    spec: Object, platform: Platform, annotations: t.Container[str] = ()
) -> dict[str, int]:
    """The requests of the container `compute` (renderresources.go): of the guest, of its devices, and
    the memory of the processes beside it."""
    requests = guest_resources(spec, "limits") | guest_resources(spec, "requests")
    # A limit of this resource alone is no request: WithEphemeralStorageRequest makes one without it.
    storage = guest_resources(spec, "requests").get("ephemeral-storage", 0)
    requests["ephemeral-storage"] = storage + parse_quantity("50M")
    requests |= _devices(spec, platform)
    requests["cpu"] = _cpu_request(spec, platform, annotations)
    guest, asked = _guest_memory(spec), _requested_memory(spec, platform)
    overhead = memory_overhead(spec, platform)
    if page := (_memory(spec).get("hugepages") or {}).get("pageSize"):
        pages = min(asked, guest) if guest else asked
        requests[f"hugepages-{page}"] = pages
        requests["memory"] = asked - pages + overhead
    elif ((spec.get("domain") or {}).get("resources") or {}).get("overcommitGuestOverhead"):
        requests["memory"] = asked
    else:
        requests["memory"] = asked + overhead
    return requests


def memory_overhead(spec: Object, platform: Platform) -> int:
    """The memory that a launcher pod needs beside its guest (GetMemoryOverhead). It depends on the
    requested memory. Where only the guest's is given, virt-api makes it the request before 1.7
    (setDefaultResourceRequests), and since then virt-controller does, after it has the overhead."""
    devices, interfaces = _devices_of(spec), _interfaces(spec)
    requested = guest_resources(spec, "requests").get("memory", 0)
    if _before(platform, 1, 7):
        requested = _requested_memory(spec, platform)
    kilobytes = -(-requested // (1000 * NANO))
    overhead = kilobytes * 1000 // 512 * NANO + _GUEST_OVERHEAD * _MIB
    overhead -= 10 * _MIB * _before(platform, 1, 5)  # virtlogd 20, virtqemud 35
    overhead += 8 * _MIB * max(1, _vcpus(spec, platform))
    probes = [(spec.get(name) or {}).get("exec") for name in ("livenessProbe", "readinessProbe")]
    probed = sum(probe is not None for probe in probes)
    whole_cpus = _is_dedicated(spec) or _wants_guaranteed(spec)
    since_1_6 = not _before(platform, 1, 6)
    mebibytes = (
        (32 if since_1_6 else 16, devices.get("autoattachGraphicsDevice") is not False),
        (128, _arch(spec, platform) == "arm64"),
        (1024, bool(_host_devices(spec)) or any("sriov" in x for x in interfaces)),
        (1, any("downwardMetrics" in volume for volume in spec.get("volumes") or ())),
        (100 + 10 * probed, probed > 0),
        (256, bool(_encryption(spec, platform) & {"sev", "sev-es", "sev-snp"})),
        (53, devices.get("tpm") is not None and devices["tpm"].get("enabled") is not False),
        (100, whole_cpus and since_1_6),
    )
    overhead += sum(amount * _MIB for amount, counts in mebibytes if counts)
    reserved = (_memory(spec).get("reservedOverhead") or {}).get("addedOverhead")
    overhead += parse_quantity(reserved) if reserved else 0
    if ratio := platform.configuration.get("additionalGuestMemoryOverheadRatio"):
        overhead += int(-(-overhead // (1000 * NANO)) * (float(ratio) - 1)) * 1000 * NANO
    passt = any("passtBinding" in interface for interface in interfaces)
    overhead += 100 * _MIB * (whole_cpus and not since_1_6)  # not multiplied then
    return overhead + 250 * _MIB * passt


def multus_networks(template: Object, namespace: str) -> tuple[tuple[str, str], ...]:
    """Namespace and name of the NetworkAttachmentDefinition of each Multus network of a template in
    `namespace` (pkg/network/multus/nad.go, NetworkToResource)."""
    networks = (template.get("spec") or {}).get("networks") or ()
    names = [str(x["multus"].get("networkName") or "") for x in networks if x.get("multus")]
    split = [name.partition("/") for name in names]
    return tuple((head, tail) if slash else (namespace, head) for head, slash, tail in split)


def doubt_about_labels(spec: Object, platform: Platform) -> str | None:
    """What may make the launcher pod ask for other node labels than these; None where they are known."""
    hyperv = ((spec.get("domain") or {}).get("features") or {}).get("hyperv") or {}
    frequency = any(
        feature.get("name") == "invtsc" and feature.get("policy") in ("require", "force")
        for feature in _cpu(spec).get("features") or ()
    )
    reasons = {
        "the release of KubeVirt is not known": platform.kubevirt is not None
        and platform.kubevirt_release == (0, 0),
        "KubeVirt chooses its TSC frequency": frequency
        or (hyperv.get("reenlightenment") or {}).get("enabled") is True,
        "KubeVirt checks its Hyper-V features": bool(hyperv)
        and "HypervStrictCheck" in (_developer(platform).get("featureGates") or ()),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def doubt_about_launcher(spec: Object, annotations: Object, platform: Platform) -> str | None:
    """What may give the launcher pod other requests or node labels than these; None where they are known."""
    if doubt := doubt_about_labels(spec, platform):
        return doubt
    configuration = platform.configuration
    domain, devices = spec.get("domain") or {}, _devices_of(spec)
    gates = _developer(platform).get("featureGates") or ()
    efi = ((domain.get("firmware") or {}).get("bootloader") or {}).get("efi") or {}
    reasons = {
        "its network binding may ask for memory": any(
            "binding" in interface for interface in _interfaces(spec)
        ),
        "it has devices by resource claims": any(
            "claimName" in device for device in _host_devices(spec)
        )
        or bool(spec.get("resourceClaims")),
        "hooks run beside it": "hooks.kubevirt.io/hookSidecars" in annotations,
        "KubeVirt may complete its CPUs to pairs": bool(_cpu(spec).get("isolateEmulatorThread"))
        and "AlignCPUs" in gates
        and _EVEN_PARITY not in annotations,
        # The pool alone is the limit then, or it is added to the CPUs (WithIOThreads of 1.5).
        "KubeVirt before 1.6 counts the CPUs of its I/O threads otherwise": _is_dedicated(spec)
        and domain.get("ioThreadsPolicy") == "supplementalPool"
        and _before(platform, 1, 6),
        "it shares file systems": bool(devices.get("filesystems")),
        "it boots a kernel of an image": "kernelBoot" in (domain.get("firmware") or {}),
        # Persistent TPM or EFI variables (pkg/storage/backend-storage, IsBackendStorageNeeded).
        "its state is on a volume that KubeVirt chooses": bool(
            (devices.get("tpm") or {}).get("persistent") or efi.get("persistent")
        ),
        "it asks for a persistent reservation": any(
            (disk.get("lun") or {}).get("reservation") for disk in devices.get("disks") or ()
        ),
        "it has a priority class": bool(spec.get("priorityClassName")),
        f"it is placed by {spec.get('schedulerName')}": spec.get("schedulerName")
        not in (None, "", "default-scheduler"),
        "the cluster sets requests of support containers": bool(
            configuration.get("supportContainerResources")
        ),
        "the cluster has a runtime class for VMs": bool(configuration.get("defaultRuntimeClass")),
        "images are mounted as volumes": "ImageVolume" in gates,
        "the cluster has another hypervisor than KVM": "ConfigurableHypervisor" in gates
        and any(x.get("name") != "kvm" for x in configuration.get("hypervisors") or ()),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _cpu_request(spec: Object, platform: Platform, annotations: t.Container[str]) -> int:
    domain = spec.get("domain") or {}
    pool = (domain.get("ioThreads") or {}).get("supplementalPoolThreadCount") or 0
    if _before(platform, 1, 6):
        pool = 0
    total = _vcpus(spec, platform) + pool
    if _is_dedicated(spec):
        return (total + _emulator_cpus(spec, total, annotations)) * NANO
    limits, requests = guest_resources(spec, "limits"), guest_resources(spec, "requests")
    configured = platform.configuration.get("cpuRequest")
    asked = requests.get("cpu") or limits.get("cpu", requests.get("cpu"))
    if asked is not None:
        return asked
    if configured and parse_quantity(configured) != parse_quantity("100m"):
        return parse_quantity(configured)
    ratio = int(_developer(platform).get("cpuAllocationRatio") or 10)
    return -(-total * NANO // ratio)


def _emulator_cpus(spec: Object, cpus: int, annotations: t.Container[str]) -> int:
    """CPUs of the emulator beside the `cpus` of the guest and its I/O threads (WithCPUPinning, which counts
    the threads of a supplemental pool a second time)."""
    domain = spec.get("domain") or {}
    if not _cpu(spec).get("isolateEmulatorThread"):
        return 0
    if domain.get("ioThreadsPolicy") == "supplementalPool":
        cpus += (domain.get("ioThreads") or {}).get("supplementalPoolThreadCount") or 0
    return 2 if _EVEN_PARITY in annotations and cpus % 2 == 0 else 1


def _vcpus(spec: Object, platform: Platform) -> int:
    """Sockets, cores and threads as virt-api completes them (SetDefaultGuestCPUTopology): also from the request
    that the cluster configures."""
    cpu = _cpu(spec)
    given = [int(cpu.get(part) or 0) for part in ("sockets", "cores", "threads")]
    if any(given):
        return math.prod(part or 1 for part in given)
    asked = guest_resources(spec, "limits").get("cpu")
    if asked is None:
        asked = guest_resources(spec, "requests").get("cpu")
    if asked is None and not _is_dedicated(spec):
        asked = parse_quantity(platform.configuration.get("cpuRequest") or "1")
    return -(-(NANO if asked is None else asked) // NANO)


def completed_sockets(spec: Object, platform: Platform) -> int:
    """The sockets of a VMI whose template names none, as virt-api completes them: one beside cores or threads."""
    cpu = _cpu(spec)
    return 1 if cpu.get("cores") or cpu.get("threads") else _vcpus(spec, platform)


def _guest_memory(spec: Object) -> int:
    """The guest's memory as virt-api completes it (setGuestMemory)."""
    memory = _memory(spec)
    if memory.get("guest"):
        return parse_quantity(memory["guest"])
    if asked := _asked_memory(spec):
        return asked
    try:
        return parse_quantity((memory.get("hugepages") or {}).get("pageSize") or "0")
    except ValueError:  # text to the API server: only KubeVirt's webhook refuses it
        return 0


def _asked_memory(spec: Object) -> int:
    return guest_resources(spec, "requests").get("memory") or guest_resources(spec, "limits").get(
        "memory", 0
    )


def _requested_memory(spec: Object, platform: Platform) -> int:
    """The memory request without overhead (WithMemoryRequests)."""
    if asked := _asked_memory(spec):
        return asked
    overcommit = int(_developer(platform).get("memoryOvercommit") or 100)
    return _guest_memory(spec) // NANO * 100 // overcommit * NANO


def _devices(spec: Object, platform: Platform) -> dict[str, int]:
    devices, interfaces = _devices_of(spec), _interfaces(spec)
    emulated = bool(_developer(platform).get("useEmulation"))
    attached = devices.get("autoattachPodInterface") is not False
    # Without an interface virt-api adds one of the default model.
    models = [interface.get("model") or "virtio" for interface in interfaces]
    models = models or (["virtio"] if attached and not spec.get("networks") else [])
    counts = {
        f"{DEVICE}tun": int(bool(interfaces) or attached),
        f"{DEVICE}vhost-net": int("virtio" in models and not emulated),
        f"{DEVICE}kvm": int(not emulated),
        f"{DEVICE}vhost-vsock": int(devices.get("autoattachVSOCK") is True),
        f"{DEVICE}sev": int(bool(_encryption(spec, platform) & {"sev", "sev-snp"})),
    }
    for device in _host_devices(spec):
        if name := device.get("deviceName"):
            counts[name] = counts.get(name, 0) + 1
    return {name: count * NANO for name, count in counts.items() if count}


def _encryption(spec: Object, platform: Platform) -> frozenset[str]:
    """What launchSecurity asks of nodes, as in their labels (pkg/util/amd64.go, s390x.go)."""
    security = (spec.get("domain") or {}).get("launchSecurity")
    if security is None:
        return frozenset()
    policy = ((security.get("sev") or {}).get("policy")) or {}
    names = {
        "sev": "sev" in security or "snp" in security,
        "sev-es": policy.get("encryptedState") is True,
        "sev-snp": "snp" in security,
        "tdx": "tdx" in security,
        "s390-pv": _arch(spec, platform) == "s390x",
    }
    return frozenset(name for name, asked in names.items() if asked)


def _logs_console(spec: Object, platform: Platform) -> bool:
    devices = _devices_of(spec)
    if devices.get("autoattachSerialConsole") is False:
        return False
    if devices.get("logSerialConsole") is not None:
        return bool(devices["logSerialConsole"])
    options = platform.configuration.get("virtualMachineOptions") or {}
    return "disableSerialConsoleLog" not in options


def _wants_guaranteed(spec: Object) -> bool:
    """Equal requests and limits of CPU and memory (VirtualMachineInstance.WantsToHaveQOSGuaranteed)."""
    limits = guest_resources(spec, "limits")
    requests = limits | guest_resources(spec, "requests")
    return all(limits.get(name) and limits[name] == requests[name] for name in ("cpu", "memory"))


def cpu_features(spec: Object, policy: str) -> list[str]:
    """The CPU features with this policy; a feature without one is required. Hyper-V's evmcs needs vmx
    (pkg/defaults/hyperv.go, setEVMCSDependency)."""
    features = _cpu(spec).get("features") or ()
    policies = {each["name"]: each.get("policy") or "require" for each in features}
    if requires_evmcs(spec):
        policies["vmx"] = "require"
    return [name for name, own in policies.items() if own == policy]


def requires_evmcs(spec: Object) -> bool:
    """Whether the guest gets Hyper-V's enlightened VMCS, which Intel's CPUs have."""
    features = (spec.get("domain") or {}).get("features") or {}
    evmcs = (features.get("hyperv") or {}).get("evmcs")
    return evmcs is not None and evmcs.get("enabled") is not False


def model_of(spec: Object) -> str:
    """The CPU model that the spec of a template or of a VMI names; empty where it names none."""
    return _cpu(spec).get("model") or ""


def cpu_model(spec: Object, platform: Platform) -> str:
    """The CPU model that the VM names, else that of its architecture (SetArm64Defaults), else the cluster's."""
    of_architecture = "host-passthrough" if _arch(spec, platform) == "arm64" else ""
    return model_of(spec) or of_architecture or platform.configuration.get("cpuModel") or HOST_MODEL


def _machine_type(spec: Object, platform: Platform) -> str:
    architecture = _arch(spec, platform)
    configured = platform.configuration.get("architectureConfiguration") or {}
    candidates = (
        ((spec.get("domain") or {}).get("machine") or {}).get("type"),
        platform.configuration.get("machineType"),
        (configured.get(architecture) or {}).get("machineType"),
        _MACHINE_TYPES.get(architecture),
    )
    return next((str(candidate) for candidate in candidates if candidate), "q35")


def _host_devices(spec: Object) -> list[JSON]:
    devices = _devices_of(spec)
    return [*(devices.get("gpus") or ()), *(devices.get("hostDevices") or ())]


def _arch(spec: Object, platform: Platform) -> str:
    return str(spec.get("architecture") or platform.architecture).lower()


def _is_dedicated(spec: Object) -> bool:
    return bool(_cpu(spec).get("dedicatedCpuPlacement"))


def _cpu(spec: Object) -> Object:
    return (spec.get("domain") or {}).get("cpu") or {}


def _memory(spec: Object) -> Object:
    return (spec.get("domain") or {}).get("memory") or {}


def _devices_of(spec: Object) -> Object:
    return (spec.get("domain") or {}).get("devices") or {}


def _interfaces(spec: Object) -> list[JSON]:
    return _devices_of(spec).get("interfaces") or []


def _developer(platform: Platform) -> Object:
    return platform.configuration.get("developerConfiguration") or {}


def guest_resources(spec: Object, kind: str) -> dict[str, int]:
    """The `limits` or `requests` of the guest."""
    listed = ((spec.get("domain") or {}).get("resources") or {}).get(kind) or {}
    return {name: parse_quantity(amount) for name, amount in listed.items()}


def _container(requests: Object) -> dict[str, JSON]:
    return {"resources": {"requests": dict(requests)}}
