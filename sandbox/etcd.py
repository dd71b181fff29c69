# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write objects straight into etcd: thousands a second, with statuses and uids of one's own.

The API server reads JSON of the storage version where it would write protobuf. Nothing validates or
completes what is written here.
"""

from __future__ import annotations

import base64
import concurrent.futures
import json
import typing as t

import requests

from .kinds import KINDS

Object = dict[str, t.Any]

_THREADS = 4
_MOST_OPERATIONS = 100
_MOST_BYTES = 700_000
"""In one transaction: etcd takes 128 operations and 1.5 MiB (--max-txn-ops, --max-request-bytes)."""

_PLURALS = {"nodes": "minions"}
"""Where the storage has another name than the API."""


class Etcd:
    """An etcd on loopback, through its JSON gateway (etcd, "gRPC gateway")."""

    def __init__(self, url: str) -> None:
        self.url = url

    def put_all(self, objects: t.Iterable[Object]) -> int:
        """Write these objects, new or over others of the same name. How many bytes of JSON they are."""
        written = 0
        with (
            requests.Session() as session,
            concurrent.futures.ThreadPoolExecutor(_THREADS) as pool,
        ):
            session.trust_env = False
            sent: list[concurrent.futures.Future[None]] = []
            for batch in _batches(objects):
                written += sum(len(value) for _key, value in batch)
                sent.append(pool.submit(self._put, session, batch))
                while len(sent) > 2 * _THREADS:
                    sent.pop(0).result()
            for each in sent:
                each.result()
        return written

    def _put(self, session: requests.Session, batch: list[tuple[str, bytes]]) -> None:
        puts = [
            {"requestPut": {"key": _base64(key.encode()), "value": _base64(value)}}
            for key, value in batch
        ]
        answer = session.post(f"{self.url}/v3/kv/txn", json={"success": puts}, timeout=60)
        answer.raise_for_status()


def storage_key(entry: Object) -> str:
    """Where the API server keeps an object."""
    kind = KINDS[entry["kind"]]
    group = entry["apiVersion"].rpartition("/")[0]
    metadata = entry["metadata"]
    parts = [
        # custom resources alone are kept under their group
        *([group] if group.endswith("kubevirt.io") else []),
        _PLURALS.get(kind.plural, kind.plural),
        *([metadata["namespace"]] if kind.namespaced else []),
        metadata["name"],
    ]
    return "/registry/" + "/".join(parts)


def _batches(objects: t.Iterable[Object]) -> t.Iterator[list[tuple[str, bytes]]]:
    batch: list[tuple[str, bytes]] = []
    size = 0
    for entry in objects:
        value = json.dumps(entry, separators=(",", ":")).encode()
        if batch and (len(batch) == _MOST_OPERATIONS or size + len(value) > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((storage_key(entry), value))
        size += len(value)
    if batch:
        yield batch


def _base64(text: bytes) -> str:
    return base64.b64encode(text).decode()
