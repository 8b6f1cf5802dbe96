# Each target sets up what it needs by itself; all are safe to run again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Even where the environment forbids it: without bytecode each of the processes that tests start parses 800 modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo notebooks test collect test-oldest-numba warm fuzz mutate figures audit lint format bench pictures docs gpu-test opencl-matrix opencl-check clean

demo: warm
	$(BIN)/roadbed demo -o out --force

# Two processes more than cores, as some wait for others. A file's tests stay in one process, so that what they share is
# made once; the longest files begin first (tests/conftest.py).
WORKERS ?= $$(( $$(nproc) + 2 ))
test: .stamps/dev .stamps/system .stamps/ros .stamps/dds warm
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 20

# Every test file imports; the bytecode that pytest keeps is not made again by each process of a test run.
collect: .stamps/dev
	$(BIN)/python -m pytest --collect-only -qq > /dev/null

# The kernels with the oldest Numba that pyproject.toml allows, in an environment of its own.
OLDEST := .venv-oldest-numba
test-oldest-numba: .stamps/oldest-numba
	$(OLDEST)/bin/python -m pytest tests/kernels/test_simd.py tests/kernels/test_simd_reductions.py tests/kernels/test_scratch.py

.stamps/oldest-numba: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -e . \
		"numba==$$(sed -n 's/.*"numba>=\([0-9.]*\).*/\1.*/p' pyproject.toml)" pytest hypothesis
	@mkdir -p .stamps && touch $@

# Everything is compiled right after the installation, on all cores, so that what comes next starts at once.
warm: .stamps/roadbed
	$(BIN)/roadbed warm-up

# Damaged and made-up input for every reader, in a process with limits; what it finds is kept in out/fuzz.
SECONDS ?= 60
SEED ?= 0
fuzz: .stamps/dev
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED)

# Changes made to the code on purpose, one at a time, in a copy: does a test turn red? Goes on where it stopped.
MINUTES ?= 600
JOBS ?= $(shell nproc)
mutate: .stamps/dev .stamps/system
	$(BIN)/python -m tests.mutate --minutes $(MINUTES) --jobs $(JOBS)

# The installed versions against public advisories; needs a network. The extra cuda is not installed, so it is resolved.
audit: .stamps/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip setuptools pip-audit
	$(BIN)/pip-audit --local --strict --skip-editable
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['cuda'], sep='\n')" > .stamps/cuda.txt
	$(BIN)/pip-audit --strict --requirement .stamps/cuda.txt

# Every figure of README and docs printed again: ends with 1 where a text says something else. Without --idle and --slow
# times and what takes long are only listed: make figures FIGURES="--idle --slow"
FIGURES ?=
figures: .stamps/dev
	$(BIN)/python scripts/figures.py $(FIGURES)

lint: .stamps/dev
	$(BIN)/ruff check src tests scripts examples benchmarks
	$(BIN)/ruff format --check src tests scripts examples benchmarks
	$(BIN)/mypy

format: .stamps/dev
	$(BIN)/ruff check --fix src tests scripts examples benchmarks
	$(BIN)/ruff format src tests scripts examples benchmarks

# On a CUDA machine: tests on every accelerator and the benchmark, into docs/benchmarks-gpu.json. Without a network, give
# a Python that has the dependencies: make gpu-test GPU_PYTHON=python3 [SCAN=drive/000000.bin]
GPU_PYTHON ?=
gpu-test: $(if $(GPU_PYTHON),,.stamps/cuda)
	PYTHONPATH=src:.:$(PYTHONPATH) $(or $(GPU_PYTHON),$(BIN)/python) scripts/gpu_test.py $(if $(SCAN),--scan $(SCAN))

.stamps/cuda: .stamps/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[cuda]'
	@touch $@

# Every OpenCL driver of this machine and (x86_64) Intel's against the CPU, then every kernel under Oclgrind, which must be
# installed. As root, DEBIAN=trixie: the drivers of that Debian, in a chroot.
DEBIAN ?=
INTEL := .venv-intel-opencl
opencl-matrix: $(if $(DEBIAN),,.stamps/dev .stamps/system $(if $(filter x86_64,$(shell uname -m)),.stamps/intel-opencl))
ifneq ($(DEBIAN),)
	bash scripts/opencl-matrix-in-debian.sh $(DEBIAN)
else
	$(BIN)/python scripts/opencl_matrix.py --single
	test ! -d $(INTEL) || OCL_ICD_VENDORS=$(abspath $(INTEL)) LD_LIBRARY_PATH=$(INTEL)/lib $(BIN)/python scripts/opencl_matrix.py
	$(BIN)/python scripts/opencl_grind.py
endif

# Drivers of Debian that no test needs: rusticl against the CPU, and kernels under Oclgrind without those of the
# occupancy for GPUs, which take longer there than all others together.
opencl-check: warm .stamps/opencl-check
	$(BIN)/python scripts/opencl_matrix.py --only rusticl --source 'sim:city?sensor=vlp16&frames=3'
	$(BIN)/python scripts/opencl_grind.py --kinds cpu
	$(BIN)/python scripts/opencl_grind.py --kinds gpu --stages variance ground

.stamps/opencl-check: scripts/install-system-parts.sh
	bash scripts/install-system-parts.sh oclgrind mesa-opencl-icd
	@mkdir -p .stamps && touch $@

.stamps/intel-opencl:
	$(PYTHON) -m venv $(INTEL)
	$(INTEL)/bin/python -m pip install --quiet --disable-pip-version-check intel-opencl-rt intel-cmplr-lib-rt
	echo $(abspath $(INTEL))/lib/libintelocl.so > $(INTEL)/intel-cpu.icd
	@mkdir -p .stamps && touch $@

pictures: .stamps/dev .stamps/system
	$(BIN)/python scripts/make_pictures.py $(if $(KITTI),--kitti $(KITTI))

# The notebooks with their results, as code hosts show them.
notebooks: .stamps/dev
	$(BIN)/python scripts/run_notebooks.py

# The documentation as a site of plain files: out/site/index.html. Links are checked, nothing comes from other hosts.
docs: .stamps/dev
	$(BIN)/python scripts/api_reference.py --check
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/python scripts/check_site.py out/site

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Roadbed needs Python 3.11 or later, found " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

.stamps/roadbed: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[io,view]'
	@mkdir -p .stamps && touch $@

.stamps/dev: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	@mkdir -p .stamps && touch $@ .stamps/roadbed

.stamps/system: scripts/install-system-parts.sh
	bash scripts/install-system-parts.sh
	@mkdir -p .stamps && touch $@

# Roadbed beside the system's rospy, for `roadbed ros1`.
.stamps/ros: pyproject.toml .stamps/system scripts/make-ros-environment.sh
	bash scripts/make-ros-environment.sh .venv-ros
	@touch $@

# Cyclone DDS for `roadbed ros2`, built for the system's library.
.stamps/dds: .stamps/dev .stamps/system scripts/install-cyclonedds.sh
	bash scripts/install-cyclonedds.sh $(BIN)/python
	@touch $@

clean:
	rm -rf $(VENV) .venv-ros $(OLDEST) $(INTEL) .stamps out build dist
