# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each way of moving does next, from what is seen: no cluster, no clock."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.labels import (
    UNSCHEDULABLE_TIMEOUT,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Vmi,
)
from ansible_collections.virt.placement.plugins.module_utils.moves import migrate, recreate
from ansible_collections.virt.placement.plugins.module_utils.moves.move import (
    CANCEL_PATIENCE,
    ApiReply,
    MoveRecord,
    MoveResult,
    MoveSettings,
    Observation,
    Outcome,
    Phase,
    ReplyStatus,
)

VMI = Ref("VirtualMachineInstance", "shop", "db")
SETTINGS = MoveSettings("r1", move_timeout=100, unschedulable_timeout=60)
RECORD = MoveRecord(VMI, "u1", Ref("VirtualMachine", "shop", "db"), Method.MIGRATE, "w1", 1, 10.0)
BEGUN = replace(RECORD, phase=Phase.BEGUN)
NO_NODE = Obstacle("no_node", "0/3 nodes", True)


def instance(node: str = "w1", uid: str = "u1", **vmi: t.Any) -> Instance:
    machine = Vmi(VMI, uid, "Running", node, {}, {}, ready=True)
    pod = Pod("shop", f"launcher-{uid}", f"p-{uid}", node_name=node, phase="Running", ready=True)
    return Instance(VMI, uid, RECORD.workload, pod, replace(machine, **vmi))


def migration(phase: str) -> dict[str, t.Any]:
    metadata = {"uid": "m1", "labels": {"placement.virt/run": "r1"}}
    return {"metadata": metadata, "spec": {"vmiName": "db"}, "status": {"phase": phase}}


