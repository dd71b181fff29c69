# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The least that any tool needs: the same PATCH requests from bare threads in one process."""

from __future__ import annotations

import concurrent.futures
import json
import time
import typing as t

import urllib3

if t.TYPE_CHECKING:
    from sandbox import Sandbox

THREADS = 8


def patch_all(
    sandbox: Sandbox, patches: t.Sequence[tuple[str, str, t.Any]], identity: str = "admin"
) -> float:
    """Seconds for all of `patches`: (path, content type, body) each. What is compared sends as the same
    `identity`: the server neither authorizes nor queues the requests of an administrator."""
    pool = urllib3.PoolManager(
        maxsize=THREADS,
        ca_certs=str(sandbox.ca_file),
        headers={"Authorization": f"Bearer {sandbox.token(identity)}"},
    )

    def send(patch: tuple[str, str, t.Any]) -> None:
        path, content_type, body = patch
        answer = pool.request(
            "PATCH",
            sandbox.url + path,
            body=json.dumps(body).encode(),
            headers={**pool.headers, "Content-Type": content_type},
        )
        if answer.status >= 300:
            raise RuntimeError(f"PATCH {path}: {answer.status} {answer.data[:300]!r}")

    begun = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(send, patches))
    return time.perf_counter() - begun
