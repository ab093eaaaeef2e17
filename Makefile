# Two commands from a bare machine: `make demo` and `make test`. Both make .venv first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One process of tests for each core. tests/conftest.py says which tests stay in one process; the
# longest come first.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto --dist loadgroup --no-loadscope-reorder
STAMP := $(VENV)/.installed

.PHONY: help demo test check fast engine clients setup clean browser

help:  ## Say what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | column -t -s $$'\t'

setup: $(STAMP)  ## Make .venv and install what is missing

$(STAMP): pyproject.toml .ci/setup
	PYTHON=$(PYTHON) VENV=$(VENV) bash .ci/setup
	@touch $@

demo: setup  ## Eight updates on a 135M model, measured before and after (about nine minutes)
	$(BIN)/clawrl train recipe=demo

test: setup browser check fast engine  ## Everything that CI runs
	$(MAKE) clients CLIENTS=pypi

check: setup  ## Lint, format, types, imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

fast: setup  ## Tests without an engine
	$(PYTEST) --maxprocesses 4 -m "not engine and not slow"

# One after another: two engines at once starve one another on two cores.
engine: setup  ## Tests with the real vLLM and real processes
	$(BIN)/pytest -q -m "engine or slow"

browser:  ## A Chromium for the tests of the page, where apt can bring one
	bash .ci/browser

clients: setup  ## Stock clients, unmodified, talk to the gateway (CLIENTS=pypi: a minute's worth)
	VENV=$(VENV) bash .ci/clients $(CLIENTS)
	$(BIN)/pytest -q -rs -m clients tests/clients \
		$(if $(filter pypi,$(CLIENTS)),-k "scripted and (openai or llm or mini)")

clean:  ## Remove .venv
	rm -rf $(VENV)
