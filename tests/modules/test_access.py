# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module does where it may not, cannot, or should not reach the cluster.

One cluster without KubeVirt is enough for that: each module is asked for something that it can do
there, and the last test for something that it cannot.
"""

from __future__ import annotations

import pathlib
import types
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cluster import identity
from ansible_collections.virt.placement.plugins.modules import (
    capacity_info,
    cpu_info,
    drill_info,
    forecast_info,
    lint_info,
    node_labels,
    placement_info,
    rollout,
    rules,
    rules_info,
    topology_info,
)
from sandbox import Sandbox, objects
from tests.conftest import RunModule

Options = dict[str, t.Any]

NAMESPACE = "access"
ON_MACHINE = [{"name": "fast", "workloads": [{"name": "db"}], "run_on": {"zone": "zone1"}}]
ON_DEPLOYMENT = [
    {
        "name": "apart",
        "workloads": [{"kind": "Deployment", "name": "web"}],
        "keep_apart": {"topology_key": "zone"},
    }
]


class Case(t.NamedTuple):
    """A task that the identity `runs_as` may run; `reads` and `writes` are the verb and the
    resource that are named where the right to read or to write is missing."""

    module: types.ModuleType
    runs_as: str
    options: Options
    reads: tuple[str, str]
    writes: tuple[str, str] | None = None
    without_kubevirt: Options | None = None

    @property
    def judges(self) -> bool:
        """Says `unknown` where it could not look, in place of a failure."""
        return self.module in (
            placement_info,
            rules_info,
            capacity_info,
            cpu_info,
            drill_info,
            forecast_info,
            lint_info,
        )


CASES = {
    "node_labels": Case(
        node_labels,
        "labeler",
        {"nodes": ["w1"], "labels": {"example.com/rack": "r1"}},
        ("list", "nodes"),
        ("patch", "nodes"),
    ),
    "topology_info": Case(topology_info, "reader", {}, ("list", "nodes")),
    "rules": Case(
        rules,
        "mover",
        {"namespace": NAMESPACE, "rules": ON_DEPLOYMENT, "workload_rollout": "allow"},
        ("list", "deployments"),
        ("patch", "deployments"),
        {"namespace": NAMESPACE, "rules": ON_MACHINE},
    ),
    "placement_info": Case(
        placement_info,
        "reader",
        {"namespaces": [NAMESPACE]},
        ("list", "pods"),
        without_kubevirt={"workloads": [{"namespace": NAMESPACE, "name": "db"}]},
    ),
    "rules_info": Case(
        rules_info,
        "reader",
        {"namespaces": [NAMESPACE]},
        ("list", "pods"),
        without_kubevirt={"namespaces": [NAMESPACE], "workloads": ["db"]},
    ),
    "capacity_info": Case(
        capacity_info,
        "reader",
        {"tolerate": ["zone"]},
        ("list", "pods"),
        without_kubevirt={"tolerate": ["zone"], "namespace": NAMESPACE, "rules": ON_MACHINE},
    ),
    "cpu_info": Case(
        cpu_info,
        "reader",
        {"namespaces": [NAMESPACE]},
        ("list", "pods"),
        without_kubevirt={"namespaces": [NAMESPACE], "workloads": ["db"]},
    ),
    "drill_info": Case(
        drill_info,
        "reader",
        {"domains_of": ["zone"]},
        ("list", "pods"),
        without_kubevirt={"domains_of": ["zone"], "namespace": NAMESPACE, "rules": ON_MACHINE},
    ),
    "forecast_info": Case(
        forecast_info,
        "reader",
        {},
        ("list", "pods"),
        without_kubevirt={"namespace": NAMESPACE, "rules": ON_MACHINE},
    ),
    "lint_info": Case(
        lint_info,
        "reader",
        {"online": True, "namespace": NAMESPACE, "rules": ON_DEPLOYMENT},
        ("list", "pods"),
        without_kubevirt={"online": True, "namespace": NAMESPACE, "rules": ON_MACHINE},
    ),
    "rollout": Case(
        rollout,
        "mover",
        {"namespaces": [NAMESPACE], "allow": ["recreate"], "scope": "all"},
        ("list", "pods"),
        ("get", "leases"),
        {"namespaces": [NAMESPACE], "workloads": [{"labels": {"app": "db"}}, {"name": "db"}]},
    ),
}


def of(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [CASES[name] for name in names], ids=names)


EVERY = of(*CASES)
WRITING = of(*(name for name, case in CASES.items() if case.writes))
ONLY_READING = of(
    "topology_info",
    "placement_info",
    "rules_info",
    "capacity_info",
    "cpu_info",
    "drill_info",
    "forecast_info",
    "lint_info",
)
FOR_MACHINES = of(*(name for name, case in CASES.items() if case.without_kubevirt))


class Ask(t.Protocol):
    """How the fixture ask is called."""

    def __call__(self, case: Case, options: Options | None = None, **access: t.Any) -> Options:
        raise NotImplementedError


@pytest.fixture(scope="module")
def shop(plain: Sandbox) -> t.Iterator[Sandbox]:
    """A Deployment that the cases are about."""
    plain.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    plain.api.apply(objects.deployment("web", NAMESPACE, replicas=1))
    yield plain
    plain.api.delete(plain.api.path("Namespace", name=NAMESPACE))


@pytest.fixture
def ask(shop: Sandbox, run_module: RunModule) -> Ask:
    """Runs a case's module. No run here may write anything."""

    def run(case: Case, options: Options | None = None, **access: t.Any) -> Options:
        start = shop.audit.mark()
        wanted = case.options if options is None else options
        result = run_module(case.module.main, {**access, **wanted})
        made = [write for write in shop.audit.writes(since=start) if write.code < 300]
        assert made == []
        assert result["changed"] is False
        return result

    return run


