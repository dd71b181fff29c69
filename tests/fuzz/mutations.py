# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of objects that the API server would accept from whoever owns a namespace."""

from __future__ import annotations

import copy
import json
import typing as t

from hypothesis import strategies as st

from .cluster import CREATED_BY, HOSTNAME, OTHERS, TENANT, ZONE, Object, path_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PREFIX = "placement.virt/"

Objects = dict[str, Object]
Change = t.Callable[[Objects], None]

names = st.one_of(
    st.sampled_from(["web0", "web1", "db0", "cache", "set0", "pool0", "x", "web0.example"]),
    st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True),
    st.just("a" * 63),
)
label_values = st.one_of(
    st.sampled_from(
        [
            "",
            "true",
            "false",
            "migrate",
            "refuse",
            "web",
            "web0",
            "cache",
            "virt-launcher",
            "h1",
            f"virtualmachineinstance-{OTHERS}-web0",
            f"virtualmachineinstance-{TENANT}-web0",
            "a",
            "9" * 63,
            "-1"[1:],
        ]
    ),
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,6}[A-Za-z0-9])?", fullmatch=True),
)
label_keys = st.one_of(
    st.sampled_from(
        [
            "app",
            "vm",
            CREATED_BY,
            "kubevirt.io",
            "kubevirt.io/nodeName",
            "kubevirt.io/migrationJobUID",
            "kubevirt.io/vm-pool-revision-name",
            "vm.kubevirt.io/name",
            "vmi.kubevirt.io/id",
            "pod-template-hash",
            "controller-revision-hash",
            "performance",
            ZONE,
            HOSTNAME,
            f"{PREFIX}do-not-move",
            f"{PREFIX}vm-policy",
            f"{PREFIX}run",
            f"{PREFIX}group-0123456789",
            "kubernetes.io/metadata.name",
            "argocd.argoproj.io/instance",
        ]
    ),
    st.from_regex(r"([a-z]{1,4}\.[a-z]{2}/)?[A-Za-z0-9]{1,5}", fullmatch=True),
)
labels = st.dictionaries(label_keys, label_values, max_size=4)
texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "",
            "null",
            "[]",
            "{}",
            "[" * 100_000,
            '{"a":' * 50_000,
            "{" * 40 + "}" * 40,
            '{"version":1}',
            '{"version":1e999}',
            '{"version":NaN}',
            "1" * 6000,
            "{{ lookup('pipe', 'id') }}",
            "\x1b[2J\r\nTASK [forged] ok",
            "x" * 200_000,
        ]
    ),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["..", "../../nodes/w1", "a/b/c", "VirtualMachine/x/y", "1" * 5000, 1e308]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
quantities = st.sampled_from(
    ["0", "1", "100m", "1Gi", "1e3", "1E", "9223372036854775807", "999999999E", "1e1000000", "0.1n"]
)
counts = st.sampled_from([0, 1, 2, 3, 50, 10_000, 2**31 - 1])

_expressions = st.builds(
    lambda key, operator, listed: {
        "key": key,
        "operator": operator,
        **(
            {}
            if operator in ("Exists", "DoesNotExist")
            else {"values": listed[:1] if operator in ("Gt", "Lt") else listed}
        ),
    },
    label_keys,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(label_values, min_size=1, max_size=3),
)
_node_expressions = st.one_of(
    _expressions,
    st.builds(
        lambda key, operator, value: {"key": key, "operator": operator, "values": [value]},
        label_keys,
        st.sampled_from(["Gt", "Lt"]),
        label_values,
    ),
)
_selectors: st.SearchStrategy[Object] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "matchLabels": labels,
            "matchExpressions": st.lists(_expressions, max_size=3),
        },
    ),
)
_topology_keys = st.one_of(st.just(ZONE), st.just(HOSTNAME), label_keys)
_own_pod_terms = st.fixed_dictionaries(
    {"topologyKey": _topology_keys, "labelSelector": _selectors},
    optional={
        "matchLabelKeys": st.lists(label_keys, max_size=2, unique=True),
        "mismatchLabelKeys": st.lists(label_keys, max_size=2, unique=True),
    },
)
_pod_terms = st.one_of(
    _own_pod_terms,
    st.builds(
        lambda term, more: {**term, **more},
        _own_pod_terms,
        st.fixed_dictionaries(
            {},
            optional={
                "namespaces": st.sampled_from([[OTHERS], [TENANT, OTHERS], ["gone"], []]),
                "namespaceSelector": _selectors,
            },
        ),
    ),
)


