# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are real: a kubelet, containerd and virt-handler each, and VMs whose guests run.

A node is a process with namespaces of its own on this machine: mounts over one Debian, network, processes, host name,
control groups. Its guests run in QEMU without KVM, and KubeVirt migrates them from node to node. There is no container
registry: programs are built from pinned Go modules, Debian comes from its packages, and images are packed here.

:mod:`.ground` says what a machine lacks for it, :mod:`.files` builds what nodes need, once, :mod:`.cluster` starts the
nodes of a sandbox, and :mod:`.node` is one of them: its power, its services, a command on it.
"""
