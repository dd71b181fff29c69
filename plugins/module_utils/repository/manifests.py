# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do documents from files have the form of Kubernetes objects? Checked before anything else reads them."""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass, field, replace

from ..kinds.registry import KINDS
from ..kinds.vmi import VMI
from ..kubevirt.expansion import (
    CLUSTER_INSTANCE_TYPE,
    CLUSTER_PREFERENCE,
    INSTANCE_TYPE,
    PREFERENCE,
    TYPE_KINDS,
    preference_from_manifest,
)
from ..kubevirt.instance_types import instance_type_from_manifest
from ..model.budget import BUDGET
from ..model.budget_manifests import budget_spec
from ..model.findings import Finding, InputError
from ..model.input import InputReader, shown
from ..model.json_pointer import JSON, Pointer
from ..model.json_text import content_fault
from ..model.manifests import (
    controller_of,
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
    vmi_from_manifest,
)
from ..model.objects import Ref
from ..model.storage import CLAIM, VOLUME, claim_from_manifest, volume_terms
from ..model.topology import HOSTNAME
from ..rules.field_places import misplaced
from ..rules.raw_terms import PLACEMENT, read_fields, read_selector
from ..rules.term_slots import FIELDS
from .documents import (
    Document,
    PassedOver,
    is_incomplete,
    kind_of,
    placement_fields,
    reason_of,
    template_reason,
)
from .object_lists import listed_objects, opened
from .offline import CLUSTER_KINDS, CONTEXT_KINDS, is_running, named
from .template_places import group_of, has_vms, template_of, template_pointer
from .unfilled import lint_parts, restored, unfilled_name, unfilled_value, with_stand_ins