def _required(terms: st.SearchStrategy[t.Any]) -> st.SearchStrategy[Object]:
    many = st.builds(
        lambda listed, times: [
            {**term, "topologyKey": f"k{number}"} if number else term
            for number in range(times)
            for term in listed
        ],
        st.lists(terms, min_size=1, max_size=2),
        st.sampled_from([30, 200]),
    )
    plain = st.lists(terms, max_size=3)
    weighted = st.lists(
        st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": terms}),
        max_size=3,
    )
    return st.fixed_dictionaries(
        {}, optional={REQUIRED: st.one_of(plain, plain, plain, many), PREFERRED: weighted}
    )


_node_terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(_node_expressions, max_size=3),
        "matchFields": st.lists(
            st.builds(
                lambda operator, value: {
                    "key": "metadata.name",
                    "operator": operator,
                    "values": [value],
                },
                st.sampled_from(["In", "NotIn"]),
                st.sampled_from(["w1", "w2", "gone"]),
            ),
            max_size=1,
        ),
    },
)
_node_affinity = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.builds(
            lambda terms: {"nodeSelectorTerms": terms},
            st.lists(_node_terms, min_size=1, max_size=4),
        ),
        PREFERRED: st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": _node_terms}),
            max_size=3,
        ),
    },
)
_affinity = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": _node_affinity,
        "podAffinity": _required(_pod_terms),
        "podAntiAffinity": _required(_pod_terms),
    },
)
_spread = st.fixed_dictionaries(
    {
        "maxSkew": st.sampled_from([1, 2, 2**31 - 1]),
        "topologyKey": _topology_keys,
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    },
    optional={
        "labelSelector": _selectors,
        "minDomains": st.sampled_from([1, 2, 2**31 - 1]),
        "matchLabelKeys": st.lists(label_keys, max_size=2, unique=True),
        "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
        "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
    },
)
_tolerations = st.fixed_dictionaries(
    {},
    optional={
        "key": label_keys,
        "operator": st.sampled_from(["Exists", "Equal"]),
        "value": label_values,
        "effect": st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
    },
)
placements = st.fixed_dictionaries(
    {},
    optional={
        "affinity": _affinity,
        "topologySpreadConstraints": st.lists(_spread, max_size=3),
        "nodeSelector": labels,
        "tolerations": st.lists(_tolerations, max_size=3),
    },
)


def of_kind(objects: Objects, *kinds: str) -> list[str]:
    return [
        path
        for path, item in objects.items()
        if item["metadata"].get("namespace") == TENANT and (not kinds or item["kind"] in kinds)
    ]


WORKLOADS = (
    "VirtualMachine",
    "VirtualMachineInstanceReplicaSet",
    "VirtualMachinePool",
    "Deployment",
    "StatefulSet",
)


def template_of(item: Object) -> Object:
    spec = item["spec"]
    if item["kind"] == "VirtualMachinePool":
        spec = spec["virtualMachineTemplate"]["spec"]
    return t.cast(Object, spec["template"])


def mutated(draw: t.Callable[[st.SearchStrategy[t.Any]], t.Any], value: t.Any) -> t.Any:
    """JSON with one value at some depth replaced, removed or doubled."""
    if isinstance(value, dict) and value:
        key = draw(st.sampled_from(sorted(value)))
        how = draw(st.sampled_from(["inner", "inner", "remove", "replace", "rename"]))
        rest = {name: inner for name, inner in value.items() if name != key}
        if how == "inner":
            return {**rest, key: mutated(draw, value[key])}
        if how == "remove":
            return rest
        if how == "replace":
            return {**rest, key: draw(values)}
        return {**rest, draw(st.text(max_size=8)): value[key]}
    if isinstance(value, list) and value:
        place = draw(st.integers(0, len(value) - 1))
        how = draw(st.sampled_from(["inner", "remove", "double"]))
        if how == "inner":
            return [*value[:place], mutated(draw, value[place]), *value[place + 1 :]]
        if how == "remove":
            return [*value[:place], *value[place + 1 :]]
        return [*value, value[place]]
    return draw(values)


def mutated_text(draw: t.Callable[[st.SearchStrategy[t.Any]], t.Any], text: str) -> str:
    """The text of an annotation, in which JSON was changed; or other text."""
    if not text or draw(st.integers(0, 3)) == 0:
        return t.cast(str, draw(texts))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return t.cast(str, draw(texts))
    for _time in range(draw(st.integers(1, 2))):
        value = mutated(draw, value)
    return json.dumps(value)


