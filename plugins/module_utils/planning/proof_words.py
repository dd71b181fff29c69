# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs as people read them. Pure."""

from __future__ import annotations

import typing as t

from ..model.topology import Topology
from .proof import Proof

SHOWN = 10
"""Names listed at most."""


def listed(names: t.Sequence[str]) -> str:
    """Some names, and how many more."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class ProofWords:
    """`name_of` names a seeker by its number, `is_machine` tells whether it is a virtual machine,
    `why_nowhere` says why one has no node."""

    def __init__(
        self,
        topology: Topology,
        name_of: t.Callable[[int], str],
        is_machine: t.Callable[[int], bool],
        why_nowhere: t.Callable[[int], str],
    ) -> None:
        self._topology = topology
        self._name_of = name_of
        self._is_machine = is_machine
        self._why_nowhere = why_nowhere

    def text(self, proof: Proof) -> str:
        words = {
            "no_node": self._no_node,
            "apart": self._apart,
            "resources": self._resources,
            "spread": self._spread,
        }
        return words[proof.kind](proof)

    def _no_node(self, proof: Proof) -> str:
        (number,) = proof.crowd
        return f"{self._noun(proof)} {self._name_of(number)}: {self._why_nowhere(number)}"

    def _apart(self, proof: Proof) -> str:
        over = self._topology.name_of(proof.key)
        room = f" ({listed(proof.room)})" if proof.room else ""
        return (
            f"{self._crowd(proof)} {_do(proof, 'keep')} apart over {over} and can only use"
            f" {plural(len(proof.room), over)}{room}"
        )

    def _resources(self, proof: Proof) -> str:
        scarce = "places for pods" if proof.key == "pods" else proof.key
        return (
            f"{self._crowd(proof)} {_do(proof, 'need')} more {scarce} than there is:"
            f" {plural(len(proof.room), 'node')} that they can use ({listed(proof.room)})"
            f" {'has' if len(proof.room) == 1 else 'have'} room for {proof.places} of them"
        )

    def _spread(self, proof: Proof) -> str:
        over = self._topology.name_of(proof.key)
        blocked = (
            f", {over} {listed(proof.blocked)} counts for that and takes none of them"
            if proof.blocked
            else ""
        )
        return (
            f"{self._crowd(proof)} {'is' if len(proof.crowd) == 1 else 'are'} spread over {over}"
            f" with a skew of at most {proof.skew}{blocked}: {self._places(proof)}"
        )

    def _places(self, proof: Proof) -> str:
        if not proof.places:
            return "no place is left"
        return f"not more than {proof.places} of {len(proof.crowd)} can have a place"

    def _crowd(self, proof: Proof) -> str:
        names = [self._name_of(number) for number in proof.crowd]
        if len(names) == 1:
            return f"this {self._noun(proof)} ({names[0]})"
        return f"these {len(names)} {self._noun(proof)}s ({listed(names)})"

    def _noun(self, proof: Proof) -> str:
        return "VM" if all(map(self._is_machine, proof.crowd)) else "pod"


def _do(proof: Proof, verb: str) -> str:
    return f"{verb}s" if len(proof.crowd) == 1 else verb
