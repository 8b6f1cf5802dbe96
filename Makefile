# Each target sets up what it needs by itself; all are safe to run again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint format bench pictures gpu-test clean

demo: .stamps/roadbed
	$(BIN)/roadbed demo -o out

test: .stamps/dev .stamps/system
	$(BIN)/python -m pytest

lint: .stamps/dev
	$(BIN)/ruff check src tests scripts examples
	$(BIN)/ruff format --check src tests scripts examples
	$(BIN)/mypy

format: .stamps/dev
	$(BIN)/ruff check --fix src tests scripts examples
	$(BIN)/ruff format src tests scripts examples

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Roadbed needs Python 3.11 or later, found " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

.stamps/roadbed: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@mkdir -p .stamps && touch $@

.stamps/dev: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@mkdir -p .stamps && touch $@ .stamps/roadbed

.stamps/system: scripts/install-system-parts.sh
	bash scripts/install-system-parts.sh
	@mkdir -p .stamps && touch $@

clean:
	rm -rf $(VENV) .stamps out build dist