@dataclass(frozen=True)
class ReadManifests:
    """The manifests that lint checks or needs, what was passed over, and what is wrong with the form of the
    rest: `faults` of what was named by itself, `findings` about objects in folders. `whole`: the kind and place of
    Nodes, and of Pods of a cluster, that were found in folders. `unrendered`: checked objects with a name or label
    that a template is to fill in, each with it. `texts`: the values of labels that stand-ins in `manifests` and
    `findings` stand for."""

    manifests: tuple[t.Mapping[str, JSON], ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    faults: tuple[InputError, ...] = ()
    findings: tuple[Finding, ...] = ()
    whole: tuple[tuple[str, str], ...] = ()
    unrendered: tuple[tuple[str, str], ...] = ()
    texts: tuple[str, ...] = ()


def read_manifests(documents: t.Iterable[Document], namespace: str = "default") -> ReadManifests:
    """Lists and OpenShift templates are opened. Objects of other kinds are passed over. Text, a number or a
    plain list is an error, unless it was found in a folder. `namespace`: of an object that names none."""
    reader = _ManifestReader(namespace)
    each = (part for document in documents for part in listed_objects(document))
    for document in each:
        reason, why = reason_of(document)
        if reason in ("list", "text", "patch") and not (document.in_folder or document.reason):
            message = f"must be a Kubernetes object, not {shown(document.value)}"
            reader.faults.append(InputError(document.where, message))
        elif reason:
            reader.passed_over.append(PassedOver(document.where, reason, why))
        else:
            no_objects: list[InputError] = []
            for where, item in opened(document.where, document.value, no_objects):
                reader.read(document, where, item)
            if document.in_folder:
                reader.passed_over += (PassedOver(fault.where, "text") for fault in no_objects)
            else:
                reader.faults += no_objects
    return ReadManifests(
        tuple(reader.kept),
        tuple(reader.passed_over),
        tuple(replace(x, message=restored(x.message, reader.texts)) for x in reader.faults),
        tuple(reader.findings),
        tuple(reader.whole),
        tuple(reader.unrendered),
        tuple(reader.texts),
    )


@dataclass
class _ManifestReader:
    namespace: str
    kept: list[t.Mapping[str, JSON]] = field(default_factory=list)
    passed_over: list[PassedOver] = field(default_factory=list)
    faults: list[InputError] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    whole: list[tuple[str, str]] = field(default_factory=list)
    unrendered: list[tuple[str, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def read(self, document: Document, where: str, item: dict[str, JSON]) -> None:
        """Keeps an object, or notes why it is not kept."""
        reason, why = reason_of(replace(document, value=item))
        kind = "" if reason else kind_of(item)
        fields: tuple[str, ...] = ()
        if not reason and not (_is_context(item) or template_pointer(item) is not None):
            fields = placement_fields(item)
            reason = "other_kind" if fields else "no_placement"
        elif not reason and document.in_folder:
            reason, why = _reason_in_folder(item)
        if reason:
            self.passed_over.append(PassedOver(where, reason, why, kind, fields))
            return
        to_fill_in, item = unfilled_name(item), with_stand_ins(item, self.texts)
        faults: list[InputError] = []
        sound = _is_sound(InputReader(where, faults), item)
        unfilled = unfilled_value(lint_parts(item)) if document.in_folder or sound else ""
        if unfilled or (
            not sound and document.in_folder and template_reason(document.text) == "ytt_template"
        ):
            reason = template_reason(unfilled or document.text) or "template"
            self.passed_over.append(
                PassedOver(where, reason, f"has {shown(unfilled)}" if unfilled else "", kind)
            )
        elif sound:
            self.kept.append(item)
            if to_fill_in:
                self.unrendered.append((where, to_fill_in))
            if document.in_folder and (item["kind"] == "Node" or is_running(item)):
                self.whole.append((str(item["kind"]), where))
        elif document.in_folder:
            self.findings += (self._finding(item, fault) for fault in faults)
        else:
            self.faults += faults

    def _finding(self, item: t.Mapping[str, JSON], fault: InputError) -> Finding:
        metadata = item["metadata"] if isinstance(item.get("metadata"), dict) else {}
        place = (
            ""
            if item["kind"] in CLUSTER_KINDS
            else str(metadata.get("namespace") or self.namespace)
        )
        name = metadata.get("name") or metadata.get("generateName") or ""
        return Finding(
            "invalid_manifest",
            "error",
            f"{fault}.".replace("?.", "?"),
            "Correct the manifest. Until then nothing else of this object is checked.",
            (Ref(str(item["kind"]), place, str(name)),),
            named=(),
        )


def _is_context(item: t.Mapping[str, JSON]) -> bool:
    return CONTEXT_KINDS.get(item["kind"]) == group_of(item)


def _reason_in_folder(item: t.Mapping[str, JSON]) -> tuple[str, str]:
    """Why an object of a kind that lint knows is passed over in a folder."""
    metadata = item.get("metadata")
    if metadata is None or (
        isinstance(metadata, dict) and not (metadata.get("name") or metadata.get("generateName"))
    ):
        return "patch", "it has no name"
    if _is_context(item):
        is_part = item["kind"] in TYPE_KINDS and not _is_readable(item)
        return ("patch", "its spec is not complete") if is_part else ("", "")
    if item["kind"] == "Rollout" and template_of(item) is None:
        return "no_placement", ""
    pointer = template_pointer(item)
    if is_incomplete(item) and not (pointer and any(_parts_elsewhere(item, pointer))):
        return "patch", "its template is not complete"
    return "", ""


def _is_readable(item: t.Mapping[str, JSON]) -> bool:
    try:
        _READERS[str(item["kind"])](named(item))
    except (AttributeError, KeyError, TypeError, ValueError):
        return False
    return True


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


def _is_sound(notes: InputReader, item: t.Mapping[str, JSON]) -> bool:
    before = len(notes.errors)
    kind = str(item["kind"])
    metadata = _map(notes.at("metadata"), item.get("metadata"))
    name = metadata.get("name") or metadata.get("generateName")
    if not isinstance(name, str):
        notes.at("metadata.name").error(f"must be a name, not {shown(name)}")
    else:
        notes = InputReader(f"{notes.base} ({kind} {name})", notes.errors)
    for field_name in ("labels", "annotations"):
        _texts(notes.at(f"metadata.{field_name}"), metadata.get(field_name))
    if metadata.get("namespace") is not None and not isinstance(metadata["namespace"], str):
        notes.at("metadata.namespace").error(
            f"must be text, not {shown(metadata['namespace'])}: quote it"
        )
    spec = _map(notes.at("spec"), item.get("spec"))
    if len(notes.errors) > before:
        return False
    pointer = template_pointer(item)
    if pointer is not None:
        _check_template(notes, item, pointer)
    if kind in KINDS:
        _check_workload(notes, item, spec)
    elif kind == BUDGET:
        _check_budget(notes.at("spec"), spec)
    if len(notes.errors) == before:
        try:
            controller_of(metadata)
            if kind in _READERS:
                _READERS[kind](named(item))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            notes.error(f"cannot be read as a {kind}: {content_fault(error)}")
    return len(notes.errors) == before


_READERS: t.Mapping[str, t.Callable[[t.Mapping[str, JSON]], object]] = {
    VMI: vmi_from_manifest,
    "Namespace": namespace_from_manifest,
    "Node": node_from_manifest,
    "Pod": pod_from_manifest,
    VOLUME: volume_terms,
    CLAIM: claim_from_manifest,
    BUDGET: budget_spec,
    **dict.fromkeys(
        (INSTANCE_TYPE, CLUSTER_INSTANCE_TYPE), lambda x: instance_type_from_manifest(x).template
    ),
    **dict.fromkeys((PREFERENCE, CLUSTER_PREFERENCE), preference_from_manifest),
}
_NEARLY = 0.8
_TYPO = 0.87
"""`tempalte` and `templates` are meant to be `template`, `templateRef` is not."""
_SHARE = re.compile(r"\d+%?")
"""A number of pods, or a share of them (Kubernetes' IntOrString)."""


def _check_workload(
    notes: InputReader, item: t.Mapping[str, JSON], spec: t.Mapping[str, JSON]
) -> None:
    _map(notes.at("status"), item.get("status"))
    replicas = 1 if spec.get("replicas") is None else spec["replicas"]
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        notes.at("spec.replicas").error(f"must be a whole number, not {shown(replicas)}")
    elif replicas < 0:
        notes.at("spec.replicas").error(f"must be 0 or more, not {replicas}")
    if isinstance(spec.get("selector"), dict):
        read_selector(notes.at("spec.selector"), spec["selector"])
    if KINDS[item["kind"]].ordinals:
        _check_replicas(notes.at("spec"), spec)
    strategy = _map(notes.at("spec.strategy"), spec.get("strategy"))
    where = notes.at("spec.strategy.rollingUpdate")
    for name, value in _map(where, strategy.get("rollingUpdate")).items():
        _check_share(where.at(name), value)


def _check_share(notes: InputReader, value: JSON) -> None:
    if value is not None and not _SHARE.fullmatch(str(value)):
        notes.error(f"must be a number or a percentage, not {shown(value)}")


def _check_budget(notes: InputReader, spec: t.Mapping[str, JSON]) -> None:
    if isinstance(spec.get("selector"), dict):
        read_selector(notes.at("selector"), spec["selector"])
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not (value is None or whole or re.fullmatch(r"\d+%", str(value))):
            notes.at(name).error(f"must be a number or a percentage, not {shown(value)}")


def _check_replicas(notes: InputReader, spec: t.Mapping[str, JSON]) -> None:
    """What the claims of a StatefulSet's replicas are named by."""
    start = _map(notes.at("ordinals"), spec.get("ordinals")).get("start")
    if start is not None and (not isinstance(start, int) or isinstance(start, bool)):
        notes.at("ordinals.start").error(f"must be a whole number, not {shown(start)}")
    strategy = _map(notes.at("updateStrategy"), spec.get("updateStrategy"))
    rolling = _map(notes.at("updateStrategy.rollingUpdate"), strategy.get("rollingUpdate"))
    if not isinstance(partition := rolling.get("partition") or 0, int):
        notes.at("updateStrategy.rollingUpdate.partition").error(
            f"must be a whole number, not {shown(partition)}"
        )
    most = "updateStrategy.rollingUpdate.maxUnavailable"
    _check_share(notes.at(most), rolling.get("maxUnavailable"))
    where, templates = notes.at("volumeClaimTemplates"), spec.get("volumeClaimTemplates")
    if templates is not None and not isinstance(templates, list):
        where.error(f"must be a list, not {shown(templates)}")
        return
    for number, template in enumerate(templates or ()):
        here = where.item(number)
        name = _map(here.at("metadata"), _map(here, template).get("metadata")).get("name")
        if not isinstance(name, str):
            here.at("metadata.name").error(f"must be a name, not {shown(name)}")
        _map(here.at("spec"), _map(here, template).get("spec"))


def _check_template(notes: InputReader, item: t.Mapping[str, JSON], place: Pointer) -> None:
    """The template at `place`, and that no placement field is at a level above or below it."""
    inside = ".".join((*place.parts, "spec"))
    for path, key, advice in _parts_elsewhere(item, place):
        notes.at(".".join(path)).error(f"unknown field {key!r}: {advice}")
    here: JSON = item
    for number, part in enumerate(place.parts):
        if number:
            _refuse_fields(notes, here, f"it belongs into {inside}: indent it")
        notes = notes.at(part)
        here = _map(notes, here.get(part))
    metadata = _map(notes.at("metadata"), here.get("metadata"))
    _texts(notes.at("metadata.labels"), metadata.get("labels"))
    _refuse_fields(notes, here, f"it belongs into {inside}: indent it")
    notes = notes.at("spec")
    spec = _map(notes, here.get("spec"))
    if has_vms(item) and "nodeName" in spec:
        notes.error(f"unknown field 'nodeName': for a VM use nodeSelector with {HOSTNAME}")
    _check_spec(notes, spec)
    _refuse_fields(
        notes.at("domain"), spec.get("domain"), f"it belongs into {inside}: move it one level out"
    )
    containers = spec.get("containers")
    for number, container in enumerate(containers if isinstance(containers, list) else ()):
        where = notes.at("containers").item(number)
        _refuse_fields(where, container, f"it belongs into {inside}: move it out of containers")


def _parts_elsewhere(
    item: t.Mapping[str, JSON], place: Pointer
) -> t.Iterator[tuple[tuple[str, ...], str, str]]:
    """The parts of a template that are at a wrong level, or misspelt: where, which, and what to do. No ObjectMeta has
    a `spec`, and only the spec of a template has `containers` or `domain`."""
    inside = ".".join((*place.parts, "spec"))
    here: JSON = item
    for depth in range(len(place.parts) + 1):
        if not isinstance(here, dict):
            return
        path = place.parts[:depth]
        if isinstance(here.get("metadata"), dict) and "spec" in here["metadata"]:
            yield (*path, "metadata"), "spec", "it belongs beside metadata: move it one level out"
        for key in ("containers", "domain"):
            if key in here:
                yield path, key, f"it belongs into {inside}: indent it"
        part = place.parts[depth] if depth < len(place.parts) else "spec"
        for key in difflib.get_close_matches(part, [] if part in here else here, 1, _TYPO):
            yield path, key, f"did you mean {part!r}?"
        here = here.get(part)


def _refuse_fields(notes: InputReader, outer: JSON, advice: str) -> None:
    """Placement fields at a level that has none (core/v1 and kubevirt.io/v1: only a PodSpec and a
    VirtualMachineInstanceSpec have them)."""
    for key in outer if isinstance(outer, dict) else ():
        if key in FIELDS:
            notes.error(f"unknown field {key!r}: {advice}")


def _check_spec(notes: InputReader, spec: t.Mapping[str, JSON]) -> None:
    alike = {name.casefold(): name for name in FIELDS}
    for key in (x for x in spec if x not in FIELDS):
        # no other field of a PodSpec or a VirtualMachineInstanceSpec is that similar
        meant = difflib.get_close_matches(str(key).casefold(), alike, n=1, cutoff=_NEARLY)
        if place := misplaced(str(key), spec, PLACEMENT):
            notes.error(f"unknown field {str(key)!r}: {place}")
        elif meant:
            notes.error(f"unknown field {str(key)!r}; did you mean {alike[meant[0]]!r}?")
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
