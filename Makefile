# Everything runs in one .venv, which needs only python3, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Else each process that a test starts compiles our modules anew, and each of pytest all its tests, where the
# environment says that Python writes no bytecode.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo demo-web test test-fast test-artefacts browser languages check lint format api bench torture site site-serve lock dist clean

help:
	@echo "make demo     a tour: the commands, lost settlements repaired, 50 rounds with faults, certification"
	@echo "make demo-web the control room in the browser, with a wallet to play against, until Ctrl-C"
	@echo "make test     behaviour, and smoke tests of what users read and install; of long tables, the cases that the seed draws"
	@echo "make test-fast of these, the quick tests which start no process, server or browser"
	@echo "make test-artefacts what users read and install: site, docs, examples, tutorials, packages, typing, public API, other languages"
	@echo "make check    all checks for a change: format, lint, types, import contracts, tests"
	@echo "make format   format the code as check requires"
	@echo "make api      what the public API breaks of the last release"
	@echo "make bench    measure speed beside other implementations"
	@echo "make torture  the long tests: more examples, other languages, Pythons, servers and dependencies, the fuzzer"
	@echo "make site     build the documentation into ./site"
	@echo "make site-serve the same, then serve it on this machine until Ctrl-C"
	@echo "make lock     rewrite requirements/*.txt after a change of a pyproject.toml"
	@echo "make dist     build the release of this commit, try it, and list what it brings along"
	@echo "make clean    remove everything that the other targets created"

demo: $(VENV)/runtime
	@$(BIN)/game-operator demo

demo-web: $(VENV)/runtime
	@$(BIN)/game-operator demo --web

# One process more than the two cores that we measure on, for some tests wait.
TESTS := $(BIN)/python tools/run_tests.py 3 -q -o console_output_style=classic

test: $(VENV)/dev browser
	@$(TESTS) --lane test --durations=10

# One process, for each further one imports and collects anew.
test-fast: $(VENV)/dev
	@$(BIN)/python -m pytest -q -o console_output_style=classic --lane fast

test-artefacts: $(VENV)/dev browser languages
	@$(TESTS) --lane artefacts --durations=10

browser:
	@tools/install-test-commands.sh

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

check: lint test

format: $(VENV)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# griffe reads the packages of both versions from git. It ends with 1 if it finds something.
LAST_RELEASE = $(shell git describe --tags --abbrev=0 --match='v*' HEAD^ 2>/dev/null)

api: $(VENV)/dev
ifeq ($(LAST_RELEASE),)
	@echo "There is no release yet, so nothing can break."
else
	@code=0; for each in "game_operator --search src" "game_operator_testkit --search testkit/src --search src"; do \
		$(BIN)/griffecli check $$each --against $(LAST_RELEASE) || code=1; \
	done; exit $$code
endif

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks

languages:
	@tools/install-languages.sh

torture: $(VENV)/dev $(VENV)/fuzz browser languages
	$(BIN)/python tools/torture.py

site: $(VENV)/dev
	@$(BIN)/python tools/site.py

site-serve: $(VENV)/dev
	@$(BIN)/python tools/site.py --serve

clean:
	rm -rf $(VENV) site .cache dist sbom .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "game-operator needs Python 3.11 or newer; name one with make PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# First the lock, whose hashes pip checks for every file. Then only our two packages, built with the locked tools.
LOCKED := $(PIP) install --quiet --require-hashes --requirement
PACKAGES := $(PIP) install --quiet --no-deps --no-build-isolation --editable . --editable ./testkit

$(VENV)/runtime: $(VENV)/made pyproject.toml testkit/pyproject.toml requirements/runtime.txt
	@echo "installing game-operator into $(VENV) …"
	@$(LOCKED) requirements/runtime.txt
	@$(PACKAGES)
	@touch $@

$(VENV)/dev: $(VENV)/made pyproject.toml testkit/pyproject.toml requirements/dev.txt
	@echo "installing game-operator and its tools into $(VENV) …"
	@$(LOCKED) requirements/dev.txt
	@$(PACKAGES)
	@touch $@ $(VENV)/runtime

$(VENV)/fuzz: $(VENV)/dev requirements/fuzz.txt
	@$(LOCKED) requirements/fuzz.txt
	@touch $@

$(VENV)/release/made: requirements/release.txt
	@$(PYTHON) -m venv $(VENV)/release
	@$(VENV)/release/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --requirement $<
	@touch $@

dist: $(VENV)/release/made
	@set -e; for step in build check sbom; do $(VENV)/release/bin/python tools/release.py $$step; done

# Each package that make installs, with the hashes of all its files, so that one lock fits every platform and every
# Python from 3.11 on. Versions stay as they are; `make lock UPGRADE=--upgrade` takes the newest. The other locks take
# theirs from the one for development, so that what is tested is what runs.
COMPILE = $(VENV)/lock/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-config --quiet \
	--custom-compile-command "make lock" $(UPGRADE)
TESTED := --constraints requirements/dev.txt
BOTH := pyproject.toml testkit/pyproject.toml --no-emit-package game-operator

lock:
	@$(PYTHON) -m venv $(VENV)/lock
	@$(VENV)/lock/bin/python -m pip install --quiet uv==0.13.9
	$(COMPILE) $(BOTH) --extra all --group dev --group build --output-file requirements/dev.txt
	$(COMPILE) $(BOTH) --extra serve --group build $(TESTED) --output-file requirements/runtime.txt
	$(COMPILE) pyproject.toml --extra all --no-emit-package game-operator $(TESTED) --output-file requirements/production.txt
	$(COMPILE) --group fuzz $(TESTED) --output-file requirements/fuzz.txt
	$(COMPILE) --group release --group build $(TESTED) --output-file requirements/release.txt
