# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of packages and files in docs/architecture.md, made from the first lines of their docstrings.

python -m dev.layout writes it; tests/unit/test_layout.py checks that it is up to date. A file without a
docstring is an error.
"""

from __future__ import annotations

import ast
from pathlib import Path

from dev.commands import CHECKOUT
from dev.written_part import with_part

ROOT = CHECKOUT / "plugins" / "module_utils"
DOCUMENT = CHECKOUT / "docs" / "architecture.md"
BEGIN = "<!-- files: written by python -m dev.layout -->"
END = "<!-- end of files -->"

PACKAGES = {
    "flows": "one file per module: from its options to its result",
    "interface": "options that modules share, results, and how a module ends",
    "maintenance": "node maintenance: the mark on a node, what a drain does with each pod, when a node is back",
    "rollout": "what a rollout moves, when it is over, and what it leaves alone",
    "moves": "the engine that moves instances: its steps and reconciles, state machines, journal, gates and room",
    "cluster": "reads lists into a Snapshot; sends conditional writes; Lease, Events, access reviews",
    "api": "the one adapter to the Kubernetes client: connection, requests with retries, lists, watches",
    "drs": "rules of vSphere DRS as exports hold them, and what they become: one file per format of exports",
    "cpu": "what CPU labels of nodes let VMs do: where they reach, common models, odd nodes, what a model costs",
    "capi": "the hosts of the nodes that Cluster API made: which share one, and what keeps them apart",
    "capacity": "may any one of some failures happen, and how many more VMs have room then",
    "repository": "lint of manifests in files and options: what they are, and what is found without a cluster",
    "undo": "which workloads go back to what they were before the last change of their rules, and by which writes",
    "new_members": "the policy of the API server that gives workloads rules at their creation, in CEL",
    "holds": "the own rollout of a StatefulSet or pool, set aside while a rollout replaces its pods or moves its VMs",
    "places": "VMs that go to the nodes of a map: in which order, and why one cannot",
    "approval": "an approved plan: a rollout or a drain makes those of its moves that a new plan has, too",
    "lint": "findings: one file per family of checks, all in the registry `lint/registry.py`",
    "forecast": "what becomes unschedulable after a change, with reasons; drills",
    "planning": "the fewest moves that repair violated groups, and their order",
    "compliance": "verdicts: what is declared, what is enforced, what is violated, and why a pod has no node",
    "node_labels": "the changes of node labels and what depends on them",
    "rules": "parse, resolve, compile and merge rules into templates; ownership, and the record of the last change",
    "view": "one view of a snapshot: workloads by reference, instances with their pods, nodes, the index",
    "kubevirt": "each fact about KubeVirt, with its source: labels, instances, the next pod, ways to move",
    "scheduler": "what kube-scheduler and the API server would answer: one file per filter, one index",
    "model": "the vocabulary as frozen dataclasses, and how Kubernetes JSON becomes it",
    "kinds": "what is known of each kind of workload: one file a kind, all in `kinds/registry.py`",
}
"""The layers in their order: each may import those below it (tests/unit/test_imports.py)."""


def files_section() -> str:
    """The text between the two markers."""
    lines = []
    for package, purpose in PACKAGES.items():
        lines += [f"### {package}/", "", f"{purpose[0].upper()}{purpose[1:]}.", ""]
        lines += ["| file | answers |", "|---|---|"]
        lines += [
            f"| `{path.stem}` | {first_line(path)} |"
            for path in sorted((ROOT / package).glob("*.py"))
            if path.name != "__init__.py"
        ]
        lines.append("")
    return "\n".join(lines)


def first_line(path: Path) -> str:
    """The first line of a file's docstring."""
    documentation = ast.get_docstring(ast.parse(path.read_text()))
    if not documentation:
        raise SystemExit(f"{path.relative_to(CHECKOUT)} has no docstring. Say what it answers.")
    return documentation.split("\n")[0].replace("|", "\\|")


def with_section(document: str) -> str:
    """The document with the list as it is now."""
    return with_part(document, BEGIN, f"\n{files_section()}", END, DOCUMENT.name)


if __name__ == "__main__":
    DOCUMENT.write_text(with_section(DOCUMENT.read_text()))
