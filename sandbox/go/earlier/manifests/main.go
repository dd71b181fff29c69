// Copyright (c) 2026, virt.placement contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Command manifests prints what virt-operator would install for virt-api and virt-controller, one
// JSON object a line: custom resource definitions, webhook configurations, API services.
// KubeVirt keeps no such files; they come from the generator that virt-operator itself uses. This is
// ../../kubevirt/manifests without the kinds that KubeVirt before 1.8 does not have.
package main

import (
	"encoding/json"
	"log"
	"os"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	generate "kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
)

const namespace = "kubevirt"

var definitions = []func() (*apiextensions.CustomResourceDefinition, error){
	generate.NewKubeVirtCrd,
	generate.NewVirtualMachineCrd,
	generate.NewVirtualMachineInstanceCrd,
	generate.NewVirtualMachineInstanceMigrationCrd,
	generate.NewReplicaSetCrd,
	generate.NewVirtualMachinePoolCrd,
	generate.NewPresetCrd,
	generate.NewMigrationPolicyCrd,
	generate.NewVirtualMachineInstancetypeCrd,
	generate.NewVirtualMachineClusterInstancetypeCrd,
	generate.NewVirtualMachinePreferenceCrd,
	generate.NewVirtualMachineClusterPreferenceCrd,
	generate.NewVirtualMachineSnapshotCrd,
	generate.NewVirtualMachineSnapshotContentCrd,
	generate.NewVirtualMachineRestoreCrd,
	generate.NewVirtualMachineExportCrd,
	generate.NewVirtualMachineCloneCrd,
}

func main() {
	out := json.NewEncoder(os.Stdout)
	print := func(object any) {
		if err := out.Encode(object); err != nil {
			log.Fatal(err)
		}
	}
	for _, definition := range definitions {
		crd, err := definition()
		if err != nil {
			log.Fatal(err)
		}
		crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
		print(crd)
	}
	print(generate.NewVirtAPIMutatingWebhookConfiguration(namespace))
	print(generate.NewVirtAPIValidatingWebhookConfiguration(namespace))
	for _, service := range generate.NewVirtAPIAPIServices(namespace) {
		print(service)
	}
}
