# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The identities of a sandbox: users of the collection with its shipped rights, and the control plane."""

from __future__ import annotations

import base64
import dataclasses
import json
import secrets
import typing as t
from pathlib import Path

import yaml

from .installation import RBAC
from .layout import Layout

_KUBEVIRT = "system:serviceaccount:kubevirt"
_EVERYTHING = "system:masters"


@dataclasses.dataclass(frozen=True)
class Identity:
    """A user of the API server; ``roles`` are names of files in rbac/."""

    username: str
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


IDENTITIES: t.Final[dict[str, Identity]] = {
    "admin": Identity("admin", (_EVERYTHING,)),
    "reader": Identity("virt-placement:reader", roles=("reader",)),
    "labeler": Identity("virt-placement:labeler", roles=("reader", "labeler")),
    "mover": Identity("virt-placement:mover", roles=("reader", "mover")),
    "labeler-mover": Identity("virt-placement:labeler-mover", roles=("reader", "labeler", "mover")),
    "maintainer": Identity("virt-placement:maintainer", roles=("reader", "maintainer")),
    "capi-reader": Identity("virt-placement:capi-reader", roles=("capi-reader",)),
    "maintainer-mover": Identity(
        "virt-placement:maintainer-mover", roles=("reader", "maintainer", "mover")
    ),
    "policies-writer": Identity(
        "virt-placement:policies-writer", roles=("reader", "mover", "policies-writer")
    ),
    "nobody": Identity("virt-placement:nobody"),
    # KubeVirt's webhooks know its own parts by these names
    "kubevirt-controller": Identity(f"{_KUBEVIRT}:kubevirt-controller", (_EVERYTHING,)),
    "kubevirt-apiserver": Identity(f"{_KUBEVIRT}:kubevirt-apiserver", (_EVERYTHING,)),
    "kubevirt-handler": Identity(f"{_KUBEVIRT}:kubevirt-handler", (_EVERYTHING,)),
    "kube-controller-manager": Identity("system:kube-controller-manager", (_EVERYTHING,)),
    "kube-scheduler": Identity("system:kube-scheduler", (_EVERYTHING,)),
    "kwok": Identity("kwok", (_EVERYTHING,)),
}

#: users whose requests are the control plane's own life and not worth an audit line
CONTROL_PLANE: t.Final = (
    "system:apiserver",
    *(
        IDENTITIES[name].username
        for name in (
            "kubevirt-controller",
            "kubevirt-apiserver",
            "kubevirt-handler",
            "kube-controller-manager",
            "kube-scheduler",
            "kwok",
        )
    ),
)


def create_all(layout: Layout, nodes: t.Iterable[str] = ()) -> Path:
    """Give each identity, and the kubelet of each of these nodes, a token and a kubeconfig; returns the API server's
    token file."""
    rows = []
    kubelets = {
        name: Identity(f"system:node:{name}", ("system:nodes", _EVERYTHING)) for name in nodes
    }
    for name, identity in {**IDENTITIES, **kubelets}.items():
        token = secrets.token_hex(16)
        groups = f',"{",".join(identity.groups)}"' if identity.groups else ""
        rows.append(f"{token},{identity.username},{name}{groups}\n")
        path = layout.kubeconfig(name)
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(_kubeconfig(layout, token)))
    file = layout.directory / "tokens.csv"
    file.touch(mode=0o600)
    file.write_text("".join(rows))
    return file


def token(layout: Layout, identity: str) -> str:
    """The bearer token of an identity."""
    content = yaml.safe_load(layout.kubeconfig(identity).read_text())
    return str(content["users"][0]["user"]["token"])


def for_nodes(layout: Layout, identity: str, address: str) -> str:
    """The kubeconfig of an identity as a node needs it: by the address for nodes, and without other files."""
    content = _kubeconfig(layout, token(layout, identity))
    authority = base64.b64encode(layout.ca_file.read_bytes()).decode()
    server = f"https://{address}:{layout.ports['kube-apiserver']}"
    cluster = {"server": server, "certificate-authority-data": authority}
    return yaml.safe_dump({**content, "clusters": [{"name": "sandbox", "cluster": cluster}]})


def _kubeconfig(layout: Layout, token: str) -> dict[str, t.Any]:
    cluster = {"server": layout.url, "certificate-authority": str(layout.ca_file)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "sandbox",
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "clusters": [{"name": "sandbox", "cluster": cluster}],
        "users": [{"name": "sandbox", "user": {"token": token}}],
    }


#: label keys that tests, demos and examples set beside those that the shipped policy names
NODE_LABEL_KEYS: t.Final = (
    "audit",
    "drs.placement.virt/gpu",
    "drs.placement.virt/licensed",
    "drs.placement.virt/licensed-hosts",
    "drs.placement.virt/site-A",
    "drs.placement.virt/site-B",
    "example.com/fault",
    "example.com/rack",
    "example.com/row",
    "node.cluster.x-k8s.io/esxi-host",
    "proxied",
    "rack",
    "row",
    "zone",
)
WORKLOAD_LABEL_KEYS: t.Final = (
    "app",
    "group.example/x",
    "group.example/z",
    "harvesterhci.io/machineSetName",
    "tier",
)


def shipped(file: str) -> list[dict[str, t.Any]]:
    """The objects of a file in rbac/."""
    documents = yaml.safe_load_all((RBAC / file).read_text())
    return [item for content in documents for item in content.get("items", [content])]


def access_objects() -> list[dict[str, t.Any]]:
    """What a user applies, with the policies for a topology of its own; and the bindings that give the
    roles to the identities."""
    objects = [item for file in sorted(RBAC.glob("*.yml")) for item in shipped(file.name)]
    for item in objects:
        if item["kind"] == "ValidatingAdmissionPolicy":
            allow_keys(item, "nodeLabelKeys", NODE_LABEL_KEYS)
            allow_keys(item, "workloadLabelKeys", WORKLOAD_LABEL_KEYS)
    return objects + [
        _binding(identity, role)
        for identity in IDENTITIES.values()
        for role in objects
        if role["kind"] in ("ClusterRole", "Role")
        and role["metadata"]["name"].removeprefix("virt-placement-") in identity.roles
    ]


def allow_keys(policy: dict[str, t.Any], variable: str, keys: t.Sequence[str]) -> None:
    """Add label keys to a list in a policy, as a comment in rbac/policies.yml describes."""
    for entry in policy["spec"].get("variables", ()):
        if entry["name"] == variable:
            entry["expression"] = json.dumps([*json.loads(entry["expression"]), *keys])


def _binding(identity: Identity, role: dict[str, t.Any]) -> dict[str, t.Any]:
    group = "rbac.authorization.k8s.io"
    name = f"{identity.username}:{role['metadata']['name']}"
    namespace = role["metadata"].get("namespace")
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {
        "apiVersion": f"{group}/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": identity.username}],
    }
