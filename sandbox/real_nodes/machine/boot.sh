#!/usr/bin/env bash
# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# The first process of a node, in namespaces of its own: makes them into a machine, and becomes its services.
# Nothing of it is visible outside: kernel values that are not of these namespaces are read-only.
set -eu
root=$DIRECTORY/root

read -r -a stat < /proc/self/stat # as it is outside: its ID and its start time
echo "${stat[0]} ${stat[21]}" > "$DIRECTORY/pid.new"
mv "$DIRECTORY/pid.new" "$DIRECTORY/pid"
hostname "$NODE"
mount --make-rprivate /

outside() { nsenter --net="$NETWORK" "$@"; }
outside ip link delete "$NODE" 2> /dev/null || true # of the boot before: the kernel removes it a moment later
ip link add eth0 type veth peer name "$NODE" netns "$NETWORK"
outside ip link set "$NODE" master "$BRIDGE" up
ip link set lo up
ip address add "$ADDRESS/24" dev eth0
ip link set eth0 up
ip route add default via "$GATEWAY"
for route in $ROUTES; do
    ip route add "${route%:*}" via "${route##*:}"
done

mkdir -p "$DIRECTORY"/{root,upper,work,containerd,kubelet}
mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$DIRECTORY/upper,workdir=$DIRECTORY/work" "$root"
cd "$root"
mkdir -p opt/real/{bin,images,keys,machine,values,free} var/lib/{containerd,kubelet} pods
mount -t proc proc proc
# /proc/sys is read-only, but for the part of the network, which belongs to the network namespace
mount -t proc proc opt/real/free
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount --bind opt/real/free/sys/net proc/sys/net
umount -l opt/real/free
# the kubelet insists on these values: it reads them here, and the kernel keeps its own; each boot has an ID of its own
for setting in "kernel/random/boot_id=$(cat proc/sys/kernel/random/uuid)" vm/overcommit_memory=1 vm/panic_on_oom=0 \
        kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    file=opt/real/values/$(basename "${setting%=*}")
    echo "${setting#*=}" > "$file"
    mount --bind "$file" "proc/sys/${setting%=*}"
done

mount -t sysfs -o ro sysfs sys
if [ "$HIERARCHIES" = v2 ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    # a group with processes gives no controllers to groups below: these processes go to one below
    mkdir sys/fs/cgroup/init
    tries=0
    until xargs -n 1 < sys/fs/cgroup/cgroup.procs > sys/fs/cgroup/init/cgroup.procs 2> /dev/null &&
        sed 's/\([^ ]*\)/+\1/g' sys/fs/cgroup/cgroup.controllers > sys/fs/cgroup/cgroup.subtree_control 2> /dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -ge 100 ]; then
            echo "$NODE: its control group gives no controllers to groups below: in it are the processes" \
                "$(xargs < sys/fs/cgroup/cgroup.procs)" >&2
            exit 1
        fi
        sleep 0.1
    done
else
    mount -t tmpfs -o mode=755 cgroup sys/fs/cgroup
    for hierarchy in $HIERARCHIES; do
        folder=sys/fs/cgroup/${hierarchy#name=}
        mkdir "$folder"
        case $hierarchy in name=*) mount -t cgroup -o "none,$hierarchy" cgroup "$folder" ;; *)
            mount -t cgroup -o "$hierarchy" cgroup "$folder"
            for controller in ${hierarchy//,/ }; do
                [ "$controller" = "$hierarchy" ] || ln -s "$hierarchy" "sys/fs/cgroup/$controller"
            done ;;
        esac
    done
fi

mount -t tmpfs -o mode=755 dev dev
mkdir -p dev/{pts,shm,net,mqueue}
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 kmsg:1:11 net/tun:10:200; do
    IFS=: read -r file major minor <<< "$device"
    mknod -m 666 "dev/$file" c "$major" "$minor"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t mqueue mqueue dev/mqueue
mount -t tmpfs -o mode=1777 shm dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t tmpfs -o mode=755 run run
mount -t tmpfs -o mode=1777 tmp tmp
mount --bind "$PROGRAMS" opt/real/bin
mount --bind "$IMAGES" opt/real/images
mount --bind "$KEYS" opt/real/keys
mount --bind "$(dirname "$0")" opt/real/machine
mount --bind "$DIRECTORY/containerd" var/lib/containerd
mount --bind "$DIRECTORY/kubelet" var/lib/kubelet

mkdir -p run/real run/old
pivot_root . run/old
umount -l /run/old
mount --make-rshared /
cd /
exec bash /opt/real/machine/services.sh
