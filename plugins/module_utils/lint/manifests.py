# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do documents from files have the form of Kubernetes objects? Checked before anything else reads them."""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass

from ..model.findings import InputError
from ..model.input import InputReader, shown
from ..model.json_pointer import JSON, Pointer
from ..model.kinds import KINDS, VMI
from ..model.manifests import (
    controller_of,
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
    vmi_from_manifest,
)
from ..model.storage import CLAIM, VOLUME, claim_from_manifest, volume_terms
from ..rules.raw_terms import read_fields, read_selector
from ..rules.term_slots import FIELDS
from .offline import CLUSTER_KINDS, CONTEXT_KINDS, LINTED_KINDS, named


@dataclass(frozen=True)
class ReadManifests:
    """The manifests that lint checks or needs, how many documents of other kinds there were, and what is
    wrong with the form of the rest."""

    manifests: tuple[t.Mapping[str, JSON], ...]
    passed_over: int
    faults: tuple[InputError, ...]


def read_manifests(items: t.Iterable[tuple[str, JSON]]) -> ReadManifests:
    """`items` are documents and where they are. Lists of objects are opened. Empty documents, and objects of
    other kinds, are passed over. Text, a number or a plain list is an error."""
    faults: list[InputError] = []
    kept: list[t.Mapping[str, JSON]] = []
    ignored = 0
    for where, item in _opened(items, faults):
        if item.get("kind") not in (*LINTED_KINDS, *CONTEXT_KINDS):
            ignored += 1
        elif _is_sound(InputReader(where, faults), item):
            kept.append(item)
    return ReadManifests(tuple(kept), ignored, tuple(faults))


def in_namespace(
    manifests: t.Iterable[t.Mapping[str, JSON]], namespace: str
) -> list[t.Mapping[str, JSON]]:
    """The manifests, those of namespaced kinds that name no namespace in this one."""
    completed: list[t.Mapping[str, JSON]] = []
    for manifest in manifests:
        metadata = manifest["metadata"]
        inside = manifest["kind"] not in CLUSTER_KINDS and not metadata.get("namespace")
        completed.append(
            {**manifest, "metadata": {**metadata, "namespace": namespace}} if inside else manifest
        )
    return completed


def _opened(
    items: t.Iterable[tuple[str, JSON]], faults: list[InputError]
) -> t.Iterator[tuple[str, dict[str, JSON]]]:
    for where, item in items:
        if not isinstance(item, dict):
            if item is not None:
                faults.append(InputError(where, f"must be a Kubernetes object, not {shown(item)}"))
        elif str(item.get("kind", "")).endswith("List") and isinstance(item.get("items"), list):
            contents = [
                (f"{where}, items[{n}]", content) for n, content in enumerate(item["items"])
            ]
            yield from _opened(contents, faults)
        else:
            yield where, item


def _is_sound(notes: InputReader, item: t.Mapping[str, JSON]) -> bool:
    before = len(notes.errors)
    kind = str(item["kind"])
    metadata = _map(notes.at("metadata"), item.get("metadata"))
    name = metadata.get("name") or metadata.get("generateName")
    if not isinstance(name, str):
        notes.at("metadata.name").error(f"must be a name, not {shown(name)}")
    else:
        notes = InputReader(f"{notes.base} ({kind} {name})", notes.errors)
    for field in ("labels", "annotations"):
        _texts(notes.at(f"metadata.{field}"), metadata.get(field))
    spec = _map(notes.at("spec"), item.get("spec"))
    if len(notes.errors) > before:
        return False
    if kind in KINDS:
        _check_workload(notes, item, spec)
    elif kind in LINTED_KINDS:
        _check_spec(notes.at("spec"), spec)
    if len(notes.errors) == before:
        try:
            controller_of(metadata)
            if kind in _READERS:
                _READERS[kind](named(item))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            notes.error(f"cannot be read as a {kind}: {error!r}")
    return len(notes.errors) == before


