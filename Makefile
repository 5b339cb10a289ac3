# One command each; `make help` lists them. The work is in scripts/, so that it can be read and
# run by hand. BUILD_ARGS goes to cmake, for example BUILD_ARGS=-DGRADWIRE_WERROR=ON.

SHELL := /bin/bash
PYTHON := .venv/bin/python
CORPUS ?= tests/data
BENCH_ARGS ?=
METHODS_ARGS ?=
FUZZ_SECONDS ?= 60
WERROR ?= OFF
BUILD_ARGS ?= -DGRADWIRE_WERROR=$(WERROR)

.PHONY: help setup build demo test bench bench-methods lint tidy fuzz format clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 15

setup:  ## install what is missing, make .venv
	@scripts/setup.sh

build: setup  ## the one release build: library, tool, tests, Python extension
	@scripts/build.sh release all $(BUILD_ARGS)

demo: setup  ## compress and restore real gradients, train two models; tables and charts
	@scripts/build.sh release gradwire_product $(BUILD_ARGS)
	$(PYTHON) tools/demo.py

test: build  ## every test, C++ and Python
	ctest --preset release --no-tests=ignore
	scripts/pytest.sh

bench: build  ## the benchmarks over CORPUS=DIR; BENCH_ARGS goes to bench/run.py
	$(PYTHON) bench/run.py --corpus $(CORPUS) $(BENCH_ARGS)
	$(PYTHON) bench/methods/study.py --short $(METHODS_ARGS)

bench-methods: build  ## the study of methods (hours; METHODS_ARGS="--minutes 60" for what fits)
	$(PYTHON) bench/methods/study.py $(METHODS_ARGS)

lint: setup  ## formats, types, layers
	@scripts/build.sh release gradwire_product $(BUILD_ARGS)
	@scripts/lint.sh

tidy: build  ## clang-tidy over the sources (slow)
	@scripts/lint.sh tidy

fuzz:  ## every fuzz target for FUZZ_SECONDS
	@scripts/setup.sh fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh

format: setup  ## rewrite C++ and Python sources in the agreed format
	@scripts/lint.sh format

clean:  ## remove the builds and .venv
	rm -rf build .venv python/gradwire/_core*.so python/gradwire/_core.pyi
