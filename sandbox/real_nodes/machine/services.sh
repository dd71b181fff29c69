#!/usr/bin/env bash
# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# The first process of a node once it is a machine: starts containerd, the kubelet and virt-handler, and starts each
# again that ends, unless /run/real/SERVICE.stopped is there. Logs are in /var/log.
set -eu
export PATH=/opt/real/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
machine=/opt/real/machine keys=/opt/real/keys

echo 1 > /proc/sys/net/ipv4/ip_forward
printf '127.0.0.1 localhost\n%s %s\n' "$ADDRESS" "$NODE" > /etc/hosts
printf '%032x\n' "$NUMBER" > /etc/machine-id
: > /etc/resolv.conf
mkdir -p /etc/cni/net.d /var/lib/kubelet/pods
cat > /etc/cni/net.d/10-pods.conflist <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam":
{"type": "host-local", "ranges": [[{"subnet": "$PODS"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
# a mount of the kubelet's pods: virt-handler follows no links there
mount --bind /var/lib/kubelet/pods /pods

run_containerd() { exec containerd --config "$machine/containerd.toml"; }
run_kubelet() {
    exec kubelet --config="$machine/kubelet.yml" --kubeconfig="$keys/$NODE.kubeconfig" \
        --hostname-override="$NODE" --node-ip="$ADDRESS" -v=2
}
run_virt-handler() {
    # as in the init container of virt-handler: of the CPU that QEMU emulates, since guests run without KVM
    if [ ! -e /run/real/labelled ]; then
        mkdir -p /var/lib/kubevirt-node-labeller /var/run/kubevirt /var/run/kubevirt-private \
            /var/run/kubevirt-libvirt-runtimes
        HYPERVISOR_DEVICE=none PREFERRED_VIRTTYPE=qemu bash /opt/real/bin/node-labeller.sh || echo "node-labeller: $?"
        kill "$(cat /run/libvirtd.pid)" || true
        touch /run/real/labelled
    fi
    exec virt-handler --kubeconfig="$keys/kubevirt-handler.kubeconfig" --hostname-override="$NODE" \
        --pod-ip-address="$ADDRESS" --port=8443 --console-server-port=8186 --graceful-shutdown-seconds=5 \
        --tls-cert-file="$keys/virt-handler-server.crt" --tls-key-file="$keys/virt-handler-server.key" \
        --client-cert-file="$keys/virt-handler-client.crt" --client-key-file="$keys/virt-handler-client.key" \
        --migration-client-cert-file="$keys/virt-handler-migration.crt" \
        --migration-client-key-file="$keys/virt-handler-migration.key" -v=3
}

start() {
    ("run_$1") >> "/var/log/$1.log" 2>&1 &
    echo $! > "/run/real/$1.pid"
}

import_images() { # once for each disk
    tries=0
    until ctr version > /dev/null 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -ge 600 ]; then
            echo "$NODE: containerd does not answer: $(tail -n 1 /var/log/containerd.log)" >&2
            exit 1
        fi
        sleep 0.1
    done
    [ ! -e /var/lib/containerd/imported ] || return 0
    for image in /opt/real/images/*.tar; do
        ctr -n k8s.io images import "$image" > /dev/null
    done
    # with their digests: virt-controller names the images of a migration's target by them
    ctr -n k8s.io images ls | awk '/^docker.io/ {print $1, $3}' | while read -r image digest; do
        ctr -n k8s.io images tag "$image" "${image%:*}@$digest" > /dev/null
    done
    touch /var/lib/containerd/imported
}

start containerd
import_images
start kubelet
start virt-handler
while :; do
    for service in containerd kubelet virt-handler; do
        kill -0 "$(cat "/run/real/$service.pid")" 2> /dev/null || [ -e "/run/real/$service.stopped" ] || start "$service"
    done
    sleep 1 &
    wait $! || true
done
