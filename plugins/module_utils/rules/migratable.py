# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether KubeVirt can live-migrate a machine instance."""

from __future__ import annotations

from ..model.snapshot import MachineInstance

LONGEST_NAME = 63


def why_not_migratable(vmi: MachineInstance) -> str:
    """Why KubeVirt does not migrate this instance, or nothing. Where the instance does not say yet
    (no condition LiveMigratable), nothing is known against it."""
    if has_unmigratable_name(vmi):
        return (
            f"its name has {len(vmi.ref.name)} characters, and KubeVirt makes no migration for a"
            f" name of more than {LONGEST_NAME}"
        )
    if vmi.live_migratable is False:
        reason = vmi.live_migratable_reason or "no reason given"
        return f"the instance is not live-migratable: {reason}"
    return ""


def has_unmigratable_name(vmi: MachineInstance) -> bool:
    """Whether its name is too long for a migration.

    KubeVirt's webhook puts the name as it is into the label `kubevirt.io/vmi-name` of the
    migration, where more than 63 characters are refused. An eviction is still accepted: KubeVirt
    then tries to migrate for ever (seen with 1.8.4, and the webhook is the same in 1.9.0; KubeVirt's
    pull request 17382 is about taking the label away).
    """
    return len(vmi.ref.name) > LONGEST_NAME
