# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated virt-handler: the part of KubeVirt that needs a hypervisor on each node.

It does for every node what the DaemonSet of that name reports to the API server:
VirtualMachineInstances become Running, migrations run their phases, guests shut down, launcher pods
end, and nodes have heartbeats. virt-controller and virt-api are real and see no difference, as long
as the order and the fields are those of KubeVirt (``pkg/virt-handler``). A kubelet (KWOK) makes the
launcher pods Running. docs/architecture.md names what differs from real nodes.

Run ``python -m sandbox.virt_handler <sandbox directory>``; it ends on SIGTERM.

Releases
========
The fields and their order are those of KubeVirt 1.8. virt-controller 1.4.0 takes them, too: with what the node side
and the products give it (:mod:`sandbox.releases`), instances start, migrate, leave in a drain and come back.

* Node labels of the labeller (``pkg/virt-handler/node-labeller/node_labeller.go``):
  ``host-model-cpu.node.kubevirt.io/MODEL`` and ``cpu-model-migration.node.kubevirt.io/MODEL``. In 1.4 a VM with the
  CPU model host-model, the default (``pkg/defaults/defaults.go``, ``setDefaultCPUModel``), gets no target pod while
  its source node lacks the first (``prepareNodeSelectorForHostCpuModel`` in
  ``pkg/virt-controller/watch/migration/migration.go``). From 1.6 the same error is lost in the variable of an inner
  block, so that nodes without labels work. A target pod selects the second label. Nodes get these labels when they
  are made (:mod:`sandbox.node_labeller`), not by this process.
* ``vmRolloutStrategy: LiveUpdate``: the default from 1.6 (``pkg/virt-config/virt-config.go``,
  ``DefaultVMRolloutStrategy``). 1.4 follows it only with the feature gate ``VMLiveUpdateFeatures`` (the same file,
  ``IsVMRolloutStrategyLiveUpdate``), which is generally available in 1.5. Without both, placement waits for a restart.

Faults
======
Each is an annotation on the VirtualMachineInstance. On the template of a VirtualMachine, replica
set or pool it reaches the instances that start from then on; on a running instance it works at
once. The same names without the prefix, as keys of ConfigMap ``kubevirt/sandbox-virt-handler``, are
the defaults of every instance: that is the "slow world" (``migration-seconds: "180"``,
``shutdown-seconds: "60"``).

========================================  =======  =============================================
annotation                                value    effect
========================================  =======  =============================================
``sandbox.virt/not-migratable``           reason   condition LiveMigratable is False with it,
                                                   e.g. ``DisksNotLiveMigratable``
``sandbox.virt/live-migratable-missing``  true     there is no condition LiveMigratable
``sandbox.virt/migration-fails``          n        the next n migrations fail; counted down on
                                                   the instance with each failure
``sandbox.virt/migration-seconds``        seconds  a migration needs so long from its start to
                                                   its end (or to its failure)
``sandbox.virt/prepare-seconds``          seconds  a migration's target needs so long to listen
                                                   once its pod is ready
``sandbox.virt/handover-seconds``         seconds  the guest has arrived, its source has ended, and
                                                   for so long the instance names the source node
``sandbox.virt/source-pod-stays``         true     the source pod goes on running after the
                                                   migration, until the annotation is taken away
``sandbox.virt/source-pod-seconds``       seconds  a launcher that its guest has left needs so long
                                                   to end: Running, and not Ready (default 1)
``sandbox.virt/shutdown-seconds``         seconds  the guest needs so long to shut down when the
                                                   instance or its pod is deleted; never longer
                                                   than the grace period of the deletion
``sandbox.virt/guest-is-gone``            true     the instance has failed, and its launcher goes on
========================================  =======  =============================================

Kubernetes keeps times in whole seconds, so a duration may end up to one second early. A node that
died (:mod:`sandbox.node_faults`) does nothing: what it should do stays undone until it is back.

So that a slow guest's pod is not gone at once, KWOK leaves deleted pods that carry
``sandbox.virt/shutdown-seconds`` alone (``stages/``); KubeVirt copies the annotation from the
instance to its pods, and this process adds it where it came later.
"""

from __future__ import annotations
