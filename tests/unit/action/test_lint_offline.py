# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""lint_info from a play, as a pipeline runs it: no cluster, whatever module_defaults say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.action.plays import RunPlaybook

PLAY = """\
- name: Lint what a repository holds
  hosts: localhost
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  module_defaults:
    group/virt.placement.auth:
      kubeconfig: not/there.yml
    group/virt.placement.all:
      cluster_uid: another
  tasks:
    - name: Lint
      virt.placement.lint_info:
        files: ["{{ playbook_dir }}/manifests"]
      register: linted
    - name: Stop where something is wrong
      ansible.builtin.assert:
        that: linted.ok
        fail_msg: "{{ linted.findings | map(attribute='why') | join(' ') }}"
"""
MACHINE = """\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: pool1-a}
spec:
  template:
    spec:
      domain: {}
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: topology.kubernetes.io/zone
"""
SELECTOR = """\
              labelSelector: {matchLabels: {vmi.kubevirt.io/id: pool1-a}}
              mismatchLabelKeys: [kubevirt.io/created-by]
"""


@pytest.mark.parametrize("fixed", [False, True])
def test_a_pipeline_stops_at_the_published_fault(
    tmp_path: Path, warm_playbook: RunPlaybook, fixed: bool
) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "pool.yml").write_text(MACHINE + (SELECTOR if fixed else ""))
    (tmp_path / "play.yml").write_text(PLAY)

    done = warm_playbook(tmp_path, "play.yml")

    assert (done.returncode == 0) is fixed, done.stdout + done.stderr
    assert ("has no labelSelector, which selects no pod" in done.stdout) is not fixed
