# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage that reads a placement and writes a report of it, and the report of a verification."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import (
    Entry,
    outcome,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job import NOTHING, Job, JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result
from ansible_collections.virt.placement.plugins.plugin_utils.report.files import faults_of_paths
from ansible_collections.virt.placement.plugins.plugin_utils.report.writing import (
    FORMATS,
    WrittenReport,
    files_of,
    write_report,
)


def check(job: Job) -> Result:
    """The role placement_report: at least one path, and each that could be right."""
    prefix = "placement_report_"
    if not files_of(job.record.asked):
        names = ", ".join(f"{prefix}{name}" for name in FORMATS)
        raise JobFailed(
            [f"Give one of {names}, each an absolute path: one of them is required. {NOTHING}"]
        )
    if job.record.asked["drill"] and job.record.asked["domains_of"]:
        raise JobFailed(
            [
                f"{prefix}drill and {prefix}domains_of: give one of them. The first is the result of an earlier drill,"
                f" the second makes a new one. {NOTHING}"
            ]
        )
    _check_paths(job, job.record.asked, prefix)
    return {}


def check_verify(job: Job) -> Result:
    """The role placement_verify, where it writes a report."""
    wanted = job.record.asked["report"]
    prefix = "placement_verify_report."
    if wanted and not files_of(wanted):
        raise JobFailed(
            [f"{prefix.rstrip('.')}: has no path. Give one of {', '.join(FORMATS)}. {NOTHING}"]
        )
    _check_paths(job, wanted, prefix)
    return {}


def _check_paths(job: Job, options: t.Mapping[str, t.Any], prefix: str) -> None:
    faults = faults_of_paths(files_of(options), job.host, job.hosts)
    if faults:
        raise JobFailed([*(f"{prefix}{fault}" for fault in faults), NOTHING])


def report(job: Job) -> Result:
    """The role placement_report. The answer is printed, whatever comes of the files."""
    options = job.record.asked
    keys = {"topology_keys": options["topology_keys"]}
    asked = {name: options[name] for name in ("namespaces", "workloads") if options[name]}
    placement = job.run("placement_info", {**asked, **keys, "details": "placement"})
    drill = options["drill"] or job.variable("placement_drill_result")
    if options["domains_of"]:
        wanted = {name: options[name] for name in ("domains_of", "event", "timeout")}
        drill = job.run("drill_info", {**keys, **wanted})
    written = write(job, options, placement, drill, options["rollout"], options["fail_on"])
    job.show([*filter(None, [written.answer]), *lines_of_files(job, written)])
    if written.errors:
        raise JobFailed(written.errors)
    return {"answer": written.answer, "files": written.files}


def write(
    job: Job,
    options: t.Mapping[str, t.Any],
    placement: Result,
    drill: Result | None,
    rollout: Result | None,
    fail_on: t.Collection[str],
) -> WrittenReport:
    """`options` have the paths. A rollout of the same play is part of the report."""
    rollout = (
        rollout
        or job.variable("placement_rollout_result")
        or job.variable("placement_apply_rollout_result")
    )
    written = write_report(
        files_of(options),
        placement,
        drill,
        rollout,
        # without an inventory host that has its name, the context of the kubeconfig
        cluster_name=options.get("cluster_name")
        or (str(job.arguments.get("context") or "") if job.host == "localhost" else ""),
        host=job.host,
        fail_on=fail_on,
        only_check=job.check_mode,
    )
    job.changed = job.changed or written.changed
    if paths := tuple(file["path"] for file in written.files):
        text = "would write" if job.check_mode else "report"
        job.record.note("report", outcome([Entry("report", text, paths)]))
    return written


def lines_of_files(job: Job, written: WrittenReport) -> list[str]:
    """A line for each file that is there now, or would be."""
    word = "Would write" if job.check_mode else "Report:"
    return [f"{word} {file['path']}" for file in written.files]
