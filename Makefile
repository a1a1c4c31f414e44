# Everything runs in one .venv, made from nothing but python3, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo demo-web test test-fast browser check lint format bench torture lock clean

help:
	@echo "make demo     four parts against running servers: client, wallet, 50 rounds with faults, a certification"
	@echo "make demo-web the control room in the browser, with a wallet to play against, until Ctrl-C"
	@echo "make test     all tests"
	@echo "make test-fast the tests that start no process, server or browser and take no time"
	@echo "make check    what a change must pass: format, lint, types, import contracts, tests"
	@echo "make format   write the format that check asks for"
	@echo "make bench    speed, side by side with the peers"
	@echo "make torture  what takes too long for make check: more examples, Python 3.12 and 3.13, oldest versions, the fuzzer"
	@echo "make lock     write requirements/*.txt anew, after a change of pyproject.toml"
	@echo "make clean    remove what the other targets made"

demo: $(VENV)/runtime
	@$(BIN)/game-operator demo

demo-web: $(VENV)/runtime
	@$(BIN)/game-operator demo --web

test: $(VENV)/dev browser
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile --durations=50 -m "not torture"

test-fast: $(VENV)/dev
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal --fast tests

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
	@touch $@

# First the lock, whose hashes pip holds every file to; then the package alone, built by what the lock installed.
LOCKED := $(PIP) install --quiet --require-hashes --requirement
PACKAGE := $(PIP) install --quiet --no-deps --no-build-isolation --editable .

$(VENV)/runtime: $(VENV)/made pyproject.toml requirements/runtime.txt
	@echo "installing game-operator into $(VENV) …"
	@$(LOCKED) requirements/runtime.txt
	@$(PACKAGE)
	@touch $@

$(VENV)/dev: $(VENV)/made pyproject.toml requirements/dev.txt
	@echo "installing game-operator and its tools into $(VENV) …"
	@$(LOCKED) requirements/dev.txt
	@$(PACKAGE)
	@touch $@ $(VENV)/runtime

$(VENV)/fuzz: $(VENV)/dev requirements/fuzz.txt
	@$(LOCKED) requirements/fuzz.txt
	@touch $@

lock:
	@$(PYTHON) tools/lock.py $(UPGRADE)
