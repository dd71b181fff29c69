#!/bin/sh
# Makes the exports of this folder: govc prints what vcsim, the simulator of vCenter, stores.
# Needs both in PATH: go install github.com/vmware/govmomi/govc@v0.46.0 github.com/vmware/govmomi/vcsim@v0.46.0
set -eu
cd "$(dirname "$0")"
address=127.0.0.1:28989
vcsim -l "$address" -cluster 1 -host 1 -standalone-host 0 -vm 0 >/dev/null 2>&1 &
simulator=$!
trap 'kill "$simulator"' EXIT
export GOVC_URL="https://user:pass@$address/sdk" GOVC_INSECURE=1
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    govc about >/dev/null 2>&1 && break
    [ "$attempt" != 10 ] || { echo "vcsim does not answer" >&2; exit 1; }
    sleep 1
done

govc object.rename /DC0/host/DC0_C0 Production
for host in 1 2 3 4 5 6; do
    govc cluster.add -cluster Production -hostname "esx$host.example.com" -username root -password pass -noverify
done
for vm in WEB_1 WEB_2 WEB_3 db.prod app cache "SAP HANA" sap-app "Legacy VM (old)" mail-1 mail-2 batch build lone; do
    govc vm.create -on=false -net "VM Network" -pool Production/Resources -ds LocalDS_0 "$vm" >/dev/null
done

group() { name=$1; shift; govc cluster.group.create -cluster Production -name "$name" "$@"; }
rule() { name=$1; shift; govc cluster.rule.create -cluster Production -name "$name" "$@"; }
group "sap vms" -vm "SAP HANA" sap-app
group databases -vm db.prod
group Legacy -vm "Legacy VM (old)"
group mail -vm mail-1 mail-2
group nobody -vm
group "batch jobs" -vm batch build
group licensed -host esx1.example.com esx2.example.com
group "site A" -host esx1.example.com esx2.example.com esx3.example.com
group "site B" -host esx4.example.com esx5.example.com esx6.example.com
group gpu -host esx6.example.com
group "spare hosts" -host esx5.example.com

rule "web apart" -enable -anti-affinity WEB_1 WEB_2 WEB_3
rule "app with db" -enable -affinity app db.prod
rule "cache with app" -enable -mandatory -affinity app cache
rule "mail apart" -enable -mandatory -anti-affinity mail-1 mail-2
rule "old pair" -anti-affinity batch "Legacy VM (old)"
rule "sap together" -enable -affinity "SAP HANA" sap-app
rule "sap apart from web" -enable -anti-affinity "SAP HANA" WEB_1
rule "lone rule" -enable -anti-affinity lone build
govc cluster.rule.change -cluster Production -name "lone rule" -enable lone
rule "sap on licensed" -enable -mandatory -vm-host -vm-group "sap vms" -host-affine-group licensed
rule "db should on A" -enable -vm-host -vm-group databases -host-affine-group "site A"
rule "legacy not on gpu" -enable -mandatory -vm-host -vm-group Legacy -host-anti-affine-group gpu
rule "mail should not on B" -enable -vm-host -vm-group mail -host-anti-affine-group "site B"
rule "batch on B" -mandatory -vm-host -vm-group "batch jobs" -host-affine-group "site B"
rule "nobody on A" -enable -mandatory -vm-host -vm-group nobody -host-affine-group "site A"
rule "nobody not on gpu" -enable -mandatory -vm-host -vm-group nobody -host-anti-affine-group gpu
rule "batch / build apart" -enable -anti-affinity batch build
rule "batch-build apart" -enable -anti-affinity batch build
rule "build with batch?" -affinity batch build
rule "legacy on A not gpu" -enable -mandatory -vm-host -vm-group Legacy -host-affine-group "site A" \
    -host-anti-affine-group gpu
rule "cache apart from mail-1" -enable -anti-affinity cache mail-1
rule "cache apart from mail-2" -enable -anti-affinity cache mail-2
rule "lone on licensed" -vm-host -vm-group "sap vms" -host-affine-group licensed
rule "web 1 from batch" -enable -anti-affinity WEB_1 batch
rule "db before app" -enable -depends databases mail
govc cluster.override.change -cluster Production -vm "Legacy VM (old)" -drs-enabled=false
govc cluster.override.change -cluster Production -vm build -drs-mode manual
govc cluster.override.change -cluster Production -vm lone -drs-mode partiallyAutomated
govc cluster.override.change -cluster Production -vm db.prod -ha-restart-priority high

govc object.collect -json /DC0/host/Production configurationEx >config.json
govc object.collect -json -type m / name >vms.json
govc object.collect -json -type h / name >hosts.json
govc cluster.rule.ls -l -json -cluster Production >types.json
govc cluster.override.info -json -cluster Production >overrides.json
