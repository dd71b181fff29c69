# Each verb works on a fresh clone and says in one line what it is doing.
# The tools live in a cache outside the checkout (dev/prepare.py); `make clean` leaves that alone.

.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
RELEASE ?= $(VIRT_PLACEMENT_RELEASE)
NODES ?=
ZONES ?=
SYSTEM ?= kubevirt
CASES ?= tests/conformance/cases
SHARE =
CLUSTERS ?= 50
VMS ?= 67
RUN := .venv/bin/python

# Nothing here may reach a cluster that it did not start: no inherited credentials, and an empty
# file in place of ~/.kube/config.
export KUBECONFIG := /dev/null
$(foreach name,$(filter K8S_AUTH_%,$(.VARIABLES)),$(eval unexport $(name)))
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/build/collections:$(CURDIR)/build/dependencies:$(CURDIR)/build/controller
export ANSIBLE_HOME := $(CURDIR)/build/ansible
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHONUNBUFFERED := 1
# The pair of Kubernetes and KubeVirt that sandboxes run (sandbox/releases.py)
export VIRT_PLACEMENT_RELEASE := $(RELEASE)

.PHONY: help
help: ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile

.PHONY: prepare
prepare: ## install what the other verbs need
	@"$(PYTHON)" dev/prepare.py

.PHONY: prepare-python
prepare-python:
	@"$(PYTHON)" dev/prepare.py --only python

.PHONY: demo
demo: prepare ## run the main job on a sandbox and assert each step (SYSTEM=kubevirt|openshift|eks|harvester|tkg, RELEASE=, NODES=real: with guests that run)
	@echo "demo: the playbooks against the system '$(if $(NODES),$(NODES),$(SYSTEM))' on a control plane of its own"
	@$(RUN) -m demos "$(if $(NODES),$(NODES),$(SYSTEM))"

.PHONY: test
test: prepare ## everything CI runs: lint, sanity, units, conformance, cluster tests, molecule (SHARE=1: all, whatever the machine; 0.1: a tenth of the test files)
	@echo "test: every suite, or the share of the test files that this machine has time for"
	@$(RUN) -m dev.test $(if $(SHARE),--share "$(SHARE)")

.PHONY: releases
releases: prepare-python ## the tour of tests on each pair of Kubernetes and KubeVirt (RELEASE=1.31+1.6: on one)
	@echo "releases: the tour on each pair of sandbox/releases.py"
	@$(RUN) -m dev.releases

.PHONY: faults
faults: prepare ## the full fault sweeps
	@echo "faults: every write cut off at every point, against the sandbox"
	@PLACEMENT_EVERY_WRITE=1 $(RUN) -m pytest tests/faults tests/unit/maintenance/test_kills.py

.PHONY: sweeps
sweeps: prepare ## the slow tests that `test` leaves out
	@echo "sweeps: the tests with the mark sweep"
	@$(RUN) -m pytest -m sweep tests/modules tests/forecasts tests/integration tests/jobs

.PHONY: real
real: prepare ## rules, rollouts, drains and losses with real nodes and guests that run, as root
	@echo "real: three real nodes, and guests that count while they are migrated"
	@$(RUN) -m pytest tests/real

.PHONY: forecasts
forecasts: prepare ## random clusters forecast and played, in full (CLUSTERS=50, VMS=67: 200 VMs)
	@echo "forecasts: $(CLUSTERS) clusters and $(VMS) drains and fleets of VMs by chance, on a real scheduler"
	@PLACEMENT_RANDOM_CLUSTERS="$(CLUSTERS)" PLACEMENT_RANDOM_VMS="$(VMS)" $(RUN) -m pytest \
		tests/forecasts/test_forecast_against_scheduler.py tests/forecasts/test_forecast_of_vms.py \
		tests/forecasts/test_claims_against_scheduler.py tests/forecasts/test_budgets_against_scheduler.py \
		tests/forecasts/test_capacity_against_scheduler.py

.PHONY: conformance
conformance: prepare-python ## the engine against recorded scheduler verdicts (CASES=dir)
	@echo "conformance: the engine against every file in $(CASES)"
	@$(RUN) -m tests.conformance "$(CASES)"

.PHONY: bench
bench: prepare ## time the modules and the engine beside their peers
	@echo "bench: modules and engine beside their peers, to build/bench.json"
	@$(RUN) -m tests.bench

.PHONY: sandbox-up
sandbox-up: prepare ## start a control plane to play with (RELEASE=1.31+1.6, NODES=real: with guests that run, ZONES=3)
	@echo "sandbox-up: a control plane on loopback"
	@$(RUN) -m sandbox up $(if $(NODES),--nodes "$(NODES)") $(if $(ZONES),--zones "$(ZONES)")
	@echo "export ANSIBLE_COLLECTIONS_PATH='$(ANSIBLE_COLLECTIONS_PATH)'"
	@echo 'export PATH="$(CURDIR)/build/bin:$(CURDIR)/.venv/bin:$$PATH"'

.PHONY: sandbox-down
sandbox-down: prepare-python ## stop it
	@echo "sandbox-down: stopping the control plane"
	@$(RUN) -m sandbox down

.PHONY: format
format: prepare-python ## let ruff write the layout
	@echo "format: ruff sorts imports and lays out the code"
	@$(RUN) -m ruff check --fix --select I --quiet .
	@$(RUN) -m ruff format .

.PHONY: lint
lint: prepare-python ## ruff, mypy, yamllint, ansible-lint, antsibull
	@echo "lint: code, YAML, roles, documentation and changelog"
	@$(RUN) -m dev.lint

.PHONY: sanity
sanity: prepare-python ## ansible-test sanity on each supported ansible-core
	@echo "sanity: ansible-test on each supported ansible-core"
	@$(RUN) -m dev.sanity

.PHONY: unit
unit: prepare-python ## tests/unit on the oldest ansible-core, what depends on Ansible on each
	@echo "unit: tests/unit on the oldest ansible-core, what depends on Ansible on each"
	@$(RUN) -m dev.unit_matrix

.PHONY: docs
docs: prepare-python ## build the documentation site in build/docs/html
	@echo "docs: the documentation site, by antsibull-docs and Sphinx"
	@$(RUN) -m dev.docs

.PHONY: clean
clean: ## remove what the verbs left in the checkout
	@echo "clean: removing build/, .venv and tool caches from the checkout"
	@rm -rf build .venv .ansible .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
