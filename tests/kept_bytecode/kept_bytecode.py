# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what ansible-playbook compiles of collections, as Python does with all other files. Ansible compiles each file
of a collection in each process: a quarter of the time of a play of tests/unit."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import typing as t

from ansible.plugins.callback import CallbackBase
from ansible.utils.collection_loader import _collection_finder

_Loader = _collection_finder._AnsibleCollectionPkgLoaderBase
_compile = _Loader.get_code


def _code(loader: t.Any, fullname: str) -> t.Any:
    """What was compiled once is kept where Python keeps it: beside its source, or below PYTHONPYCACHEPREFIX."""
    path = loader._source_code_path
    if not path or not os.path.isfile(path):
        return _compile(loader, fullname)
    keep = sys.dont_write_bytecode
    sys.dont_write_bytecode = False
    try:
        return importlib.machinery.SourceFileLoader(fullname, path).get_code(fullname)
    finally:
        sys.dont_write_bytecode = keep


_Loader.get_code = _code


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Loaded before the first task."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kept_bytecode"
    CALLBACK_NEEDS_ENABLED = True
