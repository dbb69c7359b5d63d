# SPDX-License-Identifier: Apache-2.0
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build run test test-host test-kernel-long lint format kernel kernel-debug kernel-deb
.PHONY: bench-models bench-kernel scorecard clean

export VIRTUAL_ENV := $(CURDIR)/.venv
# Tests start hundreds of processes. Without stored bytecode, each of them would compile the whole
# Python package again.
unexport PYTHONDONTWRITEBYTECODE
# Set to the same value for every build: where it changes, cargo runs the build scripts again and
# rebuilds everything that depends on them.
export CACHEPILOT_REQUIRE_BPF := 1
# The extension has its own target directory. Cargo stores a crate with a cdylib in one place
# whatever its features, so in a shared directory the builds of the extension and of the agent would
# replace each other's models and compile them again every time.
EXTENSION_TARGET := target/extension

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Install what is missing and build .venv/bin/cachepilot, the agent and build/bpf
	@scripts/setup dev
	@.venv/bin/python scripts/build_proto.py
	@scripts/build_dashboard.py
	@echo "==> building the extension (release)"
	@.venv/bin/maturin develop --release --locked --target-dir $(EXTENSION_TARGET)
	@echo "==> building the agent and the policies for the kernel: build/bpf"
	@scripts/build_agent.py

run: build ## Show the autopilot: on a real kernel with NODE=vm, draining nodes with CONSOLIDATE=1: build/run
	@NODE="$(NODE)" CONSOLIDATE="$(CONSOLIDATE)" scripts/run $(ARGS)

test: ## Lint, then the tests of every language
	@scripts/setup kernel
	@mkdir -p build
	@echo "==> building the kernels of the virtual machine in the background: build/kernel.log"
	@scripts/beside build/kernel.log $(MAKE) --no-print-directory kernel -- \
		$(MAKE) --no-print-directory test-host
	@echo "==> pytest: the kernel, in two virtual machines at a time"
	@.venv/bin/python -m pytest tests/kernel --numprocesses 2 --dist loadscope

# All tests except those that run in a virtual machine. It also builds the program that those tests
# run in the guest.
test-host: build
	@scripts/lint
	@echo "==> cargo test"
	@cargo test --locked --workspace
	@echo "==> policies under AddressSanitizer and UndefinedBehaviorSanitizer"
	@scripts/sanitize
	@echo "==> the program that tests the kernel"
	@cargo build --release --locked -p cachepilot-kernel-tests
	@echo "==> pytest: the controller, on all processors"
	@.venv/bin/python -m pytest controller/tests --numprocesses auto --dist worksteal
	@echo "==> pytest: several components together, on all processors"
	@.venv/bin/python -m pytest tests --ignore tests/kernel --numprocesses auto --dist worksteal

test-kernel-long: build kernel ## The tests in the virtual machine that take minutes
	@cargo build --release --locked -p cachepilot-kernel-tests
	@.venv/bin/python -m pytest -m long tests/kernel

lint: ## Lint and check the format of every language
	@scripts/setup dev
	@.venv/bin/python scripts/build_proto.py
	@scripts/build_dashboard.py --packages
	@scripts/lint

format: ## Format every language in place
	@scripts/setup dev
	@scripts/build_dashboard.py --packages
	@scripts/format

kernel: ## Build the patched kernel and unpack Debian's for the virtual machine, unless the cache has them
	@scripts/setup kernel
	@kernel/build patched
	@kernel/build debian

kernel-debug: ## Build the patched kernel with KASAN, lockdep and the other checks
	@scripts/setup kernel
	@kernel/build debug

kernel-deb: ## Build Debian packages of the patched kernel, CONFIG=FILE: docs/operating/kernel.md
	@scripts/setup kernel
	@CONFIG="$(CONFIG)" kernel/build-deb

bench-models: build ## Compare simulators and curves with libcachesim: experiments/models_vs_libcachesim
	@scripts/setup bench
	@experiments/models_vs_libcachesim/run

bench-kernel: build kernel ## Measure policies and the patched kernel in a virtual machine: experiments/kernel_*
	@kernel/build counted-stock
	@kernel/build counted
	@kernel/build scaling
	@experiments/conformance/run
	@experiments/kernel_overhead/run
	@experiments/kernel_policies/run
	@experiments/kernel_scaling/run

scorecard: build ## Print every result in experiments/, first those that miss their goal
	@.venv/bin/cachepilot scorecard

clean: ## Remove everything that the build made
	rm -rf target build dist .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find controller tests -name __pycache__ -prune -exec rm -rf {} +
	rm -rf controller/dashboard/node_modules controller/cachepilot/dashboard
	rm -f controller/cachepilot/_models*.so
