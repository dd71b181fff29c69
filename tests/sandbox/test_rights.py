# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each shipped role gives what it must and nothing else, by the API server's own answers."""

from __future__ import annotations

import contextlib
import itertools
import typing as t
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox import Sandbox
from sandbox.identities import shipped

READ = frozenset({"get", "list", "watch"})
VERBS = (*sorted(READ), "create", "update", "patch", "delete", "deletecollection")
EVERYTHING_READ = {
    "nodes": "",
    "pods": "",
    "namespaces": "",
    "persistentvolumes": "",
    "resourcequotas": "",
    "deployments": "apps",
    "replicasets": "apps",
    "statefulsets": "apps",
    "daemonsets": "apps",
    "poddisruptionbudgets": "policy",
    "volumeattachments": "storage.k8s.io",
    "persistentvolumeclaims": "",
    "storageclasses": "storage.k8s.io",
    "csinodes": "storage.k8s.io",
    "limitranges": "",
    "mutatingwebhookconfigurations": "admissionregistration.k8s.io",
    "mutatingadmissionpolicies": "admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings": "admissionregistration.k8s.io",
    "validatingadmissionpolicies": "admissionregistration.k8s.io",
    "validatingadmissionpolicybindings": "admissionregistration.k8s.io",
    "kubevirts": "kubevirt.io",
    "virtualmachines": "kubevirt.io",
    "virtualmachineinstances": "kubevirt.io",
    "virtualmachineinstancereplicasets": "kubevirt.io",
    "virtualmachineinstancemigrations": "kubevirt.io",
    "virtualmachinepools": "pool.kubevirt.io",
}
NEVER_READ = {
    "services": "",
    "secrets": "",
    "configmaps": "",
    "serviceaccounts": "",
    "nodes/status": "",
    "nodes/proxy": "",
    "pods/exec": "",
    "pods/status": "",
    "pods/eviction": "",
    "leases": "coordination.k8s.io",
    "clusterroles": "rbac.authorization.k8s.io",
    "clusterrolebindings": "rbac.authorization.k8s.io",
    "customresourcedefinitions": "apiextensions.k8s.io",
    "deployments/scale": "apps",
    "virtualmachines/restart": "subresources.kubevirt.io",
    "virtualmachines/start": "subresources.kubevirt.io",
    "virtualmachines/stop": "subresources.kubevirt.io",
    "virtualmachines/migrate": "subresources.kubevirt.io",
    "virtualmachineinstances/console": "subresources.kubevirt.io",
    "virtualmachineinstances/evacuate": "subresources.kubevirt.io",
    "virtualmachineinstances/evacuate/cancel": "subresources.kubevirt.io",
}
#: what a maintainer reads of other automation
AUTOMATION = {
    "nodehealthchecks": "remediation.medik8s.io",
    "machines": "machine.openshift.io",
    "machinehealthchecks": "cluster.x-k8s.io",
    "machineconfigpools": "machineconfiguration.openshift.io",
}
#: what everybody lists, without a watch
LISTED = {"events": ""}
RESOURCES = {**EVERYTHING_READ, **NEVER_READ, **LISTED, **AUTOMATION}

#: what an identity may write, beside reading
WRITES: dict[str, dict[str, set[str]]] = {
    "reader": {},
    "labeler": {"nodes": {"patch"}},
    "mover": {
        "virtualmachines": {"patch"},
        "virtualmachineinstancereplicasets": {"patch"},
        "virtualmachinepools": {"patch"},
        "deployments": {"patch"},
        "statefulsets": {"patch"},
        "virtualmachineinstances": {"patch", "delete"},
        "pods": {"patch"},
        "virtualmachineinstancemigrations": {"create", "delete"},
        "virtualmachines/restart": {"update"},
        "pods/eviction": {"create"},
        "events": {"create"},
    },
    "maintainer": {
        "nodes": {"patch"},
        "pods": {"patch"},
        "pods/eviction": {"create"},
        "virtualmachineinstances": {"patch", "delete"},
        "virtualmachineinstancemigrations": {"create", "delete"},
        "virtualmachines/restart": {"update"},
        "virtualmachines/start": {"update"},
        "virtualmachines/stop": {"update"},
        "virtualmachineinstances/evacuate": {"update"},
        "virtualmachineinstances/evacuate/cancel": {"update"},
        "events": {"create"},
    },
}
WRITES["policies-writer"] = {
    **WRITES["mover"],
    **{
        f"{kind}admission{part}": {"create", "patch", "delete"}
        for kind in ("mutating", "validating")
        for part in ("policies", "policybindings")
    },
}
WRITES["labeler-mover"] = {**WRITES["labeler"], **WRITES["mover"]}


REVIEWS = "/apis/authorization.k8s.io/v1"


def attributes(verb: str, resource: str, namespace: str, name: str) -> dict[str, str]:
    """The attributes of a request, as access reviews ask about them."""
    plural, _slash, subresource = resource.partition("/")
    return {
        "verb": verb,
        "group": RESOURCES[resource],
        "resource": plural,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }


def may(
    sandbox: Sandbox, identity: str, verb: str, resource: str, namespace: str = "", name: str = ""
) -> bool:
    spec = {"resourceAttributes": attributes(verb, resource, namespace, name)}
    path = f"{REVIEWS}/selfsubjectaccessreviews"
    answer = sandbox.api_as(identity).create(path, {"spec": spec})
    return bool(answer["status"]["allowed"])


