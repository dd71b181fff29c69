# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would a restart of a VM apply beside placement? Its ControllerRevision has what it was started from."""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..api.errors import Forbidden, NotFound
from ..compliance.instances import DeclaredInstance
from ..kubevirt.pending_changes import changes_since_start, why_applies_more
from ..model.json_pointer import JSON
from ..model.json_text import shallow
from ..model.obstacle import PENDING_CHANGES, Obstacle
from ..model.snapshot import Platform, Vmi


class StartRevisions:
    """What restarts would apply beside placement. Reads each VMI's ControllerRevision once.

    `lenient`: a missing right is not an error here, since all missing rights are reported together
    before anything is sent. `permission`: what a user does to apply these changes too.
    """

    def __init__(self, api: ApiClient, *, lenient: bool, permission: str) -> None:
        self._api = api
        self._lenient = lenient
        self._permission = permission
        self._started: dict[tuple[str, str], t.Mapping[str, JSON] | None] = {}

    def why_no_restart(self, movable: DeclaredInstance, platform: Platform) -> Obstacle | None:
        """Why a restart would apply more than placement."""
        vmi, workload = movable.instance.vmi, movable.vm
        if vmi is None or workload is None:
            return None
        key = (vmi.uid, vmi.revision)
        try:
            if key not in self._started:
                self._started[key] = start_revision(self._api, vmi)
        except Forbidden:
            if self._lenient:
                return None
            raise
        started = self._started[key]
        if started is None:
            return Obstacle(
                PENDING_CHANGES,
                "it is unknown what else a restart would apply, since the ControllerRevision"
                f" {vmi.revision or 'of its start'} is missing or damaged: restart it, or"
                f" {self._permission}",
            )
        changes = changes_since_start(started, workload, vmi, platform)
        return why_applies_more("a restart", changes, self._permission)


def start_revision(api: ApiClient, vmi: Vmi) -> t.Mapping[str, JSON] | None:
    """The spec of the VM that a VMI was started from; None where its ControllerRevision is missing or damaged."""
    if not vmi.revision:
        return None
    path = f"/apis/apps/v1/namespaces/{vmi.ref.namespace}/controllerrevisions/{vmi.revision}"
    try:
        manifest = api.get(path)
    except NotFound:
        return None
    data = shallow(manifest.get("data"))
    spec = data.get("spec") if isinstance(data, dict) else None
    damaged = not isinstance(spec, dict) or not isinstance(spec.get("template", {}), dict)
    return None if damaged else spec
