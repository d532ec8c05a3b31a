# make serve          install what is missing, build, bring the default model, serve it
# make serve MODEL=x  serve your own model file instead
# make test           the same set-up, then all tests, also under sanitizers
# make install        PREFIX=/usr/local
# make bench          measure the default model (or MODEL=x)
# make format         clang-format over the tree
SHELL := /bin/bash
PREFIX ?= /usr/local
MODEL ?=
JOBS ?= $(shell nproc)
DEFAULT_MODEL := models/smollm2-135m-instruct-q4_1.gguf

.DEFAULT_GOAL := help
.PHONY: help setup setup-test build serve test test-quick install bench format check-layers fetch-model soak

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

setup:
	@.ci/setup.sh .ci/packages.txt

# Configured again: what the tests' own packages bring is found then.
setup-test: setup
	@.ci/setup.sh .ci/packages-test.txt
	@cmake --preset release >/dev/null

build/build.ninja: | setup
	@cmake --preset release

build: setup build/build.ninja
	@echo "== building with $(JOBS) jobs (the first time takes some minutes)"
	@cmake --build build -j $(JOBS) --target backplane-all

fetch-model:
	@python3 configs/fetch_model.py

ifeq ($(MODEL),)
serve: build
	@$(MAKE) --no-print-directory fetch-model
	@build/bin/backplane serve configs/smollm2.yaml
else
serve: build
	@MODEL="$(abspath $(MODEL))" build/bin/backplane serve configs/own-model.yaml
endif

test: setup-test
	@.ci/test.sh

# The release build's tests alone.
test-quick: setup-test
	@cmake --build build -j $(JOBS)
	@ctest --test-dir build --output-on-failure --no-tests=error -j $(JOBS)

bench: build
	@test -n "$(MODEL)" || $(MAKE) --no-print-directory fetch-model
	@build/bin/backplane bench $(or $(MODEL),$(DEFAULT_MODEL))

# Half an hour of mixed requests under AddressSanitizer; SOAK_SECONDS=n shortens it.
soak: setup-test
	@.ci/soak.sh

install: build
	@cmake --install build --prefix $(PREFIX)

format:
	@command -v clang-format >/dev/null || { echo "make format needs Debian's clang-format" >&2; exit 1; }
	@git ls-files '*.h' '*.hpp' '*.cpp' '*.inl' | xargs clang-format -i

check-layers:
	@python3 tests/check_layers.py
