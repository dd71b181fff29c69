# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move a VirtualMachine by KubeVirt's restart: a new VMI of the same VM.

Pure. KubeVirt's restart knows no precondition, so it is only sent when the VMI's uid has just
been read, and never again once that uid has changed.
"""

from __future__ import annotations

from dataclasses import replace

from . import recreate
from .entry import Answer, Ended, Entry, Outcome, Phase, Reply, Request, Seen, Settings, Step

_API = "/apis/subresources.kubevirt.io/v1/namespaces"


def restart_path(entry: Entry) -> str:
    return f"{_API}/{entry.workload.namespace}/virtualmachines/{entry.workload.name}/restart"


def advance(entry: Entry, seen: Seen, now: float, settings: Settings) -> Step:
    """What to do next with this VM."""
    step = recreate.advance(entry, seen, now, settings)
    if entry.phase is not Phase.INTENDED or step.request is None:
        return step
    return Step(entry, Request("put", restart_path(entry), {}))


def answered(entry: Entry, answer: Answer) -> Step:
    """What KubeVirt said. A 500 means that a restart is queued already: look again."""
    if answer.reply is Reply.ACCEPTED:
        return Step(replace(entry, phase=Phase.BEGUN, note=""))
    if answer.reply in (Reply.REFUSED, Reply.GONE):
        return Step(entry, ended=Ended(Outcome.FAILED, reason=answer.reason))
    return Step(replace(entry, note=answer.reason))
