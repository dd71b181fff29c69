# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that may pass: the API server does not answer, or has no time."""

from __future__ import annotations

from ..api.errors import (
    AnswerLost,
    BadAnswer,
    DeadlineExceeded,
    ServerFault,
    Throttled,
    Unreachable,
)

TROUBLE = (AnswerLost, BadAnswer, DeadlineExceeded, ServerFault, Throttled, Unreachable)

PATIENCE = 300.0
"""Seconds for which a run that has begun bears them, if none of its turns comes to an end."""
