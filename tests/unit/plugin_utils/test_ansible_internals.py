# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each use of what ansible-core keeps private, in a play of the ansible-core that runs this test: by
dev/unit_matrix.py the oldest and the newest."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from tests.unit.action.plays import environment

INTERNALS = "ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals"

PROBE = f"""
import json, os, threading, time
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from {INTERNALS} import *
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import play_of, role_of


class ActionModule(ActionBase):
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        question = self._task.args["question"]
        answer = getattr(self, question)(task_vars)
        with open("answers", "a") as file:
            file.write(json.dumps([question, answer]) + chr(10))
        return statistics({{"answered": question}})

    def here(self, task_vars):
        return [is_local(self), becomes(self)]

    def value(self, task_vars):
        return [task_vars["sum"], templated(self, task_vars["sum"])]

    def plugin(self, task_vars):
        copy = plugin_of(self, "ansible.builtin.copy", self._task.copy())
        return [type(copy).__module__, plugin_of(self, "virt.placement.none") is None]

    def file(self, task_vars):
        try:
            missing = find_file(self, "missing")
        except AnsibleError:
            missing = None
        return [os.path.basename(os.path.dirname(find_file(self, "there"))), missing]

    def decrypted(self, task_vars):
        path = self._loader.get_real_file(find_file(self, "vaulted"))
        with open(path) as file:
            content = file.read()
        remove_decrypted_files(self)
        return [content, os.path.exists(path)]

    def banner(self, task_vars):
        return has_late_banner()

    def folder(self, task_vars):
        return [str(folder_of_run()), folder_of_run().is_dir()]

    def invocation(self, task_vars):
        ran = self._execute_module(
            "ansible.builtin.ping", module_args={{}}, task_vars=with_invocation(task_vars)
        )
        return "invocation" in ran


    def raised(self, task_vars):
        ran = self._execute_module("crash", module_args={{}}, task_vars=task_vars)
        return ran.get("module_stderr", raised_message(ran))

    def time_limit(self, task_vars):
        try:
            time.sleep(60)
        except BaseException as error:
            return [is_time_limit(error), is_time_limit(ValueError())]

    def pause(self, task_vars):
        task = self._task.copy()
        task.args = {{"seconds": 2}}
        pause = plugin_of(self, "ansible.builtin.pause", task)
        seen = [is_in_pause()]
        watch = threading.Timer(1, lambda: seen.append(is_in_pause()))
        watch.start()
        pause.run(task_vars=task_vars)
        watch.join()
        return seen

    def place(self, task_vars):
        return [os.path.basename(play_of(self._task)), role_of(self._task)]
"""

QUESTIONS = (
    *("here", "value", "plugin", "file", "decrypted", "banner", "folder", "invocation", "raised"),
    *("time_limit", "pause", "place"),
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, t.Any], str]:
    """The answers of the probe, and what the play printed."""
    folder = tmp_path_factory.mktemp("internals")
    files = {
        "action_plugins/probe.py": PROBE,
        "library/crash.py": "from ansible.module_utils.basic import AnsibleModule\n"
        "AnsibleModule({})\nraise ValueError('it broke')\n",
        "files/there": "",
        "files/vaulted": "secret",
        "password": "password",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    tasks: list[dict[str, t.Any]] = [
        {"name": name, "probe": {"question": name}} for name in QUESTIONS
    ]
    tasks[QUESTIONS.index("time_limit")]["timeout"] = 1
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"sum": "{{ 1 + 1 }}", "ansible_python_interpreter": sys.executable},
        "tasks": tasks,
    }
    (folder / "play.yml").write_text(f"# not JSON\n{json.dumps([play])}\n")
    programs = Path(sys.executable).parent
    subprocess.run(
        [
            programs / "ansible-vault",
            "encrypt",
            "--vault-password-file",
            "password",
            "files/vaulted",
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    ended = subprocess.run(
        [programs / "ansible-playbook", "--vault-password-file", "password", "play.yml"],
        cwd=folder,
        env={
            **environment(folder),
            "ANSIBLE_SHOW_CUSTOM_STATS": "true",
            "ANSIBLE_DISPLAY_OK_HOSTS": "false",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = (folder / "answers").read_text().splitlines()
    return dict(map(json.loads, lines)), ended.stdout


Ran = tuple[dict[str, t.Any], str]


def test_another_plugin_is_loaded_for_a_task(ran: Ran) -> None:
    module, no_plugin = ran[0]["plugin"]
    assert module.endswith("plugins.action.copy")
    assert no_plugin


def test_a_value_is_templated(ran: Ran) -> None:
    assert [str(value) for value in ran[0]["value"]] == ["{{ 1 + 1 }}", "2"]


def test_a_module_of_a_local_connection_runs_here_and_as_this_user(ran: Ran) -> None:
    assert ran[0]["here"] == [True, False]


def test_a_file_is_found_beside_the_play(ran: Ran) -> None:
    assert ran[0]["file"] == ["files", None]


def test_a_decrypted_file_is_removed(ran: Ran) -> None:
    assert ran[0]["decrypted"] == ["secret", False]


def test_the_banner_is_late_without_ok_hosts(ran: Ran) -> None:
    assert ran[0]["banner"] is True


def test_the_folder_of_the_run_is_there_and_removed_at_its_end(ran: Ran) -> None:
    path, was_there = ran[0]["folder"]
    assert was_there
    assert not Path(path).exists()


def test_statistics_of_a_result_are_published(ran: Ran) -> None:
    assert '"answered": "' + "".join(QUESTIONS) in ran[1]


def test_a_result_has_its_invocation(ran: Ran) -> None:
    assert ran[0]["invocation"]


def test_the_message_of_an_exception_is_in_the_result(ran: Ran) -> None:
    assert "it broke" in ran[0]["raised"]


def test_a_limit_of_time_is_told_from_other_exceptions(ran: Ran) -> None:
    assert ran[0]["time_limit"] == [True, False]


def test_a_pause_is_seen_from_another_thread(ran: Ran) -> None:
    assert ran[0]["pause"] == [False, True]


def test_a_task_of_a_playbook_has_a_play_and_no_role(ran: Ran) -> None:
    assert ran[0]["place"] == ["play.yml:2", ""]


@pytest.mark.parametrize(("given", "shown"), [("true", True), ("no", False), (False, False)])
def test_a_user_may_ask_for_the_invocation(given: t.Any, shown: bool) -> None:
    from ansible_collections.virt.placement.plugins.plugin_utils import ansible_internals

    assert ansible_internals.shows_invocation({"ansible_inject_invocation": given}) is shown
