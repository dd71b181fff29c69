# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m sandbox.virt_handler <sandbox directory>``"""

from __future__ import annotations

import argparse
import pathlib
import signal
import sys

from ..layout import Layout
from .loop import VirtHandler


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox.virt_handler", description="simulated virt-handler"
    )
    parser.add_argument(
        "directory", type=pathlib.Path, help="directory of the sandbox that it works for"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    VirtHandler(Layout.read(arguments.directory).kubeconfig("kubevirt-controller")).run()


if __name__ == "__main__":
    main()
