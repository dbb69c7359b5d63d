# SPDX-License-Identifier: Apache-2.0
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build run test lint format bench-models scorecard clean

export VIRTUAL_ENV := $(CURDIR)/.venv

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Install what is missing and build the command .venv/bin/cachepilot
	@scripts/setup dev
	@echo "==> building the extension (release)"
	@.venv/bin/maturin develop --release --locked

run: build ## Simulate every policy on a recorded trace: a table and build/run/mrc.svg
	@scripts/run

test: build ## Lint, then the tests of every language
	@scripts/lint
	@echo "==> cargo test"
	@cargo test --locked --workspace
	@echo "==> policies under AddressSanitizer and UndefinedBehaviorSanitizer"
	@scripts/sanitize
	@echo "==> pytest"
	@.venv/bin/python -m pytest

lint: ## Lint and check the format of every language
	@scripts/setup dev
	@scripts/lint

format: ## Format every language in place
	@scripts/setup dev
	@scripts/format

bench-models: build ## Compare simulators and curves with libcachesim: experiments/models_vs_libcachesim
	@scripts/setup bench
	@experiments/models_vs_libcachesim/run

scorecard: build ## Print every result in experiments/, those short of their goal first
	@.venv/bin/cachepilot scorecard

clean: ## Remove everything that the build made
	rm -rf target build dist .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find controller tests -name __pycache__ -prune -exec rm -rf {} +
	rm -f controller/cachepilot/_models*.so