@st.composite
def annotation_changes(draw: t.Any, objects: Objects) -> None:
    path = draw(st.sampled_from(of_kind(objects)))
    metadata = objects[path]["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    key = draw(
        st.sampled_from(
            [
                f"{PREFIX}rules",
                f"{PREFIX}rules",
                f"{PREFIX}undo",
                f"{PREFIX}undo",
                f"{PREFIX}journal",
                f"{PREFIX}run",
                f"{PREFIX}held",
                "kubernetes.io/config.mirror",
                "argocd.argoproj.io/tracking-id",
                "example.com/\u202e",
            ]
        )
    )
    annotations[key] = mutated_text(draw, annotations.get(key, ""))
    metadata["annotations"] = annotations


@st.composite
def label_changes(draw: t.Any, objects: Objects) -> None:
    item = objects[draw(st.sampled_from(of_kind(objects)))]
    places = [item["metadata"]]
    if item["kind"] in WORKLOADS:
        places.append(template_of(item).setdefault("metadata", {}))
    where = draw(st.sampled_from(places))
    if draw(st.integers(0, 4)) == 0:
        where.pop("labels", None)
    else:
        where["labels"] = {**(where.get("labels") or {}), **draw(labels)}


@st.composite
def term_changes(draw: t.Any, objects: Objects) -> None:
    path = draw(st.sampled_from(of_kind(objects, *WORKLOADS, "Pod", "VirtualMachineInstance")))
    item = objects[path]
    spec = template_of(item)["spec"] if item["kind"] in WORKLOADS else item["spec"]
    spec.update(draw(placements))


@st.composite
def condition_changes(draw: t.Any, objects: Objects) -> None:
    item = objects[draw(st.sampled_from(of_kind(objects)))]
    conditions = st.fixed_dictionaries(
        {
            "type": st.one_of(
                st.sampled_from(
                    [
                        "Ready",
                        "LiveMigratable",
                        "RestartRequired",
                        "PodScheduled",
                        "Paused",
                        "migrationRejectedByResourceQuota",
                        "Synchronized",
                        "Failure",
                    ]
                ),
                st.text(max_size=8),
            ),
            "status": st.sampled_from(["True", "False", "Unknown", ""]),
        },
        optional={"reason": texts, "message": texts},
    )
    status = item.setdefault("status", {})
    status["conditions"] = draw(st.lists(conditions, max_size=3))
    if draw(st.booleans()):
        key = draw(st.sampled_from(["phase", "nodeName", "printableStatus"]))
        status[key] = draw(st.sampled_from(["", "Pending", "Running", "Failed", "w1", "gone"]))
    if item["kind"] == "VirtualMachineInstance" and draw(st.booleans()):
        status["migrationState"] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "migrationUid": names,
                    "sourceNode": st.sampled_from(["w1", "gone", ""]),
                    "targetNode": st.sampled_from(["w2", "gone"]),
                    "targetPod": names,
                    "completed": st.booleans(),
                    "failed": st.booleans(),
                },
            )
        )
        status["activePods"] = draw(
            st.dictionaries(
                st.sampled_from(
                    [f"pod-{OTHERS}-virt-launcher-web0-x1", f"pod-{TENANT}-cache-h1-0", "none"]
                ),
                st.sampled_from(["w1", "w4", "gone"]),
                max_size=2,
            )
        )
    if item["kind"] == "VirtualMachine" and draw(st.booleans()):
        status["stateChangeRequests"] = [{"action": "Stop", "uid": draw(names)}]


@st.composite
def owner_changes(draw: t.Any, objects: Objects) -> None:
    item = objects[draw(st.sampled_from(of_kind(objects)))]
    uids = sorted(x["metadata"]["uid"] for x in objects.values())
    item["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": draw(
                st.sampled_from(
                    [
                        "VirtualMachine",
                        "VirtualMachineInstance",
                        "VirtualMachinePool",
                        "ReplicaSet",
                        "DaemonSet",
                        "Job",
                        "Deployment",
                    ]
                )
            ),
            "name": draw(names),
            "uid": draw(st.sampled_from([*uids, "none"])),
            "controller": draw(st.booleans()),
        }
    ]