class TestMigrate:
    def test_a_quota_is_named_and_waited_for_only_while_another_move_may_free_it(self) -> None:
        held = Observation(
            instance(), migration=migration("Pending"), quota=Obstacle("refused", "quota q is full")
        )
        late = BEGUN.begun + SETTINGS.unschedulable_timeout + 1

        waits = migrate.advance(BEGUN, held, late, SETTINGS)
        ends = migrate.advance(BEGUN, replace(held, alone=True), late, SETTINGS)

        assert (waits.request, waits.record.note) == (None, "quota q is full")
        assert ends.request is not None
        assert ends.record.phase is Phase.CANCELLING

    def test_it_creates_one_migration_with_a_name_that_follows_from_run_and_instance(self) -> None:
        step = migrate.advance(RECORD, Observation(instance()), 11, SETTINGS)

        assert step.request is not None
        body = step.request.body or {}
        assert step.request.path == "/apis/kubevirt.io/v1/namespaces/shop/" + (
            "virtualmachineinstancemigrations"
        )
        assert body["spec"] == {"vmiName": "db"}
        assert body["metadata"]["labels"] == {"placement.virt/run": "r1"}
        assert body["metadata"]["name"].startswith("placement-r1-")
        again = migrate.advance(RECORD, Observation(instance()), 12, SETTINGS)
        assert again.request == step.request
        second = migrate.advance(replace(RECORD, attempt=2), Observation(instance()), 12, SETTINGS)
        assert second.request != step.request

    def test_kubevirt_gives_up_soon_on_a_target_that_no_node_takes(self) -> None:
        settings = replace(SETTINGS, unschedulable_timeout=42)
        body = migrate.migration_body(RECORD, settings)
        assert body["metadata"]["annotations"] == {UNSCHEDULABLE_TIMEOUT: "42"}

    def test_a_pin_is_handed_on(self) -> None:
        body = migrate.migration_body(replace(RECORD, node_selector=(("zone", "b"),)), SETTINGS)
        assert body["spec"]["addedNodeSelector"] == {"zone": "b"}

    @pytest.mark.parametrize(
        ("seen", "note"),
        [
            (
                Observation(instance(), foreign_migration=True),
                "another migration of it is in flight",
            ),
            (
                Observation(instance(), propagating=True),
                "KubeVirt has not copied the new placement to the VMI yet",
            ),
        ],
    )
    def test_it_waits_before_it_begins(self, seen: Observation, note: str) -> None:
        step = migrate.advance(RECORD, seen, 11, SETTINGS)
        assert step.request is None
        assert step.ended is None
        assert step.record.note == note

    def test_it_does_not_wait_for_ever(self) -> None:
        waiting = replace(RECORD, note="another migration of it is in flight", code="in_progress")
        step = migrate.advance(
            waiting, Observation(instance(), foreign_migration=True), 110, SETTINGS
        )
        assert step.ended == MoveResult(
            Outcome.FAILED,
            reason=Obstacle(
                "in_progress", "not started within 100 s: another migration of it is in flight"
            ),
        )

    def test_a_migration_that_is_there_already_is_adopted(self) -> None:
        step = migrate.advance(
            RECORD, Observation(instance(), migration=migration("Running")), 11, SETTINGS
        )
        assert step.request is None
        assert step.record.phase is Phase.BEGUN

    def test_it_is_done_when_the_instance_runs_elsewhere(self) -> None:
        seen = Observation(instance("w2"), migration=migration("Succeeded"))
        assert migrate.advance(BEGUN, seen, 20, SETTINGS).ended == MoveResult(Outcome.MOVED, "w2")

    def test_success_alone_is_not_enough(self) -> None:
        seen = Observation(instance("w1"), migration=migration("Succeeded"))
        step = migrate.advance(BEGUN, seen, 20, SETTINGS)
        assert step.ended is None

    def test_a_success_that_is_never_observed_is_not_waited_for_for_ever(self) -> None:
        seen = Observation(instance("w1"), migration=migration("Succeeded"))
        ended = migrate.advance(BEGUN, seen, 110, SETTINGS).ended
        assert ended == MoveResult(
            Outcome.FAILED,
            reason=Obstacle(
                "in_progress",
                "the migration succeeded, but the status of the VMI does not show it",
            ),
        )

    def test_kubevirts_own_reason_is_told(self) -> None:
        state = {"migrationUid": "m1", "failureReason": "guest is too busy"}
        seen = Observation(instance(migration=state), migration=migration("Failed"))
        ended = migrate.advance(BEGUN, seen, 20, SETTINGS).ended
        assert ended == MoveResult(
            Outcome.FAILED, reason=Obstacle("migration_failed", "guest is too busy")
        )

    def test_the_reason_of_another_migration_is_not_taken_for_ours(self) -> None:
        state = {"migrationUid": "m0", "failureReason": "long ago"}
        seen = Observation(instance(migration=state), migration=migration("Failed"))
        record = replace(BEGUN, note="0/3 nodes are available", code="no_node")
        ended = migrate.advance(record, seen, 20, SETTINGS).ended
        assert ended == MoveResult(
            Outcome.FAILED, reason=Obstacle("no_node", "0/3 nodes are available")
        )

    def test_migration_canceled_by_another_client_has_failed(self) -> None:
        ended = migrate.advance(BEGUN, Observation(instance()), 20, SETTINGS).ended
        assert ended is not None
        assert ended.outcome is Outcome.FAILED
        assert "deleted, which cancels it" in str(ended.reason)

    def test_an_instance_that_is_gone_is_no_failure(self) -> None:
        for record in (RECORD, BEGUN):
            ended = migrate.advance(record, Observation(), 20, SETTINGS).ended
            assert ended is not None
            assert ended.outcome is Outcome.GONE

    def test_migration_that_takes_too_long_is_canceled_by_uid_and_has_failed(self) -> None:
        seen = Observation(instance(), migration=migration("Scheduling"), pending=NO_NODE)
        step = migrate.advance(BEGUN, seen, 110, SETTINGS)
        assert step.request is not None
        assert step.request.verb == "delete"
        assert step.request.body == {"preconditions": {"uid": "m1"}}
        assert step.record.phase is Phase.CANCELLING

        ended = migrate.advance(step.record, Observation(instance()), 112, SETTINGS).ended
        assert ended == MoveResult(
            Outcome.FAILED,
            reason=Obstacle("no_node", "canceled because it took too long: 0/3 nodes"),
        )

    def test_migration_that_ends_while_it_is_canceled_has_moved(self) -> None:
        record = replace(RECORD, phase=Phase.CANCELLING)
        ended = migrate.advance(record, Observation(instance("w3")), 112, SETTINGS).ended
        assert ended == MoveResult(Outcome.MOVED, "w3")

    def test_move_that_cannot_be_canceled_is_given_up(self) -> None:
        record = replace(RECORD, phase=Phase.CANCELLING)
        seen = Observation(instance(), migration=migration("Running"))
        assert migrate.advance(record, seen, 120, SETTINGS).ended is None
        step = migrate.advance(record, seen, 110 + CANCEL_PATIENCE, SETTINGS)
        assert step.ended is None, "it stays in the journal"
        assert step.record.phase is Phase.GIVEN_UP
        assert "still Running" in step.record.note
        over = Observation(instance(), migration=migration("Failed"))
        ended = migrate.advance(step.record, over, 200, SETTINGS).ended
        assert ended == MoveResult(Outcome.FAILED, reason=step.record.obstacle)

    def test_late_handover_is_waited_for_and_not_canceled(self) -> None:
        """Seen once in nine migrations of VMs with a containerDisk: the source domain vanished before the handover was
        written, until virt-handler's resync after 300 s."""
        there = Pod("shop", "target", "p-2", node_name="w2", phase="Running")
        late = replace(instance(), pod=there)
        seen = Observation(late, migration=migration("Running"))
        for record in (BEGUN, replace(BEGUN, phase=Phase.CANCELLING)):
            step = migrate.advance(record, seen, 10 + 429, SETTINGS)
            assert (step.request, step.ended, step.record.phase) == (None, None, record.phase)
            assert step.record.note == (
                "its guest runs on node w2 already, and its VMI still names node w1: virt-handler hands it over"
                " within 5 minutes"
            )
        lost = migrate.advance(BEGUN, seen, 10 + 430, SETTINGS)
        assert (lost.request, lost.record.phase) == (None, Phase.GIVEN_UP)
        assert lost.record.note.endswith("look at virt-handler on node w2")
        over = Observation(instance("w2"), migration=migration("Succeeded"))
        assert migrate.advance(lost.record, over, 500, SETTINGS).ended == MoveResult(
            Outcome.MOVED, "w2"
        )

    def test_migration_that_virt_controller_has_not_ended_is_not_canceled(self) -> None:
        """Its VMI names the target already, and the time of the move is over."""
        there = Pod("shop", "target", "p-2", node_name="w2", phase="Running")
        seen = Observation(replace(instance("w2"), pod=there), migration=migration("Running"))
        step = migrate.advance(BEGUN, seen, 10 + 429, SETTINGS)
        assert (step.request, step.ended, step.record.phase) == (None, None, BEGUN.phase)
        late = "its guest runs on node w2 already, and its migration has not ended: virt-controller ends it"
        assert step.record.note == late
        lost = migrate.advance(BEGUN, seen, 10 + 430, SETTINGS)
        assert lost.record.phase is Phase.GIVEN_UP
        assert lost.record.note.endswith("its migration has not ended: look at virt-controller")

    def test_guest_that_is_being_copied_has_not_arrived(self) -> None:
        source = Observation(instance(), migration=migration("Running"))
        waiting = Pod("shop", "target", "p-2", node_name="w2", phase="Pending")
        target = Observation(replace(instance(), pod=waiting), migration=migration("Scheduling"))
        for seen in (source, target):
            step = migrate.advance(BEGUN, seen, 110, SETTINGS)
            assert step.record.phase is Phase.CANCELLING

    def test_target_that_the_scheduler_does_not_try_again_names_its_free_node(self) -> None:
        """kube-scheduler wakes a pod by hints: not where the pod that ended matches one of two terms only."""
        words = "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules"
        seen = Observation(
            instance(), None, migration("Scheduling"), Obstacle("no_node", words), free_node="w2"
        )
        assert migrate.advance(BEGUN, seen, 29, SETTINGS).record.note == words
        record = migrate.advance(BEGUN, seen, 30, SETTINGS).record
        assert record.note == (
            "its target pod has no node, though node w2 takes it now: kube-scheduler has not tried it again. A new"
            f" migration is tried at once: run again after this run. Its last answer: {words}"
        )
        failed = Observation(instance(), migration=migration("Failed"))
        ended = migrate.advance(record, failed, 70, SETTINGS).ended
        assert ended == MoveResult(Outcome.FAILED, reason=record.obstacle)

    def test_migration_without_a_phase_names_virt_controller_that_does_not_answer(self) -> None:
        seen = Observation(instance(), migration=migration(""), kubevirt_namespace="cnv")
        young = migrate.advance(BEGUN, seen, 29, SETTINGS).record
        assert (young.note, young.code) == ("the migration is queued", "in_progress")
        silent = migrate.advance(young, seen, 30.4, SETTINGS).record
        assert silent.note == (
            f"virt-controller does not answer to migration {migrate.migration_name(BEGUN, 'r1')} for 20 s:"
            " see Deployment virt-controller in namespace cnv"
        )
        assert silent.code == "no_answer"
        assert migrate.advance(silent, seen, 60, SETTINGS).record == silent, "one text, one line"
        worded = replace(young, note=silent.note)
        told = migrate.advance(worded, seen, 60, SETTINGS).record
        assert " for 50 s: see" in told.note, "a code decides, and no text"
        canceled = migrate.advance(silent, seen, 110, SETTINGS)
        assert canceled.request is not None
        assert " for 100 s: see Deployment" in canceled.record.note
        left = migrate.advance(canceled.record, seen, 110 + CANCEL_PATIENCE, SETTINGS).record
        assert left.phase is Phase.GIVEN_UP
        assert "still queued (virt-controller does not answer" in left.note
        assert " for 160 s: see Deployment" in left.note
        assert left.code == "no_answer"
        pending = Observation(instance(), migration=migration("Pending"))
        answered = migrate.advance(silent, pending, 60, SETTINGS).record
        assert (answered.note, answered.code) == ("the migration is Pending", "in_progress")

    def test_migration_whose_target_pod_is_refused_names_the_refusal(self) -> None:
        refused = Obstacle("refused", "no pod is created for it: violates PodSecurity")
        seen = Observation(instance(), migration=migration("Pending"), refused=refused)
        record = migrate.advance(BEGUN, seen, 20, SETTINGS).record
        assert record.obstacle == refused
        failed = Observation(instance(), migration=migration("Failed"), refused=refused)
        ended = migrate.advance(BEGUN, failed, 30, SETTINGS).ended
        assert ended == MoveResult(Outcome.FAILED, reason=refused)

    def test_migration_that_waits_behind_evacuations_names_them(self) -> None:
        """Number 12 of issue 41."""
        first = "KubeVirt migrates VMs that are evacuated first: VirtualMachineInstance a/b"
        for phase, words in (("Pending", "Pending"), ("", "queued")):
            seen = Observation(instance(), migration=migration(phase), behind=first)
            note = migrate.advance(BEGUN, seen, 20, SETTINGS).record.note
            assert note == f"the migration is {words}; {first}"
        seen = Observation(instance(), migration=migration("Running"), behind=first)
        note = migrate.advance(BEGUN, seen, 20, SETTINGS).record.note
        assert note == "the migration is Running"

    def test_migration_that_prepares_its_target_says_what_was_seen_of_it(self) -> None:
        """Where KubeVirt gives no reason: as after a return to a node that the guest left a minute ago."""
        pod = "its target pod virt-launcher-db-x is Running on node w2"
        preparing = Observation(instance(), migration=migration("PreparingTarget"), target=pod)
        record = migrate.advance(BEGUN, preparing, 20, SETTINGS).record
        assert record.note == f"the migration is PreparingTarget; {pod}"
        warning = Obstacle("migration_failed", "SyncFailed: x")
        failed = Observation(instance(), migration=migration("Failed"), warning=warning)
        rest = (
            f"the migration is PreparingTarget; {pod}{{}}; newest warning: SyncFailed: x."
            " Look at virt-handler on the node of the target pod, and at its log"
        )
        ended = migrate.advance(record, failed, 50, SETTINGS).ended
        assert ended is not None and ended.reason is not None
        begins = "the migration failed, and KubeVirt gives no reason; last seen: "
        assert str(ended.reason) == begins + rest.format("")
        assert ended.reason.code == "migration_failed"
        canceled = migrate.advance(record, preparing, 110, SETTINGS).record
        ended = migrate.advance(canceled, failed, 120, SETTINGS).ended
        assert ended is not None
        begins, silent = "canceled because it took too long: ", ", and KubeVirt gives no reason"
        assert str(ended.reason) == begins + rest.format(silent)
        state = {"migrationUid": "m1", "failureReason": "Live migration aborted"}
        aborted = replace(failed, instance=instance(migration=state))
        ended = migrate.advance(canceled, aborted, 120, SETTINGS).ended
        assert ended is not None
        assert str(ended.reason) == f"{begins}the migration is PreparingTarget; {pod}"

    def test_migration_that_copies_memory_is_not_canceled(self) -> None:
        running = Observation(instance(), migration=migration("Running"))
        assert migrate.cancel(BEGUN, running, SETTINGS).request is None
        waiting = Observation(instance(), migration=migration("Scheduling"))
        assert migrate.cancel(BEGUN, waiting, SETTINGS).request is not None

    @pytest.mark.parametrize(
        "foreign",
        [{"metadata": {"name": "x", "uid": "m1", "labels": {}}}, {"spec": {"vmiName": "b"}}],
    )
    def test_a_migration_that_is_not_of_this_run_is_not_deleted(
        self, foreign: dict[str, t.Any]
    ) -> None:
        seen = Observation(instance(), migration={**migration("Scheduling"), **foreign})
        step = migrate.advance(BEGUN, seen, 110, SETTINGS)
        assert step.request is None
        assert step.ended is not None
        assert "is not of this run" in str(step.ended.reason)

    @pytest.mark.parametrize(
        ("reply", "phase", "failed"),
        [
            (ReplyStatus.ACCEPTED, Phase.BEGUN, False),
            (ReplyStatus.DOUBTFUL, Phase.INTENDED, False),
            (ReplyStatus.BLOCKED, Phase.INTENDED, False),
            (ReplyStatus.REFUSED, Phase.INTENDED, True),
        ],
    )
    def test_answers(self, reply: ReplyStatus, phase: Phase, failed: bool) -> None:
        step = migrate.answered(RECORD, ApiReply(reply, Obstacle("refused", "so it is")))
        assert step.record.phase is phase
        assert (step.ended is not None) is failed


