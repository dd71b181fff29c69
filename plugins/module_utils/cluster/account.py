# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""With which account does a task ask its cluster, on which host, and in which job of a controller?"""

from __future__ import annotations

import os
import typing as t

from ..api.client import ApiClient
from ..api.errors import ApiError
from ..model.json_pointer import JSON
from ..model.rendering import one_line

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
"""Kubernetes since 1.28. The ClusterRole system:basic-user lets every account ask."""

JOB = "JOB_ID"
"""AWX and Automation Controller set it for each job (awx/main/models/jobs.py, build_env)."""

SECONDS = 3.0


def account(api: ApiClient) -> str | None:
    """The name of this identity; None where the server does not tell."""
    body: dict[str, JSON] = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": {},
    }
    try:
        answer = api.under(api.deadline.within(SECONDS)).create(REVIEWS, body, dry_run=True)
        user = (answer.get("status") or {}).get("userInfo") or {}
        return one_line(str(user.get("username") or "")) or None
    except (ApiError, AttributeError):
        return None


def holder_text(api: ApiClient, environment: t.Mapping[str, str] | None = None) -> str:
    """`system:serviceaccount:ops:maintenance on host ee-7f, job 4711`."""
    job = (os.environ if environment is None else environment).get(JOB, "")
    parts = [f"{account(api) or 'an unknown account'} on host {os.uname().nodename}"]
    if job.isalnum():
        parts.append(f"job {job}")
    return ", ".join(parts)