@st.composite
def lifecycle_changes(draw: t.Any, objects: Objects) -> None:
    """Deletion, finalizers, copies under other names, and objects without their controllers."""
    path = draw(st.sampled_from(of_kind(objects)))
    item = objects[path]
    what = draw(st.sampled_from(["delete", "terminate", "finalizer", "copy", "managers"]))
    if what == "delete":
        if len(of_kind(objects)) > 1:
            del objects[path]
    elif what == "terminate":
        item["metadata"]["deletionTimestamp"] = "2026-05-01T08:00:00Z"
        item["metadata"]["finalizers"] = ["example.com/never"]
    elif what == "finalizer":
        item["metadata"]["finalizers"] = [draw(names)]
    elif what == "managers":
        item["metadata"]["managedFields"] = draw(
            st.lists(st.fixed_dictionaries({}, optional={"manager": texts}), max_size=2)
        )
    else:
        other = copy.deepcopy(item)
        other["metadata"]["name"] = name = draw(names)
        other["metadata"]["uid"] = f"copy-{len(objects)}"
        if path_of(other) not in objects:
            objects[path_of(other)] = other
            if "nodeName" in other["spec"] and draw(st.booleans()):
                del other["spec"]["nodeName"]
        assert name


@st.composite
def spec_changes(draw: t.Any, objects: Objects) -> None:
    """Numbers, strategies, requests, and what decides whether a VM can be migrated."""
    path = draw(st.sampled_from(of_kind(objects)))
    item = objects[path]
    spec, kind = item["spec"], item["kind"]
    if kind in WORKLOADS and kind != "VirtualMachine" and draw(st.booleans()):
        spec["replicas"] = draw(st.one_of(counts, st.none()))
    if kind == "VirtualMachine":
        spec["runStrategy"] = draw(
            st.sampled_from(["Always", "Halted", "Manual", "RerunOnFailure", "Once"])
        )
        for name in ("instancetype", "preference"):
            if draw(st.booleans()):
                spec[name] = {"name": draw(names), "kind": "VirtualMachineInstancetype"}
        if draw(st.booleans()):
            spec["dataVolumeTemplates"] = [{"metadata": {"name": draw(names)}, "spec": {}}]
    if kind == "VirtualMachinePool" and draw(st.booleans()):
        spec["updateStrategy"] = draw(
            st.sampled_from([{}, {"opportunistic": {}}, {"proactive": {}}])
        )
    if kind == "Deployment":
        share = st.one_of(counts, st.sampled_from(["0%", "100%", "2147483647%", "25%"]))
        spec["strategy"] = draw(
            st.one_of(
                st.none(),
                st.just({"type": "Recreate"}),
                st.fixed_dictionaries(
                    {
                        "rollingUpdate": st.fixed_dictionaries(
                            {}, optional={"maxSurge": share, "maxUnavailable": share}
                        )
                    }
                ),
            )
        )
        spec["paused"] = draw(st.booleans())
    if kind == "StatefulSet" and draw(st.booleans()):
        spec["updateStrategy"] = {
            "type": draw(st.sampled_from(["OnDelete", "RollingUpdate"])),
            "rollingUpdate": {"partition": draw(counts)},
        }
    inner = template_of(item)["spec"] if kind in WORKLOADS else spec
    if "containers" in inner:
        requests = st.dictionaries(
            st.sampled_from(["cpu", "memory", "example.com/gpu", "hugepages-2Mi", "x"]),
            quantities,
            max_size=2,
        )
        inner["containers"] = [
            {
                "name": "c",
                "resources": {"requests": draw(requests)},
                "ports": [{"hostPort": draw(st.sampled_from([0, 80, 65535])), "containerPort": 80}],
            }
        ]
        if draw(st.booleans()):
            inner["schedulerName"] = draw(names)
        if draw(st.booleans()):
            inner["priority"] = draw(st.sampled_from([0, 10**9, -(2**31)]))
        if draw(st.booleans()):
            inner["volumes"] = [
                {"name": "v", "persistentVolumeClaim": {"claimName": draw(names)}},
                {"name": "e", "ephemeral": {}},
            ]
    if "domain" in inner:
        inner["domain"] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "cpu": st.fixed_dictionaries(
                        {},
                        optional={
                            "cores": counts,
                            "sockets": counts,
                            "threads": counts,
                            "maxSockets": counts,
                            "dedicatedCpuPlacement": st.booleans(),
                            "isolateEmulatorThread": st.booleans(),
                            "model": st.sampled_from(
                                ["host-model", "host-passthrough", "Skylake", "x y"]
                            ),
                            "features": st.lists(
                                st.fixed_dictionaries(
                                    {"name": names},
                                    optional={"policy": st.sampled_from(["require", "forbid", ""])},
                                ),
                                max_size=2,
                            ),
                            "numa": st.just({"guestMappingPassthrough": {}}),
                            "realtime": st.just({}),
                        },
                    ),
                    "memory": st.fixed_dictionaries(
                        {},
                        optional={
                            "guest": quantities,
                            "maxGuest": quantities,
                            "hugepages": st.fixed_dictionaries(
                                {"pageSize": st.sampled_from(["2Mi", "1Gi", "", "x"])}
                            ),
                            "overcommit": st.just({"percent": 200}),
                        },
                    ),
                    "resources": st.fixed_dictionaries(
                        {},
                        optional={
                            "requests": st.dictionaries(
                                st.sampled_from(["cpu", "memory"]), quantities, max_size=2
                            ),
                            "limits": st.dictionaries(
                                st.sampled_from(["cpu", "memory"]), quantities, max_size=2
                            ),
                            "overcommitGuestOverhead": st.booleans(),
                        },
                    ),
                    "ioThreadsPolicy": st.sampled_from(["shared", "auto", "supplementalPool"]),
                    "ioThreads": st.fixed_dictionaries(
                        {}, optional={"supplementalPoolThreadCount": counts}
                    ),
                    "machine": st.fixed_dictionaries({}, optional={"type": names}),
                    "firmware": st.just({"bootloader": {"efi": {}}}),
                    "launchSecurity": st.sampled_from([{}, {"sev": {}}, {"sev": {"policy": {}}}]),
                    "devices": st.fixed_dictionaries(
                        {},
                        optional={
                            "gpus": st.lists(
                                st.fixed_dictionaries({"name": names, "deviceName": names}),
                                max_size=2,
                            ),
                            "hostDevices": st.lists(
                                st.fixed_dictionaries({"name": names, "deviceName": names}),
                                max_size=2,
                            ),
                            "interfaces": st.lists(
                                st.fixed_dictionaries(
                                    {"name": names}, optional={"sriov": st.just({})}
                                ),
                                max_size=2,
                            ),
                            "autoattachVSOCK": st.booleans(),
                            "tpm": st.just({"persistent": True}),
                        },
                    ),
                },
            )
        )
        inner["evictionStrategy"] = draw(
            st.sampled_from(["LiveMigrate", "LiveMigrateIfPossible", "None", "External"])
        )
        if draw(st.booleans()):
            inner.pop("networks", None)
        if draw(st.booleans()):
            inner["volumes"] = [
                {"name": "r", "containerDisk": {"image": "x"}},
                {"name": "d", "dataVolume": {"name": draw(names)}},
            ]
    if kind == "VirtualMachineInstanceMigration":
        spec["vmiName"] = draw(names)
        item["status"] = draw(
            st.sampled_from([{}, {"phase": "Pending"}, {"phase": "Running"}, {"phase": "Failed"}])
        )
    if kind == "ResourceQuota":
        spec["hard"] = draw(
            st.dictionaries(
                st.sampled_from(["pods", "requests.cpu", "limits.memory", "count/x", "cpu"]),
                quantities,
                max_size=3,
            )
        )
        item["status"] = {"hard": spec["hard"], "used": {}}
        if draw(st.booleans()):
            spec["scopes"] = [draw(st.sampled_from(["Terminating", "BestEffort", "x"]))]


