# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m demos [SYSTEM]`: rebuild a published system with our playbooks and assert each step."""

from __future__ import annotations

import argparse
import importlib
import pathlib
import sys
import time

from demos import board
from demos.stage import Stage
from sandbox import Sandbox


def systems() -> list[str]:
    return sorted(p.parent.name for p in pathlib.Path(__file__).parent.glob("*/steps.py"))


def title(name: str, number: int, of: int) -> str:
    text = f"[{number}/{of}] {name.replace('_', ' ')}"
    return f"\n{text}\n{'=' * len(text)}"


def run(system: str) -> int:
    """Run every step; 1 names the first one whose proof failed."""
    play = importlib.import_module(f"demos.{system}.steps")
    begun = time.monotonic()
    print(f"Starting a control plane for '{system}' ...", flush=True)
    with Sandbox.start(play.CLUSTER) as sandbox:
        print(f"  up in {time.monotonic() - begun:.0f} s", flush=True)
        stage = Stage(sandbox, play.NAMESPACE)
        for number, step in enumerate(play.STEPS, 1):
            print(title(step.__name__, number, len(play.STEPS)))
            print(f"{step.__doc__}\n", flush=True)
            try:
                step(stage)
            except AssertionError as failure:
                print(board.draw(sandbox, play.NAMESPACE))
                print(f"\nFAILED in step {number} ({step.__name__}): {failure}")
                return 1
            print("\n" + board.draw(sandbox, play.NAMESPACE), flush=True)
    print(f"\nAll {len(play.STEPS)} steps hold ({time.monotonic() - begun:.0f} s).")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demos", description=__doc__)
    parser.add_argument("system", nargs="?", default="article", choices=systems())
    return run(parser.parse_args().system)


if __name__ == "__main__":
    sys.exit(main())
