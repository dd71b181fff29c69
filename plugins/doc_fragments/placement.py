# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that every module has: which cluster is meant, and what its topology keys are called."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  topology_keys:
    description:
      - Short names for the node labels that say where a node is and what it is good for.
      - Merged over the defaults V(region=topology.kubernetes.io/region), V(zone=topology.kubernetes.io/zone),
        V(node=kubernetes.io/hostname) and V(performance=performance).
      - A key with a slash is taken as it is wherever a key is asked for. A key without a slash has to be declared
        here, so that a misspelt one is an error and not a rule without effect.
    type: dict
    default: {}
  cluster_uid:
    description:
      - The UID of the namespace C(kube-system) of the cluster that is meant, as returned in RV(ignore:cluster.uid).
      - The module refuses to work on any other cluster. It also refuses an empty text, since that would drop this
        safeguard.
    type: str
  timeout:
    description:
      - Seconds after which the module gives up. Until then it retries requests that fail for a passing reason.
        It retries a write only after reading shows that the write was not made.
      - A long list is read in pages, and each page that arrives restarts this timeout. The task as a whole takes no
        longer than five times this value.
      - A credential program of the kubeconfig (C(exec)) may run as long as this.
    type: int
    default: 120
"""
