# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every suite shares: importable collections, no inherited cluster, and how modules run.

The suites with a control plane call a module by `run_module`, or run playbooks. A playbook of tests/jobs,
tests/integration or tests/modules is a fork of one ansible-playbook (tests/warm_playbook). It runs tasks in its process
(tests/tasks_in_process) and modules in forks (tests/modules_in_process), in a third of the time. Of tests/real,
tests/faults/test_maintenance.py and the scenarios of Molecule, only the modules are forks. Ansible's own way, processes
that begin anew and an archive that a Python of its own unpacks, is what tests with the mark `packaged_modules` have:

- test_examples.py for the first example of each module: each can be packed, and runs;
- test_controller.py, from the collection as its archive installs it, and job templates as AWX runs them;
- test_secrets.py, which reads all that Ansible prints and logs;
- tests of jobs that are killed, canceled, interrupted, encrypted or run beside each other: they are about processes;
- test_oldest_core.py: forks are for the ansible-core of this environment alone;
- test_modules_in_process.py, which compares both ways.

Other tests of signals, of what is printed meanwhile, and of a second run whose sets have another order, have an
`own_process` and modules in forks; so have the commands of pages (tests/page_commands.py).

The bench, the other tests/faults and most plays of tests/unit have it, too, and so has `make demo`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import sys
import typing as t
from pathlib import Path
from unittest import mock

import pytest

from dev.forks import ALL_IN_PROCESS, FORKS
from tests.file_order import few_starts
from tests.returned import undocumented
from tests.warm_playbook import warm_playbook

CHECKOUT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SANDBOX_LIBRARIES = ("cryptography", "requests", "yaml")


def _drop_inherited_clusters() -> None:
    """Tests reach the clusters that they started, and no other; not even ~/.kube/config."""
    for name in [name for name in os.environ if name.startswith("K8S_AUTH_")]:
        del os.environ[name]
    os.environ["KUBECONFIG"] = os.devnull


def _link_checkout() -> Path:
    """A tree in which the checkout is virt.placement, whatever its folder is called."""
    tree = CHECKOUT / "build" / "collections"
    link = tree / "ansible_collections" / "virt" / "placement"
    link.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        link.symlink_to(Path("..", "..", "..", ".."))
    return tree


def _make_collections_importable() -> None:
    """Our own tree first, then the dependencies: those named by the caller, else the prepared."""
    named = os.environ.get("ANSIBLE_COLLECTIONS_PATH", "").split(os.pathsep)
    trees = [str(_link_checkout()), *filter(None, named)]
    if not any(Path(tree, "ansible_collections", "kubernetes", "core").is_dir() for tree in trees):
        trees.append(str(CHECKOUT / "build" / "dependencies"))
    present = list(dict.fromkeys(tree for tree in trees if Path(tree).is_dir()))
    os.environ["ANSIBLE_COLLECTIONS_PATH"] = os.pathsep.join(present)
    os.environ.setdefault("ANSIBLE_HOME", str(CHECKOUT / "build" / "ansible"))
    sys.path[:0] = present


def _use_own_programs() -> None:
    """ansible-playbook and the others beside the interpreter that runs the tests come first."""
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def _sandbox_plugins() -> list[str]:
    """The sandbox's fixtures, where its libraries are: unit tests run in bare environments too."""
    if not (CHECKOUT / "sandbox" / "pytest_plugin.py").is_file():
        return []
    if any(importlib.util.find_spec(name) is None for name in SANDBOX_LIBRARIES):
        return []
    return ["sandbox.pytest_plugin"]


_drop_inherited_clusters()
_make_collections_importable()
_use_own_programs()
pytest_plugins = ["tests.processor_time", "tests.file_share", *_sandbox_plugins()]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--fault-sample", type=int, metavar="N", help="only N tests of tests/faults")
    seed = int(os.environ.get("PLACEMENT_SEED") or random.SystemRandom().randrange(10**6))
    group.addoption("--fault-seed", type=int, default=seed, help="chooses the sample")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks."""
    config.addinivalue_line("markers", "long_fault: a sample of faults has few of these")
    config.addinivalue_line("markers", "sweep: slow; `make sweeps` runs it, `make test` does not")
    config.addinivalue_line("markers", "tour: what `make releases` runs on each pair of releases")
    config.addinivalue_line("markers", "real_tour: what `make test` runs of tests/real")
    config.addinivalue_line(
        "markers", "packaged_modules: Ansible starts anew, and packs each module"
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    if config.option.fault_sample is None:
        return None
    return (
        f"faults: a sample of {config.option.fault_sample}, --fault-seed={config.option.fault_seed}"
    )


LONG_FAULTS = 1
"""Tests with the mark long_fault in a sample, at most."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A full sweep of faults takes long; a sample of it, chosen anew each time, does not. Files run in the order in
    which few sandboxes start."""
    _sample_faults(config, items)
    if not _sandbox_plugins():
        return
    from sandbox.pytest_plugin import ALIVE, CLUSTERS

    wanted: dict[Path, set[str]] = {}
    for item in items:
        clusters = CLUSTERS.intersection(getattr(item, "fixturenames", ()))
        wanted.setdefault(item.path, set()).update(clusters)
    place = {path: number for number, path in enumerate(few_starts(wanted, ALIVE))}
    items.sort(key=lambda item: place[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Jobs end with their test, before the fixtures take away what they work on."""
    if "tests.job" in sys.modules:
        sys.modules["tests.job"].end_plays()


