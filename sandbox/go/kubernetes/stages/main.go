// Copyright (c) 2026, virt.placement contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Command stages prints KWOK's own node stages (a node becomes Ready, a node keeps its lease),
// which its module embeds but its program does not load by itself.
package main

import (
	"fmt"

	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	lease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
)

func main() {
	fmt.Printf("%s\n---\n%s", fast.DefaultNodeInit, lease.DefaultNodeHeartbeatWithLease)
}
