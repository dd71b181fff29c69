# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""lint_info from its options to its result: manifests and rules, with a cluster or without one."""

from __future__ import annotations

import os
import re
import typing as t
from collections import Counter
from pathlib import Path

from ..api.yaml_text import InvalidYaml, PyYamlMissing, load_all_yaml
from ..interface.arguments import rules_data, topology_of
from ..interface.results import warn_once, warn_unreadable
from ..lint.manifests import ReadManifests, in_namespace, read_manifests
from ..lint.offline import LINTED_KINDS, lint_manifests, lint_nodes, lint_rules, not_served
from ..lint.offline_rules import checked_without_manifests
from ..lint.run import without_findings_of_rules
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.rendering import as_json, one_line
from ..model.snapshot import Platform, Snapshot
from ..rules.parse import Parsed, read_rules
from ..view.label_input import assumed_node_labels, with_node_labels

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from ..api.client import ApiClient

Params = t.Mapping[str, t.Any]


def run_online(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """The input as if it stood on the cluster. Raises InvalidInput and ApiError."""
    from ..cluster.reading import ReadScope, read_snapshot

    return run(module, read_snapshot(api, ReadScope(pods="metadata", migrations="")))


def run(module: AnsibleModule, cluster: Snapshot | None = None) -> dict[str, t.Any]:
    """The result; `cluster` None: no server is asked. Raises InvalidInput with every fault."""
    params = module.params
    faults: list[InputError] = []
    assumed = assumed_node_labels(params["assume_node_labels"], topology_of(params), faults)
    if assumed and cluster is None:
        faults.append(
            InputError("assume_node_labels", "needs online; offline, list Node manifests")
        )
    read, parsed = _manifests_option(params, faults), _rules_option(params, faults)
    platform = _platform_option(params, faults)
    manifests, rules = in_namespace(read.manifests, params["namespace"]), parsed.rules
    excluded = frozenset(params["exclude_namespaces"])
    if rules and params["namespace"] in excluded:
        faults.append(
            InputError(
                "exclude_namespaces", f"{params['namespace']!r} is the namespace of the rules"
            )
        )
    if cluster is not None:
        cluster = with_node_labels(cluster, assumed, faults)
        faults += not_served((*rules, *parsed.broken), manifests, cluster)
    if faults:
        raise InvalidInput(faults)
    context: dict[str, t.Any] = {
        "topology": topology_of(params),
        "platform": platform,
        "cluster": cluster,
    }
    findings = [
        finding
        for finding in without_findings_of_rules(
            (
                *lint_manifests(manifests, **context),
                *lint_rules(rules, manifests=manifests, **context),
                *lint_nodes(manifests, topology=context["topology"]),
            )
        )
        if finding.rule
        or not finding.objects
        or any(ref.namespace not in excluded for ref in finding.objects)
    ]
    kinds = Counter(
        str(manifest["kind"])
        for manifest in manifests
        if manifest["metadata"].get("namespace") not in excluded
    )
    objects = sum(kinds[kind] for kind in LINTED_KINDS)
    if not objects and not rules:
        module.warn("nothing was checked: the input has no rule, workload, VMI or pod")
    if alone := checked_without_manifests(rules, manifests):
        module.warn(one_line("; ".join(alone)))
    warn_once(module.warn, findings)
    severities = Counter(finding.severity for finding in findings)
    gaps = cluster.unreadable if cluster is not None else ()
    warn_unreadable(module.warn, gaps)
    return {
        "ok": not severities["error"] and not gaps,
        "findings": [finding.as_json() for finding in findings],
        "counts": {
            "objects": objects,
            "rules": len(rules),
            "nodes": kinds["Node"] or len(cluster.nodes if cluster is not None else ()),
            "passed_over": read.passed_over,
            **{name: severities[name] for name in ("error", "warning", "info")},
        },
        "permission_gaps": as_json(gaps),
    }


_RELEASE = re.compile(r"v?(\d+)\.(\d+)(?:[.+-].*)?")


def _platform_option(params: Params, faults: list[InputError]) -> Platform | None:
    """The server of these versions; None where no version is given."""
    releases = {}
    for option in ("kubernetes_version", "kubevirt_version"):
        if params[option] is not None:
            releases[option] = _RELEASE.fullmatch(params[option])
            if releases[option] is None:
                faults.append(InputError(option, f"must be like 1.34, not {params[option]!r}"))
    release = releases.get("kubernetes_version")
    if release is None:
        return None
    return Platform(
        kubernetes=(int(release[1]), int(release[2])), kubevirt=params["kubevirt_version"]
    )


def _manifests_option(params: Params, faults: list[InputError]) -> ReadManifests:
    """The manifests in the files and in the option."""
    given = params["manifests"]
    if isinstance(given, str):
        items = documents_in(given, "manifests", faults)
    elif isinstance(given, dict):
        items = [("manifests", given)]
    elif isinstance(given, list):
        items = [(f"manifests[{number}]", item) for number, item in enumerate(given)]
    else:
        faults.append(
            InputError("manifests", "must be a list of Kubernetes objects, or the text of some")
        )
        items = []
    read = read_manifests([*documents_of(params["files"], faults), *items])
    faults += read.faults
    return read


def _rules_option(params: Params, faults: list[InputError]) -> Parsed:
    """The rules, and those that have faults."""
    try:
        listed = rules_data(params["rules"])
    except InvalidInput as error:
        faults += error.errors
        return Parsed((), ())
    if not listed:
        return Parsed((), ())
    parsed = read_rules(
        listed,
        namespace=params["namespace"],
        rule_set=params["rule_set"],
        topology=topology_of(params),
    )
    faults += parsed.faults
    return parsed


SUFFIXES = (".json", ".yaml", ".yml")

MOST_BYTES = 32 * 2**20
"""The largest file that is read."""

Documents = list[tuple[str, JSON]]
"""Each document with the place where it stands, for messages."""


def documents_of(paths: t.Iterable[str], faults: list[InputError]) -> Documents:
    """Each document in the files, and where it stands. Of a folder every file with one of
    SUFFIXES is read, also in the folders below. What cannot be read is added to `faults`."""
    documents: Documents = []
    for path in paths:
        for file in _files(Path(os.path.expanduser(path)), faults):
            try:
                if file.stat().st_size > MOST_BYTES:
                    limit = f"{MOST_BYTES // 2**20} MiB"
                    faults.append(InputError(str(file), f"is larger than {limit}: split it"))
                    continue
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                faults.append(InputError(str(file), f"cannot be read: {error}"))
                continue
            documents += documents_in(text, str(file), faults)
    return documents


def documents_in(text: str, where: str, faults: list[InputError]) -> Documents:
    """The documents of a text, empty ones left out."""
    try:
        documents = load_all_yaml(text)
    except PyYamlMissing as error:
        faults.append(InputError(where, f"is YAML, and {error}"))
        return []
    except InvalidYaml as error:
        faults.append(InputError(where, f"is not valid YAML: {error}"))
        return []
    if len(documents) == 1:
        return [(where, documents[0])]
    return [(f"{where}, document {number}", item) for number, item in enumerate(documents, 1)]


def _files(path: Path, faults: list[InputError]) -> list[Path]:
    if not os.path.exists(path):  # Path.exists raises OSError for a name that is too long
        faults.append(InputError(str(path), "there is no such file or folder"))
        return []
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    inside = path.resolve()
    outside = [file for file in files if inside not in file.resolve().parents]
    for file in outside:
        faults.append(
            InputError(str(file), "is a link to a file outside of the folder: name that file")
        )
    if not files:
        faults.append(InputError(str(path), f"the folder holds no file with {', '.join(SUFFIXES)}"))
    return [file for file in files if file not in outside]
