# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""drs_import from its options to its result: read exports, find the VMs and nodes, make rules and a report."""

from __future__ import annotations

import json
import typing as t
from collections import Counter

from ..api.yaml_text import PyYamlMissing, load_yaml
from ..drs.convert import import_cluster
from ..drs.export import ExportDocument
from ..drs.formats import is_known, knows_overrides, read_cluster
from ..drs.options import read_import_options
from ..drs.report import COLUMNS, report_as_json, report_table
from ..drs.texts import documents_of, holds_lists
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.json_text import shallow
from ..model.regular_file import read_regular_file
from ..model.rendering import Entry, outcome, plural

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

APPLY = Entry(
    "apply",
    "read the report, then launch the playbooks topology and apply with these labels and rules",
)


def run(module: AnsibleModule) -> dict[str, t.Any]:
    """The result. Raises InvalidInput with every fault of the options and of the exports."""
    params = module.params
    faults: list[InputError] = []
    options = read_import_options(params, faults)
    documents = [document for path in params["files"] for document in _of_file(path, faults)]
    documents += _of_content(params["content"], faults)
    if not (params["files"] or params["content"]):
        faults.append(InputError("files", "names no export, and content is empty"))
    cluster = read_cluster(documents, params["cluster"] or "", faults)
    imported = None if cluster is None else import_cluster(cluster, options, faults)
    if faults or cluster is None or imported is None:
        raise InvalidInput(faults)
    if not cluster.rules:
        module.warn(
            "the export has no rule of this cluster: look whether it was made with all its rules"
        )
    if not knows_overrides(documents):
        module.warn(
            "the export has no overrides of VMs, such as automation disabled or manual: add the output of govc"
            " cluster.override.info -json -cluster CLUSTER to the files, if there may be some"
        )
    columns = Counter(part.column for part in imported.parts if part.kind == "rule")
    return {
        "drs_cluster": cluster.name,
        "namespaces": [
            {"namespace": namespace, "rules": rules}
            for namespace, rules in sorted(imported.rules.items())
        ],
        "node_labels": imported.node_labels,
        "vm_labels": [
            {"namespace": vm.namespace, "name": vm.name, "labels": labels}
            for vm, labels in sorted(imported.vm_labels.items())
        ],
        "expected_vms": [
            {"namespace": vm.namespace, "name": vm.name} for vm in sorted(imported.expected)
        ],
        "report": report_as_json(imported.parts),
        "table": report_table(imported.parts),
        "counts": {
            "rules": len(cluster.rules),
            **{column: columns[column] for column in COLUMNS},
        },
        **outcome(
            [Entry("rules", f"{plural(len(cluster.rules), 'rule')} of DRS read")],
            following=[APPLY] if cluster.rules else (),
        ),
    }


_ARCHIVE = b"PK\x03\x04"


def _yaml(text: str) -> JSON:
    try:
        return load_yaml(text)
    except PyYamlMissing as error:
        raise ValueError(str(error)) from error


def _of_file(path: str, faults: list[InputError]) -> list[ExportDocument]:
    try:
        content = read_regular_file(path)
    except OSError as error:
        faults.append(InputError(path, f"cannot be read: {error.strerror or error}"))
        return []
    if content.startswith(_ARCHIVE):
        fault = "is an archive, such as a workbook of Excel: save what an export printed, as text"
        faults.append(InputError(path, fault))
        return []
    try:  # PowerShell before 6 writes UTF-16 where its output is redirected
        text = content.decode(json.detect_encoding(content))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        fault = f"is not {error.encoding.upper()}: save the file as UTF-8 and try again"
        faults.append(InputError(f"{path}, line {line}", fault))
        return []
    return documents_of(text, path, faults, _yaml)


def _of_content(content: JSON, faults: list[InputError]) -> list[ExportDocument]:
    """One export, or a list of several; a list may be an export itself."""
    if content is None:
        return []
    several = holds_lists(content) or (isinstance(content, list) and not is_known(content))
    items = enumerate(content) if several else [(None, content)]
    documents = []
    for index, item in items:
        where = "content" if index is None else f"content[{index}]"
        if isinstance(item, str):
            documents += documents_of(item, where, faults, _yaml)
        else:
            documents.append(ExportDocument(where, shallow(item)))
    return documents