class TestRecreate:
    record = replace(RECORD, method=Method.RECREATE)
    begun = replace(record, phase=Phase.BEGUN)

    def test_it_deletes_what_was_looked_at_and_nothing_else(self) -> None:
        seen = Observation(instance(), resource_version="77")
        step = recreate.advance(self.record, seen, 11, SETTINGS)
        assert step.request is not None
        assert step.request.path.endswith("/shop/virtualmachineinstances/db")
        assert step.request.body == {"preconditions": {"uid": "u1", "resourceVersion": "77"}}

    def test_one_that_leaves_already_is_not_deleted_again(self) -> None:
        step = recreate.advance(self.record, Observation(instance(terminating=True)), 11, SETTINGS)
        assert step.request is None
        assert step.record.phase is Phase.BEGUN

    def test_it_is_done_when_the_successor_serves(self) -> None:
        fresh = instance("w3", "u2")
        starting = replace(fresh, vmi=replace(t.cast(Vmi, fresh.vmi), ready=False))
        assert (
            recreate.advance(self.begun, Observation(successor=starting), 12, SETTINGS).ended
            is None
        )
        ended = recreate.advance(self.begun, Observation(successor=fresh), 13, SETTINGS).ended
        assert ended == MoveResult(Outcome.MOVED, "w3")

    def test_a_successor_without_a_node_fails_in_time_with_the_schedulers_words(self) -> None:
        seen = Observation(
            successor=instance("", "u2"), pending=Obstacle("no_node", "0/6 nodes are available")
        )
        record = recreate.advance(self.begun, seen, 50, SETTINGS).record
        ended = recreate.advance(record, seen, 110, SETTINGS).ended
        assert ended is not None
        assert ended.reason is not None and ended.reason.code == "no_node"
        assert "not done within 100 s" in str(ended.reason)
        assert "0/6 nodes are available" in str(ended.reason)

    def test_a_workload_that_was_scaled_in_wants_no_successor(self) -> None:
        ended = recreate.advance(self.begun, Observation(surplus=True), 12, SETTINGS).ended
        assert ended is not None
        assert ended.outcome is Outcome.GONE

    def test_a_conflict_is_looked_at_again(self) -> None:
        step = recreate.answered(
            self.record, ApiReply(ReplyStatus.BLOCKED, Obstacle("changed", "it changed"))
        )
        assert step.ended is None
        assert step.record.phase is Phase.INTENDED


