# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes objects by chance until the time is over: python -m tests.fuzz --minutes 60 [--seed N].

Prints the number of examples, and each fault with its seed and its first example.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments = parser.parse_args()
    from tests import conftest  # makes the collections importable

    assert conftest
    from . import examples

    print(f"fuzz: --seed {arguments.seed}", flush=True)
    ends = time.monotonic() + arguments.minutes * 60
    search = examples.Search()
    seed, shown = arguments.seed, 0
    while time.monotonic() < ends:
        search.batch(seed)
        for place, text in list(search.faults.items())[shown:]:
            print(f"fuzz: --seed {seed}: {place}\n{text}", flush=True)
        shown = len(search.faults)
        seed += 1
        gc.collect()  # tasks pause the collector, for a process that ends with them
    print(f"fuzz: {search.examples} examples, {shown} faults", flush=True)
    return 1 if search.faults else 0


if __name__ == "__main__":
    sys.exit(main())
