# `make demo` and `make test` set everything up by themselves, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SITE := .venv-docs
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo devices-demo test test-variants test-wheel test-loggers test-flower test-release check check-all format bench figures picture fuzz kill-campaign mutants \
	messages mutants-short random-worlds verify-cell docs docs-serve gallery clean

help:
	@echo "make demo    train seven policies on digits, compare them, write their page (under a minute)"
	@echo "make devices-demo   train on three edge servers and four devices, processes of this machine that talk over TLS (a minute)"
	@echo "make test    all tests, long forms apart"
	@echo "make test-variants   the numerical tests again as other processors would run them"
	@echo "make test-wheel   the sdist and its wheel, installed in a new environment, run their first commands"
	@echo "make test-loggers   the loggers with MLflow's own store, which is installed for it"
	@echo "make test-flower   plans for Flower apps in Flower's simulation, which is installed for it"
	@echo "make test-release   the archives of a version and CITATION.cff, checked by twine and cffconvert"
	@echo "make check   format, lint, types, fast tests"
	@echo "make check-all   the long forms of everything (hours)"
	@echo "make format  let ruff rewrite the code"
	@echo "make bench   the control benchmark (minutes)"
	@echo "make figures write every figure in README and docs anew from results/ and benchmarks/results/"
	@echo "make picture draw the README's picture of the page anew; needs Chromium"
	@echo "make gallery take the pictures of docs/gallery.md anew (minutes); needs Chromium"
	@echo "make messages   write the code of the messages between parties anew from messages.proto"
	@echo "make fuzz    500 damaged folders of results, 500 damaged scenarios, states and traces (20 minutes)"
	@echo "make kill-campaign   kill a training run 50 times, every command 20 times, then workers, nodes and drivers (2 hours)"
	@echo "make mutants  change the source in 200 places of all folders, one at a time: does a test notice? (hours)"
	@echo "make random-worlds SEED=1   1,000 random worlds: is fedrt-plus ever beaten? (half an hour)"
	@echo "make verify-cell NAME=cifar10-iid/fedrt-0   train a cell of results/ again and compare"
	@echo "make docs    build the documentation site in build/site, warnings are errors"
	@echo "make docs-serve   show the site on this machine, and again after every change of a page"
	@echo "make clean   remove .venv and caches"

demo: OUT := runs/demo-$(shell date +%Y%m%d-%H%M%S)
demo: $(VENV)/.ready
	$(BIN)/fedrt compare quickstart --out $(OUT)
	$(BIN)/fedrt report $(OUT)

devices-demo: OUT := runs/devices-demo-$(shell date +%Y%m%d-%H%M%S)
devices-demo: $(VENV)/.ready-dev
	$(BIN)/python tools/devices_demo.py $(OUT)

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -n 2 -m "not long"

# VARIANTS: which of the numerical tests; check-all takes the slow ones too.
VARIANTS ?= numerical and not slow
test-variants: $(VENV)/.ready-dev
	tools/other_processors.sh -m "$(VARIANTS)" -n 2

test-wheel: $(VENV)/.ready-dev
	tools/fresh_install.sh

test-loggers: $(VENV)/.ready-dev $(VENV)/.ready-loggers
	PYTHONPATH=$(VENV)/loggers $(BIN)/python -m pytest tests/callbacks/test_loggers.py

test-flower: $(VENV)/.ready-dev $(VENV)/.ready-flower
	PYTHONPATH=$(CURDIR)/$(VENV)/flower $(BIN)/python -m pytest tests/flower

