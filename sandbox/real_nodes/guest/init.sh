#!/bin/sh
# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# The whole guest. It counts on its console: a number that is missing was lost, another boot is a restart.
# The kernel's arguments fill=MIB and dirty=SECONDS fill memory with noise, and write it anew: migrations that take long,
# or never end.
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
read -r boot < /proc/sys/kernel/random/boot_id
echo "guest up, boot $boot"
noise() { /bin/busybox dd if=/dev/urandom of=/noise bs=1M count="$fill" conv=notrunc 2> /dev/null; }
[ -z "$fill" ] || noise
if [ -n "$dirty" ]; then
    while :; do noise; /bin/busybox sleep "$dirty"; done &
fi
count=0
while :; do
    count=$((count + 1))
    read -r up idle < /proc/uptime
    echo "tick $count boot ${boot%%-*} up $up"
    /bin/busybox sleep 1
done