def _sample_faults(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.option.fault_sample
    sweep = [item for item in items if CHECKOUT / "tests" / "faults" in item.path.parents]
    if wanted is None or wanted >= len(sweep):
        return
    shuffled = random.Random(config.option.fault_seed).sample(sweep, len(sweep))
    long = [item for item in shuffled if item.get_closest_marker("long_fault")]
    chosen = [item for item in shuffled if item not in long[LONG_FAULTS:]][:wanted]
    left_out = [item for item in sweep if item not in chosen]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def _on_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules run in this process. Where a test has imported code of the controller, ansible-core 2.19 and later
    would print their warnings and leave them out of their results."""
    internal = sys.modules.get("ansible.module_utils._internal")
    if hasattr(internal, "is_controller"):
        monkeypatch.setattr(internal, "is_controller", False)


class RunModule(t.Protocol):
    """What the fixture run_module gives."""

    def __call__(
        self,
        main: t.Callable[[], None],
        params: dict[str, t.Any],
        check: bool = False,
        diff: bool = False,
    ) -> dict[str, t.Any]:
        """The result of the module, as Ansible would receive it."""


def error_messages(result: dict[str, t.Any]) -> list[str]:
    """What a module that failed says, one message for each error."""
    return [error["message"] for error in result["errors"]]


@pytest.fixture
def run_module(capsys: pytest.CaptureFixture[str]) -> RunModule:
    """Run a module's main() in this process and return the JSON that Ansible would receive.

    The real exit_json and fail_json run, so the result has been serialised as in production; a
    failed module's result has `failed` set. An exception that the module does not turn into a
    result is a failure of the test, and so is a result that the module's RETURN does not document.
    """

    def run(
        main: t.Callable[[], None],
        params: dict[str, t.Any],
        check: bool = False,
        diff: bool = False,
    ) -> dict[str, t.Any]:
        capsys.readouterr()
        _forget_warnings()
        flags = {"_ansible_check_mode": check, "_ansible_diff": diff}
        with _module_arguments({**params, **flags}), pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr().out.strip().splitlines()
        result: dict[str, t.Any] = json.loads(output[-1])
        assert bool(result.get("failed")) == bool(ended.value.code), result
        if ".plugins.modules." in main.__module__:
            assert not undocumented(result, main.__globals__["RETURN"])
        return result

    return run


@pytest.fixture(scope="module")
def modules_in_process() -> t.Iterator[None]:
    """Playbooks run modules in forks of ansible-playbook."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in FORKS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def _warm_program(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Path]:
    """An ansible-playbook that has loaded Ansible and the client library."""
    with warm_playbook(
        tmp_path_factory.mktemp("warm"), {**os.environ, **ALL_IN_PROCESS}
    ) as program:
        yield program


@pytest.fixture(scope="module")
def plays_in_forks(_warm_program: Path) -> t.Iterator[None]:
    """Playbooks are forks of one ansible-playbook, and run tasks in their process and modules in forks."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ALL_IN_PROCESS.items():
            patch.setenv(name, value)
        patch.setenv("PATH", str(_warm_program.parent), prepend=os.pathsep)
        yield


@pytest.fixture
def own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ansible-playbook begins anew, and has forks for tasks and modules: for a test of signals, of what is printed
    meanwhile, or of the order of sets."""
    for name, value in FORKS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(BIN), prepend=os.pathsep)


@pytest.fixture(scope="module", autouse=True)
def _modules_of_playbooks(request: pytest.FixtureRequest) -> None:
    """Before the other fixtures of a file, which may run playbooks."""
    suite, node = request.path.parent.name, request.node
    if node.get_closest_marker("packaged_modules"):
        return
    if suite in ("jobs", "integration", "modules"):
        request.getfixturevalue("plays_in_forks")
    elif suite == "real":
        request.getfixturevalue("modules_in_process")


@pytest.fixture(autouse=True)
def _packaged_modules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test with the mark, in a file without it."""
    if request.node.get_closest_marker("packaged_modules"):
        for name in FORKS:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PATH", str(BIN), prepend=os.pathsep)


def _module_arguments(arguments: dict[str, t.Any]) -> contextlib.AbstractContextManager[t.Any]:
    try:
        from ansible.module_utils.testing import patch_module_args
    except ImportError:  # ansible-core 2.16 to 2.18
        from ansible.module_utils import basic

        encoded = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
        return mock.patch.object(basic, "_ANSIBLE_ARGS", encoded)
    return t.cast("contextlib.AbstractContextManager[t.Any]", patch_module_args(arguments))


def _forget_warnings() -> None:
    """Warnings gather in the process; in production each module run is a process of its own."""
    from ansible.module_utils.common import warnings

    for name in ("_global_warnings", "_global_deprecations"):
        gathered = getattr(warnings, name)
        gathered.clear()