CHANGES: t.Sequence[t.Callable[[Objects], st.SearchStrategy[None]]] = (
    annotation_changes,
    annotation_changes,
    label_changes,
    term_changes,
    term_changes,
    condition_changes,
    owner_changes,
    lifecycle_changes,
    spec_changes,
    spec_changes,
)


@st.composite
def of_tenant(draw: t.Any, base: Objects) -> Objects:
    """The objects after one to four changes of the tenant's."""
    objects = copy.deepcopy(base)
    for _change in range(draw(st.integers(1, 4))):
        draw(draw(st.sampled_from(CHANGES))(objects))
    return objects


@st.composite
def of_platform(draw: t.Any, base: Objects, journal: str, mark: str) -> Objects:
    """The objects with a changed journal on the Lease, or a changed mark on a node."""
    objects = copy.deepcopy(base)
    if draw(st.booleans()):
        lease = objects[path_of_lease(objects)]
        text = mutated_text(draw, journal)
        lease["metadata"]["annotations"] = {f"{PREFIX}journal": text}
        if draw(st.integers(0, 3)) == 0:
            lease["metadata"]["annotations"][f"{PREFIX}run"] = draw(texts)
    else:
        node = objects["/api/v1/nodes/w1"]
        key = draw(st.sampled_from(["maintenance", "maintenance", "node-labels", "rules"]))
        node["metadata"]["annotations"] = {PREFIX + key: mutated_text(draw, mark)}
        node["spec"]["unschedulable"] = draw(st.booleans())
    return objects


def path_of_lease(objects: Objects) -> str:
    return next(path for path, item in objects.items() if item["kind"] == "Lease")
