# `make help` lists the targets. Needs git, make, a C toolchain and any Python 3; the rest is fetched.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PY := .venv/bin/python
# Each variable that is set on the command line becomes the flag of its name; an unset one passes nothing.
FLAGS = $(call flags,AGENT ENV STEPS DIRECTORY SEED)
OFFLINE_FLAGS = $(call flags,STUDY DIRECTORY SEEDS)
flags = $(foreach v,$(1),$(if $(findstring command line,$(origin $(v))),--$(shell echo $(v) | tr A-Z a-z)='$($(v))'))

.PHONY: help train offline test check format setup lock build-file typing

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

train:  ## Train: AGENT=svg0 ENV=gym:Pendulum-v1 STEPS=20000 DIRECTORY=… SEED=0 ARGS='--config.x=…'
	@requirements/setup.sh runtime
	@$(PY) -m temper.launchers.train $(FLAGS) $(ARGS)

offline:  ## Record data, learn from it offline, compare: STUDY=modes|memory SEEDS=0,1,2 DIRECTORY=…
	@requirements/setup.sh runtime
	@$(PY) -m temper.launchers.offline $(OFFLINE_FLAGS) $(ARGS)

test:  ## Run the tests; ARGS='-k replay' goes to pytest
	@requirements/setup.sh dev
	$(PY) -m pytest --numprocesses=auto --dist=loadfile $(ARGS)

check: typing  ## Lint, format check, types
	@requirements/setup.sh dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	MYPYPATH=.typing $(PY) -m mypy -p temper

format:  ## Format the sources and mend what the linter can mend
	@requirements/setup.sh dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

setup:  ## Make .venv with everything, the development tools included
	@requirements/setup.sh dev

lock:  ## Resolve requirements/*.in anew into the hash-locked requirements/*.txt
	@requirements/lock.sh

build-file:  ## Write BUILD anew from the imports
	@requirements/setup.sh runtime
	$(PY) tests/conformance/build_file.py --write

# mypy does not follow the finder of an editable install; it sees the package through these links.
typing:
	@mkdir -p .typing/temper
	@for folder in agents utils launchers; do ln -sfn ../../$$folder .typing/temper/$$folder; done
