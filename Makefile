# make run | make test | make setup    options: GPU=auto|0|1  CUDA=12|13  WHEELS=folder  PYTHON=python3.12  ARGS="what snakemake shall be told"
# make lock writes the lock files anew (UPGRADE=--upgrade takes newer versions)

PYTHON ?= python3
GPU ?= auto
CUDA ?=
WHEELS ?=
ARGS ?=
UPGRADE ?=

# the Python below an activated .venv, not .venv's own
export PATH := $(patsubst $(CURDIR)/.venv/bin:%,%,$(PATH))
SETUP = $(PYTHON) -E tools/setup.py --gpu "$(GPU)" --cuda "$(CUDA)" --wheels "$(WHEELS)"

.PHONY: run test setup setup-test lock

run: setup
	. .venv/bin/activate && snakemake --cores 1 $(ARGS)

test: setup-test
	. .venv/bin/activate && python -m pytest -n 2 --dist loadfile

setup:
	@$(SETUP)

setup-test:
	@$(SETUP) --test

# gpu and base take the versions of test, so that any of them can be installed together
lock:
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && \
	$(PYTHON) -m venv "$$tools" && "$$tools/bin/pip" install --quiet uv && \
	compile() { "$$tools/bin/uv" --quiet pip compile pyproject.toml --no-config --universal --python-version 3.11 \
		--generate-hashes --no-annotate --custom-compile-command "make lock" $(UPGRADE) "$$@"; } && \
	compile --extra gpu12 --extra test -o requirements/all.tmp && \
	compile --extra test -c requirements/all.tmp -o requirements/test.lock && \
	compile -c requirements/all.tmp -o requirements/base.lock && \
	compile --extra nvrtc -c requirements/all.tmp -o requirements/nvrtc.lock && \
	compile --extra gpu12 -c requirements/all.tmp -o requirements/gpu12.lock && \
	compile --extra gpu13 -c requirements/test.lock -o requirements/gpu13.lock; \
	status=$$?; rm -f requirements/all.tmp; exit $$status