def refused(result: Options) -> str:
    """The message of a module that failed."""
    assert result["failed"], result
    return t.cast(str, result["msg"])


@EVERY
def test_without_any_right_the_verb_and_the_resource_are_named(
    shop: Sandbox, ask: Ask, case: Case
) -> None:
    result = ask(case, kubeconfig=str(shop.kubeconfig("nobody")))

    verb, resource = case.reads
    if case.judges:
        missing = {(gap["verb"], gap["resource"]) for gap in result["permission_gaps"]}
        assert {(verb, resource), ("list", "nodes")} <= missing
        if case.module is cpu_info:
            assert result["counts"]["unknown"]
        elif case.module not in (lint_info, rules_info):
            assert "unknown" in (result.get("forecast"), *_verdicts(result))
        assert "satisfied" not in _verdicts(result)
    else:
        assert verb in refused(result)
        assert resource in refused(result)
        assert "grant this identity" in refused(result)
        assert refused(result).count("rbac/reader.yml") == 1
        assert "there is no" not in refused(result)


@WRITING
def test_with_the_right_to_read_the_one_to_write_is_named(
    shop: Sandbox, ask: Ask, case: Case
) -> None:
    message = refused(ask(case, kubeconfig=str(shop.kubeconfig("reader"))))

    assert case.writes is not None
    assert all(word in message for word in case.writes)
    assert "grant this identity" in message


BY_RELEASE = of(*(name for name in CASES if name not in ("node_labels", "topology_info")))
"""What depends on the releases of the server: all but labels of nodes."""


