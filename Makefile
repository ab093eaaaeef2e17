# Two commands from a bare machine: `make demo` and `make test`. Both make .venv first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One process of tests for each core, up to four; a file's tests stay in one process.
BESIDE := -n auto --maxprocesses 4 --dist loadfile
STAMP := $(VENV)/.installed

.PHONY: help demo test check fast engine setup clean

help:  ## Say what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | column -t -s $$'\t'

setup: $(STAMP)  ## Make .venv and install what is missing

$(STAMP): pyproject.toml .ci/setup
	PYTHON=$(PYTHON) VENV=$(VENV) bash .ci/setup
	@touch $@

demo: setup  ## Eight updates on a 135M model, measured before and after (about nine minutes)
	$(BIN)/clawrl train recipe=demo

test: setup check fast engine  ## Everything that CI runs

check: setup  ## Lint, format, types, imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

fast: setup  ## Tests without an engine
	OMP_NUM_THREADS=1 $(BIN)/pytest -q $(BESIDE) -m "not engine and not slow"

engine: setup  ## Tests with the real vLLM and real processes
	$(BIN)/pytest -q -m "engine or slow"

clean:  ## Remove .venv
	rm -rf $(VENV)
