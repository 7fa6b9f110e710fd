# One command each: what is missing is installed first (vagrant/provision.sh), a set-up that is complete costs a fraction of a second.
SHELL := /bin/bash
.DEFAULT_GOAL := help

TESTBED_VENV ?= .venv
export TESTBED_VENV := $(abspath $(TESTBED_VENV))
# an ordinary user's PATH lacks the folders where Open vSwitch, tc and nft live
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
PYTHON := $(TESTBED_VENV)/bin/python
# a thousand processes of the tests import the same modules: what they are compiled to is kept, whatever the user's shell says
unexport PYTHONDONTWRITEBYTECODE
# two more than there are processors: many tests wait, for a listener, a network or a time limit
WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 2)))

.PHONY: help demo test test-next-numba kernels bench lint docs mutants soak setup clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/make \1\t\2/p' Makefile | expand -t 24

demo:  ## set up, then a coded stream over capillary routes with links failing (ARGS='--quick')
	@vagrant/provision.sh
	@$(TESTBED_VENV)/bin/testbed demo $(ARGS)

# Whatever depends on the clock of real switches runs after the rest, beside nothing that computes: most of it waits. A selection (ARGS='-k capillary')
# may leave one of the two parts without tests (pytest's exit code 5), not both. What fails beside others is tried once more by itself: a
# time limit says little where more runs than there are processors; both outcomes are printed. Programs that only some tests need are
# installed where that is possible; where not, the set-up says so, and pytest lists the tests that are skipped for it.
define TESTS
	$(PYTHON) -m pytest -r fEs $(1) --dist loadfile --no-loadscope-reorder -m "$(2)" $(ARGS) || $(3)=$$?; \
	if [ $$$(3) -eq 1 ]; then echo "What failed beside others runs once more, alone; this counts:"; \
	    $(PYTHON) -m pytest -r fEs --last-failed -m "$(2)" $(ARGS) && $(3)=0; fi
endef

# Without gcc, numba alone compiles, which makes each later command half a second slower. Files that are up to date stay.
COMPILE = $(PYTHON) tools/build_kernels.py; $(TESTBED_VENV)/bin/testbed doctor --compile

# Compile the tests once, in a new clone: otherwise each of the workers compiles all of them.
COLLECT = $(PYTHON) -m pytest --collect-only -qq $(1) > /dev/null

test:  ## set up, then all tests (ARGS='-k capillary' for some)
	@vagrant/provision.sh --extras test,mpi,docs --programs chromium,ffmpeg,gcc,shellcheck,tshark
	@$(COMPILE) > /dev/null || echo "compiling ahead has failed: every worker compiles what it needs"
	@[ -d tests/__pycache__ ] || { $(call COLLECT,tests/testbed) & $(call COLLECT,$(filter-out tests/testbed/,$(wildcard tests/*/))); wait; }
	@parallel=0; clocked=0; \
	$(call TESTS,-n $(WORKERS),not emulation or unclocked,parallel); \
	$(call TESTS,-n $(WORKERS),emulation and not unclocked,clocked); \
	if [ $$parallel -eq 5 ] && [ $$clocked -eq 5 ]; then exit 5; fi; \
	[[ $$parallel =~ ^[05]$$ && $$clocked =~ ^[05]$$ ]]

# Beside the environment, which keeps its own version; what the newer one compiles is kept apart, too.
test-next-numba:  ## set up, then the tests of compiled code with the newest numba (docs/dev/compile.md)
	@vagrant/provision.sh --extras test
	@$(PYTHON) -m pip install -q --disable-pip-version-check --no-deps --pre --upgrade --target build/next-numba numba llvmlite
	@PYTHONPATH=build/next-numba TESTBED_KERNELS=numba NUMBA_CACHE_DIR=build/next-numba-cache $(PYTHON) -m pytest -r fEs $(ARGS) \
	    tests/testbed/test_jit.py tests/fec/test_compile_cache.py tests/testbed/interconnect/test_simulator_engines_agree.py \
	    tests/testbed/interconnect/test_tables_for_the_compiler.py tests/testbed/interconnect/test_exhaustive_nac.py \
	    tests/testbed/routing/capillary tests/testbed/scheduling/fast

kernels:  ## set up, then compile what Python calls into a library (gcc; docs/dev/compile.md)
	@vagrant/provision.sh --programs gcc
	@$(PYTHON) tools/build_kernels.py

bench:  ## set up, then every benchmark, one table each
	@vagrant/provision.sh --extras bench,mpi
	@for benchmark in $(sort $(wildcard benchmarks/bench_*.py benchmarks/*/bench_*.py)); do \
	    echo "== $$benchmark"; $(PYTHON) "$$benchmark" $(ARGS) || exit 1; \
	done

lint:  ## set up, then ruff, mypy (strict), import-linter; shellcheck where installed
	@vagrant/provision.sh --extras lint
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) tools/check_plain_code.py
	@$(PYTHON) -m mypy
	@$(PYTHON) -m mypy tools $(dir $(wildcard plugins/*/testbed_*/__init__.py))
	@$(TESTBED_VENV)/bin/lint-imports
	@if command -v shellcheck >/dev/null; then shellcheck vagrant/provision.sh .ci/run; else echo "shellcheck is not installed: scripts not checked"; fi

docs:  ## set up, then the site of all pages in build/docs (a warning or a link that leads nowhere is an error), and `man testbed`
	@vagrant/provision.sh --extras docs
	@$(PYTHON) -m sphinx -W --keep-going -q -b html docs build/docs
	@$(PYTHON) -m sphinx -q -b man -t man -d build/man docs $(TESTBED_VENV)/share/man/man1
	@echo "build/docs/index.html; man testbed, where $(TESTBED_VENV)/bin is on the PATH"

mutants:  ## set up, then mutation tests: does a mistake in the code break a test? (ARGS='--package fec --most 60')
	@vagrant/provision.sh --extras test,mutants
	@$(PYTHON) -m tests.mutants $(ARGS)

soak:  ## set up, then 1 000 drawn simulator runs (SOAK_FIRST=700: from there on); ten times the drawn examples; the dearest cases; poor networks between machines; striped files by a model, by histories, and by an hour of mutated messages (SOAK_S=60: a minute)
	@vagrant/provision.sh --extras test,clusters
	@export TESTBED_SOAK=1 SIMULATOR_FIRST=$(or $(SOAK_FIRST),0) SIMULATOR_CONFIGURATIONS=$(or $(SOAK_RUNS),1000) SIMULATOR_MESSAGES=4000 \
	    SFIO_MODEL_STEPS=100000 SFIO_RACES=300 SFIO_HISTORY_CALLS=20000 SFIO_SOAK_S=$(or $(SOAK_S),3600) SFIO_FUZZ_MESSAGES=250000; \
	$(PYTHON) -m pytest -n $(WORKERS) --timeout 0 -m "(scaled or hypothesis or long) and not soak" && $(PYTHON) -m pytest -s --timeout 0 -m soak

setup:  ## only set up, and compile ahead what is compiled at first use
	@vagrant/provision.sh
	@$(COMPILE)

clean:  ## remove the virtual environment and caches; results/ stays
	rm -rf .venv build dist fec/kernels-* *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
