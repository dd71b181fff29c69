# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A playbook has the same results with modules in forks as with a Python for each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from dev.forks import FORKS

pytestmark = pytest.mark.packaged_modules

LINT = "virt.placement.lint_info"
RELEASES = {"kubernetes_version": "1.34", "kubevirt_version": "1.6"}
DEAD = {"topologyKey": "topology.kubernetes.io/zone"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PROBE = '''\
"""What a module finds around it, and odd ways to end."""

import atexit
import os
import signal
import stat
import sys
import threading
import time

from ansible.module_utils.basic import AnsibleModule

SIGNALS = ("SIGINT", "SIGTERM", "SIGALRM", "SIGCHLD", "SIGPIPE", "SIGHUP")


def main():
    old = {"removed_in_version": "9", "removed_from_collection": "probe.probe"}
    spec = {"end": {"default": ""}, "password": {"no_log": True}, "old": old}
    module = AnsibleModule(spec, supports_check_mode=True)
    end = module.params["end"]
    module.warn("a warning")
    if end == "raise":
        raise ValueError("not caught")
    if end == "return":
        return
    if end == "exit":
        print("said", file=sys.stderr)
        sys.exit(3)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGTERM)
    if end == "sleep":
        time.sleep(4)
    if end == "pollute":
        print("before")
        os.system("echo of a child")
        threading.Thread(target=lambda: (time.sleep(0.3), print("of a thread"))).start()
        atexit.register(print, "after")
    module.exit_json(
        given=sys.stdin.read(),
        secret=module.params["password"],
        check=module.check_mode,
        diff=module._diff,
        no_log=module.no_log,
        folder=os.getcwd(),
        variable=[os.environ.get("PROBE"), os.environ.get("KUBECONFIG")],
        signals=[str(signal.getsignal(getattr(signal, name))) for name in SIGNALS],
        pipe=stat.S_ISFIFO(os.fstat(1).st_mode),
        descriptors=sorted(os.listdir("/proc/self/fd"))[:-1],
        timer=signal.getitimer(signal.ITIMER_REAL),
        threads=[thread.daemon for thread in threading.enumerate()],
        umask=os.umask(0o22),
    )


if __name__ == "__main__":
    main()
'''
PROBED: dict[str, dict[str, t.Any]] = {
    "finds": {},
    "hides": {"no_log": True},
    "checks": {"check_mode": True, "diff": True},
    "environment": {"environment": {"PROBE": True, "KUBECONFIG": "/its/own"}},
    "timeout": {"timeout": 60},
    "async": {"async": 30, "poll": 1},
}
"""Keywords of tasks."""
ENDS = ("raise", "return", "exit", "kill", "pollute")
RULES = [
    {
        "name": "r",
        "workloads": ["a"],
        "terms": {"affinity": {"podAntiAffinity": {REQUIRED: [DEAD]}}},
    }
]
TASKS: dict[str, dict[str, t.Any]] = {
    "lint_warns": {LINT: {**RELEASES, "rules": []}},
    "lint_finds": {LINT: {**RELEASES, "namespace": "shop", "rules": RULES}},
    "lint_refuses": {LINT: {**RELEASES, "kubernetes_version": "new"}},
    "lint_fails": {LINT: {"no_such_option": 1}},
    **{
        f"probe_{name}": {"probe.probe.probe": {"password": "s3cret", "old": "x"}, **keywords}
        for name, keywords in PROBED.items()
    },
    **{f"probe_{end}": {"probe.probe.probe": {"end": end}} for end in ENDS},
    "probe_timed_out": {"probe.probe.probe": {"end": "sleep"}, "timeout": 1},
}
VARYING = ("ansible_job_id", "results_file", "timedout")


def results(folder: Path) -> dict[str, t.Any]:
    """The results of the tasks, as a later task has them."""
    modules = folder / "ansible_collections" / "probe" / "probe" / "plugins" / "modules"
    modules.mkdir(parents=True)
    (modules / "probe.py").write_text(PROBE)
    tasks = [{**task, "register": name, "ignore_errors": True} for name, task in TASKS.items()]
    content = "{{ {" + ", ".join(f"'{name}': {name}" for name in TASKS) + "} | to_json }}"
    tasks.append({"ansible.builtin.copy": {"content": content, "dest": str(folder / "r.json")}})
    interpreter = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    play = {"hosts": "localhost", "gather_facts": False, "vars": interpreter, "tasks": tasks}
    (folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    path = os.pathsep.join([str(folder), os.environ["ANSIBLE_COLLECTIONS_PATH"]])
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [program, "-i", "localhost,", "-c", "local", folder / "play.yml"],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = (folder / "r.json").read_text().replace(str(folder), "FOLDER")
    found: dict[str, dict[str, t.Any]] = json.loads(text)
    return {
        name: {key: value for key, value in result.items() if key not in VARYING}
        for name, result in found.items()
    }


def test_results_are_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    alone = results(tmp_path / "alone")
    request.getfixturevalue("modules_in_process")
    assert os.environ.items() >= FORKS.items()

    in_process = results(tmp_path / "in-process")

    assert alone["lint_warns"]["warnings"]
    assert {name for name, result in alone.items() if result["failed"]} == {
        *("lint_refuses", "lint_fails", "probe_raise", "probe_return", "probe_exit", "probe_kill"),
        "probe_timed_out",
    }
    for name, result in alone.items():
        assert in_process[name] == result, name
