# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rules and placement_info from options to what an operator reads, on an API server in this process."""

from __future__ import annotations

import pytest

from tests.fuzz.cluster import KUBEVIRT, OTHERS, Objects, objects
from tests.support.api_server import ApiServer, Reply, Request, answer, status
from tests.support.modules import run

APART = {"name": "web-apart", "workloads": [{"labels": {"app": "web"}}], "keep_apart": "zone"}
VMS = f"/apis/{KUBEVIRT}/namespaces/{OTHERS}/virtualmachines"


def with_another_web_server(there: Objects) -> Objects:
    """Made from the template of web0, after the rule was written to that."""
    like = objects()[f"{VMS}/web0"]
    metadata = {**like["metadata"], "name": "web9", "uid": "vm-web9"}
    halted = {"runStrategy": "Halted", "template": like["spec"]["template"]}
    new = {**like, "metadata": metadata, "spec": halted, "status": {"printableStatus": "Stopped"}}
    return {**there, f"{VMS}/web9": new}


@pytest.mark.parametrize("created_later", [True, False])
def test_verify_names_a_vm_that_was_created_after_its_rule_and_what_to_run(
    created_later: bool,
) -> None:
    there = with_another_web_server(objects()) if not created_later else objects()
    server = ApiServer(there)
    written = run("rules", server, {"namespace": OTHERS, "rules": [APART]})
    assert "failed" not in written, written["msg"]
    if created_later:
        server = ApiServer(with_another_web_server(server.objects))

    verified = run("placement_info", server, {"namespaces": [OTHERS], "details": "problems"})

    texts = [x for x in verified["warnings"] if "rule_not_on_new_member" in x]
    assert len(texts) == created_later
    for text in texts:
        assert f"VirtualMachine {OTHERS}/web9" in text
        assert "by which rule default/web-apart selects its members" in text
        assert (
            "created or got the labels later, or another client wrote it without the rule." in text
        )
        assert "Write the rules of the set default again (playbook apply, or module rules)" in text


POLICY = (
    "virtualmachines.kubevirt.io \"web1\" is forbidden: ValidatingAdmissionPolicy 'storage' with binding 'all' denied"
    f" request: {'VMs of this volume stay in their zone, ' * 30}see zones.yml, key pinned"
)


@pytest.mark.parametrize("check", [True, False])
def test_refusal_of_a_policy_is_printed_to_its_end_and_check_mode_asks_for_it(check: bool) -> None:
    server = ApiServer(objects())
    server.add_fault("PATCH", "web1", status(403, "Forbidden", POLICY), dry_runs=True)

    result = run("rules", server, {"namespace": OTHERS, "rules": [APART]}, check=check)

    assert result["failed"]
    assert "see zones.yml, key pinned" in result["msg"]
    assert "request what it allows, or extend the policy" in result["msg"]
    assert "grant" not in result["msg"]
    assert bool(server.writes) != check


@pytest.mark.parametrize("check", [True, False])
def test_check_mode_shows_what_the_policy_would_do_without_the_right_to_write_it(
    check: bool,
) -> None:
    """An administrator reviews it, and applies the manifests. A task that writes shows what it wrote."""
    options = {"namespace": OTHERS, "rules": [APART], "new_members": "policy"}
    able = run("rules", ApiServer(objects()), options, check=check)
    server = ApiServer(objects())

    def review(request: Request) -> Reply:
        group = request.body["spec"]["resourceAttributes"]["group"]
        allowed = group != "admissionregistration.k8s.io"
        return answer({**request.body, "status": {"allowed": allowed}}, 201)

    server.add_fault("POST", "selfsubjectaccessreviews", review, dry_runs=True)
    result = run("rules", server, options, check=check)
    assert [x["code"] for x in result["outcome"]["skipped"]] == ["policy_not_written"]
    assert result["writes"] == able["writes"][2:]
    assert result["diff"] == able["diff"][0 if check else 2 :]


@pytest.mark.parametrize("left", [[OTHERS], []])
def test_verification_of_what_a_job_has_moved_leaves_out_namespaces_that_were_deleted(
    left: list[str],
) -> None:
    """A move that the job has taken over of an earlier one, for example. A name that a user gives is an error."""
    only = [{"kind": "VirtualMachine", "namespace": x, "name": "db"} for x in ["gone", *left]]
    asked = {"namespaces": ["gone", *left], "details": "problems"}
    verified = run("placement_info", ApiServer(objects()), {**asked, "only": only})
    (entry,) = verified["outcome"]["skipped"]
    assert (entry["code"], entry["objects"]) == ("no_namespace", ["namespace gone"])
    refused = run("placement_info", ApiServer(objects()), asked)
    assert "there is no namespace 'gone'" in refused["msg"]