@BY_RELEASE
def test_a_server_that_is_too_old_is_refused_and_nothing_is_written(
    shop: Sandbox, ask: Ask, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_release", lambda _version: (1, 30))

    message = refused(ask(case, kubeconfig=str(shop.kubeconfig(case.runs_as))))

    assert f"Kubernetes 1.30 of {shop.url} is too old: 1.31 or newer is needed" in message


@of("placement_info")
def test_a_server_that_is_newer_than_the_tested_gets_one_line_with_v(
    shop: Sandbox, ask: Ask, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_release", lambda _version: (1, 99))
    access: dict[str, t.Any] = {"kubeconfig": str(shop.kubeconfig(case.runs_as))}

    assert "untested" not in ask(case, **access)["cluster"]
    verbose = ask(case, **access, _ansible_verbosity=1)

    assert verbose["cluster"]["untested"].startswith("Kubernetes 1.99 is newer than 1.36")
    assert not verbose.get("warnings")


@of(*(name for name in CASES if name != "cpu_info"))
def test_an_address_that_serves_no_api(ask: Ask, case: Case) -> None:
    """Each module takes seconds for its retries. cpu_info connects as the other modules that only read do."""
    message = refused(ask(case, host="https://127.0.0.1:1", api_key="some-token"))

    assert "Connection refused" in message
    assert message.endswith("check host, port, proxy and network")


@EVERY
def test_a_token_that_expired(shop: Sandbox, ask: Ask, case: Case) -> None:
    message = refused(ask(case, host=shop.url, ca_cert=str(shop.ca_file), api_key="expired"))

    assert "401 Unauthorized" in message
    assert message.endswith(
        "the credentials were refused: renew the token or the certificate and run again"
    )


@EVERY
def test_an_authority_that_is_not_known(shop: Sandbox, ask: Ask, case: Case) -> None:
    message = refused(ask(case, host=shop.url, api_key=shop.token(case.runs_as)))

    assert "certificate verify failed" in message
    assert message.endswith(
        "set ca_cert to the file with the CA certificate of the API server, or set validate_certs to"
        " false where the identity of the server need not be checked"
    )
    assert "proxy" not in message


@EVERY
def test_a_context_that_is_not_in_the_kubeconfig(shop: Sandbox, ask: Ask, case: Case) -> None:
    kubeconfig = shop.kubeconfig(case.runs_as)

    message = refused(ask(case, kubeconfig=str(kubeconfig), context="prod"))

    assert message.startswith(f"context: there is no context prod in {kubeconfig}; its contexts")


@EVERY
def test_a_kubeconfig_that_is_not_there(ask: Ask, case: Case, tmp_path: pathlib.Path) -> None:
    none = tmp_path / "none"
    assert f"kubeconfig: there is no file {none}" in refused(ask(case, kubeconfig=str(none)))
    assert f"kubeconfig: {tmp_path} is a folder" in refused(ask(case, kubeconfig=str(tmp_path)))


@EVERY
def test_a_host_that_does_not_count(shop: Sandbox, ask: Ask, case: Case) -> None:
    """Without credentials beside it the client goes to the kubeconfig's server."""
    another = "https://nowhere.invalid:6443"
    kubeconfig = str(shop.kubeconfig(case.runs_as))
    start = shop.audit.mark()

    message = refused(ask(case, kubeconfig=kubeconfig, host=another))

    assert f"host says {another}, and the rest of the configuration leads to {shop.url}" in message
    assert "give api_key" in message
    assert shop.audit.requests(start, case.runs_as) == []


@EVERY
def test_a_host_of_the_environment_that_does_not_count(
    shop: Sandbox, ask: Ask, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K8S_AUTH_HOST", "https://nowhere.invalid:6443")
    start = shop.audit.mark()

    message = refused(ask(case, kubeconfig=str(shop.kubeconfig(case.runs_as))))

    assert "K8S_AUTH_HOST says https://nowhere.invalid:6443" in message
    assert shop.audit.requests(start, case.runs_as) == []


@EVERY
def test_a_context_that_does_not_count(shop: Sandbox, ask: Ask, case: Case) -> None:
    start = shop.audit.mark()
    access: Options = {
        "host": shop.url,
        "ca_cert": str(shop.ca_file),
        "api_key": shop.token(case.runs_as),
    }

    message = refused(ask(case, **access, context="production"))

    assert "context is given and would be ignored" in message
    assert shop.audit.requests(start, case.runs_as) == []


@EVERY
def test_a_token_that_does_not_count(shop: Sandbox, ask: Ask, case: Case) -> None:
    """The client takes the kubeconfig's own in its place."""
    start = shop.audit.mark()
    another = "reader" if case.runs_as != "reader" else "mover"
    kubeconfig = str(shop.kubeconfig(another))

    message = refused(ask(case, kubeconfig=kubeconfig, api_key=shop.token(case.runs_as)))

    assert "api_key is given and would be ignored" in message
    assert shop.audit.requests(start, another) == []
    assert shop.audit.requests(start, case.runs_as) == []


@EVERY
def test_an_authority_that_is_not_there(
    shop: Sandbox, ask: Ask, case: Case, tmp_path: pathlib.Path
) -> None:
    none = tmp_path / "ca.crt"
    access: Options = {"host": shop.url, "api_key": shop.token(case.runs_as)}

    message = refused(ask(case, **access, ca_cert=str(none)))

    assert f"ca_cert: there is no file {none}" in message


@EVERY
@pytest.mark.parametrize("option", ["cluster_uid", "kubeconfig", "context", "host", "api_key"])
def test_an_empty_answer(shop: Sandbox, ask: Ask, case: Case, option: str) -> None:
    start = shop.audit.mark()
    access: Options = {"kubeconfig": str(shop.kubeconfig(case.runs_as)), option: ""}

    message = refused(ask(case, **access))

    assert message == f"{option}: must not be empty: omit it"
    assert shop.audit.requests(start, case.runs_as) == []


@EVERY
def test_another_cluster_is_left_alone(shop: Sandbox, ask: Ask, case: Case) -> None:
    another = "5f0c5b5e-0000-0000-0000-000000000000"

    result = ask(case, kubeconfig=str(shop.kubeconfig(case.runs_as)), cluster_uid=another)

    assert f"cluster_uid says {another}: nothing was done" in refused(result)
    assert result["cluster"]["uid"] not in (None, another)


@FOR_MACHINES
def test_vm_workloads_without_kubevirt_are_refused(shop: Sandbox, ask: Ask, case: Case) -> None:
    kubeconfig = str(shop.kubeconfig(case.runs_as))

    result = ask(case, case.without_kubevirt, kubeconfig=kubeconfig)

    assert "KubeVirt is not installed" in refused(result)
    assert "workloads[0]" in refused(result)


@ONLY_READING
def test_check_mode_and_diff_mode_change_no_answer(
    shop: Sandbox, run_module: RunModule, case: Case
) -> None:
    pods = shop.api.path("Pod", NAMESPACE)
    shop.api.wait_list(pods, lambda found: any(map(_is_running, found)))
    options = {**case.options, "kubeconfig": str(shop.kubeconfig(case.runs_as))}
    start = shop.audit.mark()

    plain = run_module(case.module.main, options)
    modes = ({"check": True}, {"diff": True}, {"check": True, "diff": True})
    others = [run_module(case.module.main, options, **mode) for mode in modes]

    assert not plain.get("failed"), plain
    assert plain["changed"] is False
    assert "diff" not in plain
    assert others == [plain] * len(modes)
    assert shop.audit.writes(since=start) == []


def _is_running(pod: Options) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


def _verdicts(result: Options) -> set[str]:
    """Verdicts that at least one instance has."""
    return {name for name, count in result.get("summary", {}).items() if count}
