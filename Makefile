# Each target sets up what it needs by itself; all are safe to run again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test warm fuzz lint format bench pictures docs gpu-test clean

demo: warm
	$(BIN)/roadbed demo -o out --force

test: .stamps/dev .stamps/system warm
	$(BIN)/python -m pytest

# Everything is compiled right after the installation, on all cores, so that what comes next starts at once.
warm: .stamps/roadbed
	$(BIN)/roadbed warm-up

# Damaged and made-up input for every reader, in a process with limits; what it finds is kept in out/fuzz.
SECONDS ?= 60
SEED ?= 0
fuzz: .stamps/dev
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED)

lint: .stamps/dev
	$(BIN)/ruff check src tests scripts examples
	$(BIN)/ruff format --check src tests scripts examples
	$(BIN)/mypy

format: .stamps/dev
	$(BIN)/ruff check --fix src tests scripts examples
	$(BIN)/ruff format src tests scripts examples

# On a CUDA machine: tests on every accelerator and the benchmark, into docs/benchmarks-gpu.json. Without a network, give
# a Python that has the dependencies: make gpu-test GPU_PYTHON=python3 [SCAN=drive/000000.bin]
GPU_PYTHON ?=
gpu-test: $(if $(GPU_PYTHON),,.stamps/cuda)
	PYTHONPATH=src:$(PYTHONPATH) $(or $(GPU_PYTHON),$(BIN)/python) scripts/gpu_test.py $(if $(SCAN),--scan $(SCAN))

.stamps/cuda: .stamps/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cuda]'
	@touch $@

pictures: .stamps/dev .stamps/system
	$(BIN)/python scripts/make_pictures.py

# The documentation as a site of plain files: out/site/index.html. Links are checked, nothing comes from other hosts.
docs: .stamps/dev
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/python scripts/check_site.py out/site

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