test-release: $(VENV)/.ready-dev $(VENV)/.ready-release
	rm -rf build/dist
	$(BIN)/python -m hatchling build -d build/dist
	PYTHONPATH=$(VENV)/release $(BIN)/python -m twine check --strict build/dist/*
	PYTHONPATH=$(VENV)/release $(BIN)/python $(VENV)/release/bin/cffconvert --validate -i CITATION.cff

check: $(VENV)/.ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --ignore-missing-imports examples/notebooks/own_model.py
	$(BIN)/python -m pytest -n 2 -m "not slow and not long"

# The long forms of everything; a campaign that takes longer than CI allows is added here.
check-all: $(VENV)/.ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2
	$(MAKE) test-wheel
	$(MAKE) test-loggers
	$(MAKE) test-flower
	$(MAKE) test-release
	$(MAKE) test-variants VARIANTS=numerical
	$(MAKE) mutants
	$(MAKE) fuzz
	$(MAKE) kill-campaign
	$(MAKE) random-worlds

format: $(VENV)/.ready-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/control.py

figures: $(VENV)/.ready-dev
	$(BIN)/fedrt reproduce all --no-training
	$(BIN)/python tools/figures.py

picture: $(VENV)/.ready-dev
	$(BIN)/python tools/page_picture.py docs/page.png

# In the versions of the lock file, so that the code is the same everywhere; paths in it begin at src.
messages: $(VENV)/.ready-dev
	cd src && ../$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. fedrt/devices/wire/messages.proto

fuzz: $(VENV)/.ready-dev
	FEDRT_MUTATIONS=500 $(BIN)/python -m pytest -n 2 tests/records/test_mutated_folders.py \
		tests/system/test_mutated_inputs.py

kill-campaign: $(VENV)/.ready-dev
	$(BIN)/python tools/kill_campaign.py --trials 50 --seed 0
	$(BIN)/python tools/kill_commands.py --kills 20 --seed 0
	$(BIN)/python tools/ray_campaign.py --trials 50 --seed 0

mutants: $(VENV)/.ready-dev
	$(BIN)/python tools/mutants.py --count 200 --seed 0

mutants-short: $(VENV)/.ready-dev
	$(BIN)/python tools/mutants.py --short

# SEED: which thousand worlds; benchmarks/results/random_worlds.json has those of seed 0.
SEED ?= 0
random-worlds: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/random_worlds.py --worlds 1000 --seed $(SEED)

verify-cell: $(VENV)/.ready
	$(BIN)/python tools/verify_cell.py $(NAME)

gallery: $(VENV)/.ready-dev
	$(BIN)/python tools/gallery.py docs/gallery

docs: $(SITE)/.ready $(VENV)/.ready-dev
	$(BIN)/python tools/notebooks.py --pages build/notebooks
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict

docs-serve: $(SITE)/.ready build/notebooks/.ready
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs serve

clean:
	rm -rf $(VENV) $(SITE) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.ready: requirements.lock requirements-cuda.lock requirements-pip.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "FedRT needs Python 3.11 or newer: make PYTHON=/path/to/python")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) -r requirements-pip.lock
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready requirements-dev.lock requirements-devices.lock
	$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

# Beside the environment: no other test is to find these libraries.
$(VENV)/.ready-loggers: $(VENV)/.ready requirements-loggers.lock
	rm -rf $(VENV)/loggers
	$(PIP) --require-hashes --no-deps --no-compile --target $(VENV)/loggers -r requirements-loggers.lock
	@touch $@

$(VENV)/.ready-release: $(VENV)/.ready requirements-release.lock
	rm -rf $(VENV)/release
	$(PIP) --require-hashes --no-deps --no-compile --target $(VENV)/release -r requirements-release.lock
	@touch $@

# An environment of its own: nothing of it is among what FedRT runs with.
$(SITE)/.ready: requirements-docs.lock
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-docs.lock
	@touch $@

# Flower asks for older versions of libraries that are in the environment.
$(VENV)/.ready-flower: $(VENV)/.ready requirements-flower.lock
	rm -rf $(VENV)/flower
	$(PIP) --require-hashes --no-deps --no-compile --target $(VENV)/flower -r requirements-flower.lock
	@touch $@

build/notebooks/.ready: $(VENV)/.ready-dev tools/notebooks.py $(wildcard examples/notebooks/*.py)
	$(BIN)/python tools/notebooks.py --pages build/notebooks
	@touch $@
