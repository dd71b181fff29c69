#!/bin/sh
# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Debian has libvirtd alone, one daemon for all drivers. KubeVirt asks for virtqemud and its socket.
mkdir -p "${XDG_RUNTIME_DIR:-/run}/libvirt"
ln -sfn libvirt-sock "${XDG_RUNTIME_DIR:-/run}/libvirt/virtqemud-sock"
exec /usr/libexec/virtqemud "$@"
