# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the documentation site in build/docs/html: python -m dev.docs.

antsibull-docs writes a page for each module, role and plug-in. The guides are README.md, CONTRIBUTING.md, the
pages in docs and those of demos. A warning is an error, also one about a link that leads nowhere.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import typing as t
from pathlib import Path

from dev import environments, pythons
from dev.commands import CHECKOUT, Command, end_with_us, environment, print_now, run

PINS = environments.HERE / "requirements-docs.txt"
SITE = CHECKOUT / "build" / "docs"
SOURCE = SITE / "source"
REFERENCE = "collections/virt/placement"
"""The folder of the pages that antsibull-docs writes."""
NAVIGATION: t.Mapping[str, t.Sequence[str]] = {
    "Start": ("README", "docs/first-steps", "docs/install"),
    "Tasks": (
        "docs/physical-hosts",
        "docs/from-affinity-to-rules",
        "docs/undo",
        "docs/new-members",
        "docs/report",
        "docs/maintenance",
        "docs/from-vsphere",
    ),
    "Reference": (
        f"{REFERENCE}/index",
        "docs/troubleshooting",
        "docs/findings",
        "docs/compatibility",
        "docs/releases",
    ),
    "For administrators": ("docs/awx", "docs/events", "docs/security", "docs/large-clusters"),
    "Background": (
        "docs/forecasting",
        "docs/scheduling",
        "demos/kubevirt/README",
        "demos/openshift/README",
        "demos/eks/README",
        "demos/harvester/README",
        "demos/tkg/README",
    ),
    "For developers": (
        "docs/molecule",
        "docs/examples/own-role/README",
        "CONTRIBUTING",
        "docs/architecture",
    ),
}
"""The guides by their readers, in the order of the site. tests/unit/test_guides.py compares it with docs."""
TITLES: t.Mapping[str, str] = {"README": "Overview", f"{REFERENCE}/index": "Modules and roles"}
"""What the navigation calls a page in place of its heading."""
CONFIGURATION = """\
project = "virt.placement"
copyright = "virt.placement contributors"
extensions = ["sphinx_antsibull_ext", "myst_parser"]
html_theme = "sphinx_ansible_theme"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_js_files = ["tables.js"]
html_copy_source = False
highlight_language = "YAML+Jinja"
myst_heading_anchors = 3
# Module pages link to the documentation of Ansible, which would have to be downloaded.
suppress_warnings = ["ref.ref"]
"""
STYLES = """\
/* The theme keeps each cell on one line where the screen is narrow. Here each row becomes a block, and each cell has
   the heading of its column before it. */
.wy-table-responsive table.docutils td, .wy-table-responsive table.docutils th { white-space: normal; }
@media (max-width: 768px) {
  table.docutils.labeled thead { display: none; }
  table.docutils.labeled, table.docutils.labeled tbody, table.docutils.labeled tr, table.docutils.labeled td {
    display: block; width: auto; border-left: 0; border-right: 0; overflow-wrap: anywhere; }
  table.docutils.labeled td { border-bottom: 0 !important; padding: 4px 8px; }
  table.docutils.labeled tr { border-bottom: 1px solid #e1e4e5; padding: 4px 0; }
  table.docutils.labeled td code { white-space: normal; }
  table.docutils.labeled td[data-label]::before { content: attr(data-label) ": "; font-weight: bold; }
  table.docutils.labeled td:empty { display: none; }
}
"""
SCRIPT = """\
// Gives the cells of a table the heading of their column, for tables.css.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.docutils:not(.ansible-option-table)")) {
    const headings = [...table.querySelectorAll("thead th")].map((x) => x.textContent.trim());
    if (!headings.length) continue;
    table.classList.add("labeled");
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.cells].forEach((cell, i) => headings[i] && cell.setAttribute("data-label", headings[i]));
  }
});
"""
_LINK = re.compile(r"\[([^\]]*)\]\((?!http)([^)#\s]+)(#[^)]+)?\)")


def main() -> int:
    python = pythons.preferred()
    if python is None:
        print(pythons.NONE_FOUND, file=sys.stderr)
        return 1
    venv, _created = environments.venv("docs", python, PINS)
    write_source()
    bin_ = venv / "bin"
    env = environment(PATH=f"{bin_}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    pages: list[str | Path] = [
        "collection",
        "--use-current",
        "--fail-on-error",
        "--dest-dir",
        SOURCE,
    ]
    commands = [
        Command("pages", [bin_ / "antsibull-docs", *pages, "virt.placement"], env),
        Command("site", [bin_ / "sphinx-build", "-q", "-W", SOURCE, SITE / "html"], env),
    ]
    for command in commands:
        outcome = run(command, print_now)
        print(outcome.line)
        if outcome.status:
            return 1
    print(f"docs: {SITE / 'html' / 'index.html'}")
    return 0


def write_source() -> None:
    """The configuration, the guides and the index that lists them."""
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(CHECKOUT / "docs", SOURCE / "docs")
    for name in ("README.md", "CONTRIBUTING.md"):
        shutil.copy(CHECKOUT / name, SOURCE)
    for page in CHECKOUT.glob("demos/*/README.md"):
        copy = SOURCE / page.relative_to(CHECKOUT)
        copy.parent.mkdir(parents=True)
        shutil.copy(page, copy)
    for page in SOURCE.rglob("*.md"):
        page.write_text(with_links_of_the_site(page.read_text(), page))
    (SOURCE / "static").mkdir()
    (SOURCE / "static" / "tables.css").write_text(STYLES)
    (SOURCE / "static" / "tables.js").write_text(SCRIPT)
    (SOURCE / "conf.py").write_text(CONFIGURATION)
    (SOURCE / "index.rst").write_text(index())


def index() -> str:
    """The first page: a list of pages for each kind of reader."""
    lists = (
        f".. toctree::\n   :maxdepth: 1\n   :caption: {caption}\n\n"
        + "".join(f"   {_entry(page)}\n" for page in pages)
        for caption, pages in NAVIGATION.items()
    )
    return "\n".join(("virt.placement\n==============\n", *lists))


def _entry(page: str) -> str:
    return f"{TITLES[page]} <{page}>" if page in TITLES else page


def with_links_of_the_site(text: str, page: Path) -> str:
    """The README of a role is the page of the role. Of a file or folder that the site lacks, the text stays."""

    def link(match: re.Match[str]) -> str:
        name, target, _anchor = match.groups()
        if role := re.search(r"roles/(placement_\w+)/README\.md$", target):
            leads_to = SOURCE / REFERENCE / f"{role[1]}_role.rst"
            return f"[{name}]({os.path.relpath(leads_to, page.parent)})"
        return match[0] if (page.parent / target).is_file() else name

    return _LINK.sub(link, text)


if __name__ == "__main__":
    end_with_us()
    sys.exit(main())