class TestEvict:
    pod = Ref("Pod", "shop", "web-1")
    record = MoveRecord(pod, "p1", Ref("Deployment", "shop", "web"), Method.RECREATE, "w1", 1, 10.0)
    seen = Observation(
        Instance(pod, "p1", record.workload, Pod("shop", "web-1", "p1")), resource_version="5"
    )

    def test_it_goes_through_the_eviction_api(self) -> None:
        step = recreate.advance(self.record, self.seen, 11, SETTINGS)
        assert step.request is not None
        assert step.request.path == "/api/v1/namespaces/shop/pods/web-1/eviction"
        options = (step.request.body or {})["deleteOptions"]
        assert options == {"preconditions": {"uid": "p1", "resourceVersion": "5"}}

    def test_a_budget_that_refuses_for_too_long_is_the_reason(self) -> None:
        blocked = recreate.answered(
            self.record, ApiReply(ReplyStatus.BLOCKED, Obstacle("budget", "the budget web needs 2"))
        )
        assert blocked.ended is None
        ended = recreate.advance(blocked.record, self.seen, 110, SETTINGS).ended
        assert ended is not None
        assert ended.reason == Obstacle("budget", "not done within 100 s: the budget web needs 2")


class TestRestart:
    record = replace(RECORD, method=Method.RESTART)

    def test_it_asks_kubevirt(self) -> None:
        step = recreate.advance(self.record, Observation(instance()), 11, SETTINGS)
        assert step.request is not None
        assert (step.request.verb, step.request.path) == (
            "put",
            "/apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachines/db/restart",
        )

    def test_it_never_asks_twice_for_one_instance(self) -> None:
        begun = recreate.answered(self.record, ApiReply(ReplyStatus.ACCEPTED)).record
        assert recreate.advance(begun, Observation(instance()), 12, SETTINGS).request is None
        assert recreate.advance(self.record, Observation(), 12, SETTINGS).request is None

    def test_a_restart_that_is_queued_already_is_no_failure(self) -> None:
        step = recreate.answered(
            self.record, ApiReply(ReplyStatus.DOUBTFUL, Obstacle("outcome_unknown", "reset"))
        )
        assert step.ended is None