def allowed(sandbox: Sandbox, identity: str) -> set[tuple[str, str]]:
    """(verb, resource) of everything that this identity may do in the whole cluster."""
    asked = [name for name in RESOURCES if name not in AUTOMATION]
    questions = list(itertools.product(VERBS, asked))
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda question: may(sandbox, identity, *question), questions)
        return {question for question, yes in zip(questions, answers, strict=True) if yes}


@pytest.mark.parametrize("identity", WRITES)
def test_identity_has_just_its_rights(plain: Sandbox, identity: str) -> None:
    expected = {(verb, resource) for verb in READ for resource in EVERYTHING_READ}
    expected |= {("list", resource) for resource in LISTED}
    expected |= {(verb, res) for res, verbs in WRITES[identity].items() for verb in verbs}
    assert allowed(plain, identity) == expected


@pytest.mark.parametrize("resource", AUTOMATION)
@pytest.mark.parametrize(
    ("identity", "verbs"), [("maintainer", {"get", "list"}), ("reader", set())]
)
def test_other_automation_is_read_for_maintenance(
    plain: Sandbox, identity: str, verbs: set[str], resource: str
) -> None:
    assert {verb for verb in VERBS if may(plain, identity, verb, resource)} == verbs


def test_an_identity_without_roles_has_no_rights(plain: Sandbox) -> None:
    assert allowed(plain, "nobody") == set()


@pytest.mark.parametrize(
    ("identity", "resource", "verbs"),
    [
        ("mover", "leases", {"get", "patch"}),
        ("maintainer", "leases", {"get", "patch"}),
        ("mover", "configmaps", set()),
        ("maintainer", "configmaps", set()),
        ("reader", "leases", set()),
        ("labeler", "leases", set()),
    ],
)
def test_lease_and_memory_by_name(
    plain: Sandbox, identity: str, resource: str, verbs: set[str]
) -> None:
    def ask(namespace: str, name: str) -> set[str]:
        return {verb for verb in VERBS if may(plain, identity, verb, resource, namespace, name)}

    assert ask("kube-system", "virt-placement") == verbs
    assert ask("kube-system", "something-else") == set()
    assert ask("default", "virt-placement") == set()


def test_roles_are_what_a_user_applies(plain: Sandbox) -> None:
    """As `kubectl apply -f rbac/` does: six ClusterRoles and two Roles, no wildcard in any."""
    roles: list[dict[str, t.Any]] = [
        role
        for kind in ("ClusterRole", "Role")
        for role in plain.api.list(plain.api.path(kind))
        if role["metadata"]["name"].startswith("virt-placement-")
    ]
    assert len(roles) == 8
    for role in roles:
        for rule in role["rules"]:
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]


@pytest.mark.parametrize("example", ["one-namespace", "all-namespaces"])
def test_example_binds_the_service_account_that_its_comment_names(
    plain: Sandbox, example: str
) -> None:
    items = shipped(f"examples/{example}.yml")
    (account,) = [item["metadata"]["name"] for item in items if item["kind"] == "ServiceAccount"]
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    with applied(plain, [shop, *items]):
        wait_for_right(plain, account, "patch", "virtualmachines", "shop")
        everywhere = account_may(plain, account, "patch", "virtualmachines", "default")
        assert everywhere == (example == "all-namespaces")
        assert account_may(plain, account, "list", "pods", "")
        assert account_may(plain, account, "patch", "leases", "kube-system", "virt-placement")
        assert not account_may(plain, account, "patch", "leases", "kube-system", "another")
        assert not account_may(plain, account, "patch", "nodes", "")


def test_example_binds_a_service_account_for_each_other_job(plain: Sandbox) -> None:
    jobs = {"verify": set(), "topology": {"nodes"}, "maintenance": {"nodes", "leases"}}
    with applied(plain, shipped("examples/other-jobs.yml")):
        for account, patched in jobs.items():
            wait_for_right(plain, account, "list", "pods", "")
            for resource, namespace, name in (
                ("nodes", "", ""),
                ("leases", "kube-system", "virt-placement"),
            ):
                may_patch = account_may(plain, account, "patch", resource, namespace, name)
                assert may_patch == (resource in patched), (account, resource)
        assert account_may(plain, "maintenance", "create", "pods/eviction", "shop")
        assert account_may(plain, "maintenance", "patch", "virtualmachines", "shop")
        assert not account_may(plain, "topology", "patch", "virtualmachines", "shop")


@contextlib.contextmanager
def applied(plain: Sandbox, items: list[dict[str, t.Any]]) -> t.Iterator[None]:
    plain.api.apply(items)
    try:
        yield
    finally:
        paths = [plain.api.path_of(item) for item in items]
        for path in reversed(paths):
            plain.api.delete(path)
        for path in paths:
            plain.api.wait_gone(path)


def account_may(
    plain: Sandbox, account: str, verb: str, resource: str, namespace: str, name: str = ""
) -> bool:
    """Whether a service account of the examples has the right."""
    user = f"system:serviceaccount:virt-placement:{account}"
    asked = {"user": user, "resourceAttributes": attributes(verb, resource, namespace, name)}
    answer = plain.api.create(f"{REVIEWS}/subjectaccessreviews", {"spec": asked})
    return bool(answer["status"]["allowed"])


def wait_for_right(plain: Sandbox, account: str, verb: str, resource: str, namespace: str) -> None:
    """The API server takes a moment to see new bindings."""
    plain.api.wait_list(
        plain.api.path("Namespace"),
        lambda _all: account_may(plain, account, verb, resource, namespace),
        10,
    )
