# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modelled after Harvester's source, not Harvester: what its mutating webhook does to the affinity of each VM that is
created or updated (harvester, pkg/webhook/resources/virtualmachine/mutator.go).

1. Expressions whose key begins with network.harvesterhci.io, or is cpumanager, are taken out of each required node
   selector term, and those that the VM needs are put in: one for each Multus network, by the label of its
   NetworkAttachmentDefinition, and one for dedicated CPUs.
2. A required term without expressions is dropped, so a term of matchFields alone is lost.
3. The affinity is always written, at least as {}.

Not modelled: requests, memory of the guest, the grace period and the run strategy, which it also writes.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import ssl
import threading
import typing as t

if t.TYPE_CHECKING:
    from sandbox import Sandbox

NETWORK = "network.harvesterhci.io"
NAME = "harvester-demo"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Object = dict[str, t.Any]


def mutated(vm: Object, cluster_networks: t.Mapping[str, str]) -> Object:
    """The affinity of a VM as Harvester leaves it. `cluster_networks`: by NetworkAttachmentDefinition, as
    namespace/name."""
    spec = vm["spec"]["template"]["spec"]
    namespace = vm["metadata"].get("namespace", "default")
    affinity: Object = json.loads(json.dumps(spec.get("affinity") or {}))
    node: Object = affinity.pop("nodeAffinity", None) or {}
    terms = [
        _without_own(term) for term in (node.get(_REQUIRED) or {}).get("nodeSelectorTerms", ())
    ]
    terms = [term for term in terms if term["matchExpressions"]]
    own = [*_of_networks(spec, namespace, cluster_networks), *_of_cpus(spec)]
    if own:
        terms = [
            {**term, "matchExpressions": [*term["matchExpressions"], *own]}
            for term in terms or [{"matchExpressions": []}]
        ]
    kept: Object = {_REQUIRED: {"nodeSelectorTerms": terms}} if terms else {}
    if node.get(_PREFERRED):
        kept[_PREFERRED] = node[_PREFERRED]
    return {**({"nodeAffinity": kept} if kept else {}), **affinity}


def _without_own(term: Object) -> Object:
    expressions = [
        expression
        for expression in term.get("matchExpressions") or ()
        if not expression["key"].startswith(NETWORK) and expression["key"] != "cpumanager"
    ]
    return {**term, "matchExpressions": expressions}


def _of_networks(spec: Object, namespace: str, known: t.Mapping[str, str]) -> t.Iterator[Object]:
    for network in spec.get("networks") or ():
        name = (network.get("multus") or {}).get("networkName")
        cluster_network = known.get(name if name and "/" in name else f"{namespace}/{name}")
        if cluster_network:
            yield {"key": f"{NETWORK}/{cluster_network}", "operator": "In", "values": ["true"]}


def _of_cpus(spec: Object) -> t.Iterator[Object]:
    if (spec["domain"].get("cpu") or {}).get("dedicatedCpuPlacement"):
        yield {"key": "cpumanager", "operator": "In", "values": ["true"]}


@contextlib.contextmanager
def answering(sandbox: Sandbox, cluster_networks: t.Mapping[str, str]) -> t.Iterator[None]:
    """The webhook is asked about each VM while the block runs."""
    pki = sandbox.directory / "pki"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "virt-api.crt", pki / "virt-api.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(cluster_networks))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    configurations = sandbox.api.path("MutatingWebhookConfiguration")
    url = f"https://127.0.0.1:{server.server_address[1]}/"
    sandbox.api.create(configurations, _configuration(url, sandbox.ca_file.read_bytes()))
    try:
        yield
    finally:
        sandbox.api.delete(f"{configurations}/{NAME}")
        server.shutdown()
        server.server_close()


def _configuration(url: str, authority: bytes) -> Object:
    return {
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": "vm.harvester.demo",
                "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
                "rules": [
                    {
                        "apiGroups": ["kubevirt.io"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["virtualmachines"],
                    }
                ],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
            }
        ],
    }


def _handler(known: t.Mapping[str, str]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = json.loads(body)["request"]
            path = "/spec/template/spec/affinity"
            patch = [{"op": "add", "path": path, "value": mutated(request["object"], known)}]
            response = {
                "uid": request["uid"],
                "allowed": True,
                "patchType": "JSONPatch",
                "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
            }
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
            answer = json.dumps({**review, "response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: t.Any) -> None:
            """Nothing: the terminal is the demo's."""

    return Handler
