# Everything runs in one .venv, made from nothing but python3, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo demo-web test browser check lint format bench torture clean

help:
	@echo "make demo     four stories against running servers: client, wallet, 50 rounds with faults, a certification"
	@echo "make demo-web the control room in the browser, with a wallet to play against, until Ctrl-C"
	@echo "make test     all tests"
	@echo "make check    what a change must pass: format, lint, types, import contracts, tests"
	@echo "make format   write the format that check asks for"
	@echo "make bench    speed, side by side with the peers"
	@echo "make torture  what takes too long for make check: more examples, Python 3.12 and 3.13, the fuzzer"
	@echo "make clean    remove what the other targets made"

demo: $(VENV)/runtime
	@$(BIN)/game-operator demo

demo-web: $(VENV)/runtime
	@$(BIN)/game-operator demo --web

test: $(VENV)/dev browser
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not torture"

browser:
	@tools/install-test-commands.sh

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

# Prerequisites run in this order; pytest's summary is the last line.
check: lint test

format: $(VENV)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks

torture: $(VENV)/dev $(VENV)/fuzz browser
	$(BIN)/python tools/torture.py

clean:
	rm -rf $(VENV) .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "game-operator needs Python 3.11 or newer; name one with make PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet "pip>=25.1"
	@touch $@

$(VENV)/runtime: $(VENV)/made pyproject.toml constraints.txt
	@echo "installing game-operator into $(VENV) …"
	@$(PIP) install --quiet --constraint constraints.txt --editable ".[cli,sandbox,serve]"
	@touch $@

$(VENV)/dev: $(VENV)/made pyproject.toml constraints.txt
	@echo "installing game-operator and its tools into $(VENV) …"
	@$(PIP) install --quiet --constraint constraints.txt --editable ".[all]" --group dev
	@touch $@ $(VENV)/runtime

$(VENV)/fuzz: $(VENV)/dev
	@$(PIP) install --quiet --constraint constraints.txt --group fuzz
	@touch $@