_READERS: t.Mapping[str, t.Callable[[t.Mapping[str, JSON]], object]] = {
    VMI: vmi_from_manifest,
    "Namespace": namespace_from_manifest,
    "Node": node_from_manifest,
    "Pod": pod_from_manifest,
    VOLUME: volume_terms,
    CLAIM: claim_from_manifest,
}
_NEARLY = 0.8
_SHARE = re.compile(r"\d+%?")
"""A number of pods, or a share of them (Kubernetes' IntOrString)."""


def _check_workload(
    notes: InputReader, item: t.Mapping[str, JSON], spec: t.Mapping[str, JSON]
) -> None:
    _check_template(notes, item, KINDS[str(item["kind"])].template)
    _map(notes.at("status"), item.get("status"))
    replicas = 1 if spec.get("replicas") is None else spec["replicas"]
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        notes.at("spec.replicas").error(f"must be a whole number, not {shown(replicas)}")
    elif replicas < 0:
        notes.at("spec.replicas").error(f"must be 0 or more, not {replicas}")
    if isinstance(spec.get("selector"), dict):
        read_selector(notes.at("spec.selector"), spec["selector"])
    strategy = _map(notes.at("spec.strategy"), spec.get("strategy"))
    where = notes.at("spec.strategy.rollingUpdate")
    for field, value in _map(where, strategy.get("rollingUpdate")).items():
        if value is not None and not _SHARE.fullmatch(str(value)):
            where.at(field).error(f"must be a number or a percentage, not {shown(value)}")


def _check_template(notes: InputReader, item: t.Mapping[str, JSON], place: Pointer) -> None:
    here: JSON = item
    for part in place.parts:
        notes = notes.at(part)
        here = _map(notes, here.get(part))
    metadata = _map(notes.at("metadata"), here.get("metadata"))
    _texts(notes.at("metadata.labels"), metadata.get("labels"))
    _check_spec(notes.at("spec"), _map(notes.at("spec"), here.get("spec")))


def _check_spec(notes: InputReader, spec: t.Mapping[str, JSON]) -> None:
    for key in spec:
        if key not in FIELDS and (meant := _meant(str(key))):
            notes.error(f"unknown field {str(key)!r}; did you mean {meant!r}?")
    given = {name: spec[name] for name in FIELDS if name in spec}
    before = len(notes.errors)
    read = read_fields(notes, given)
    if len(notes.errors) == before:
        for path, value in _quoted_numbers(read, given):
            notes.at(path).error(f"must be a number, not {shown(value)}")


def _quoted_numbers(read: JSON, given: JSON, path: str = "") -> t.Iterator[tuple[str, JSON]]:
    """The numbers in quotes, which options may have and manifests may not, each with its path: where what
    was read differs from what was given."""
    if isinstance(given, dict) and isinstance(read, dict):
        for key, value in given.items():
            yield from _quoted_numbers(read.get(key), value, f"{path}.{key}".lstrip("."))
    elif isinstance(given, list) and isinstance(read, list):
        for number, (left, right) in enumerate(zip(read, given, strict=True)):
            yield from _quoted_numbers(left, right, f"{path}[{number}]")
    elif read != given:
        yield path, given


def _meant(key: str) -> str:
    """The placement field that a key resembles, empty for none. No other field of a PodSpec or a
    VirtualMachineInstanceSpec is that similar."""
    alike = {name.casefold(): name for name in FIELDS}
    matches = difflib.get_close_matches(key.casefold(), alike, n=1, cutoff=_NEARLY)
    return alike[matches[0]] if matches else ""


def _map(notes: InputReader, value: JSON) -> dict[str, JSON]:
    if value is not None and not isinstance(value, dict):
        notes.error(f"must be a map, not {shown(value)}")
    return value if isinstance(value, dict) else {}


def _texts(notes: InputReader, value: JSON) -> None:
    texts: dict[t.Any, JSON] = _map(notes, value)
    for key, text in texts.items():
        if not isinstance(key, str):
            notes.error(f"the key {key} must be text: quote it")
        if not isinstance(text, str):
            notes.at(str(key)).error(f"must be text, not {shown(text)}: quote it")
