#!/usr/bin/env bash
# What `make test` runs: the release build's tests, then everything under AddressSanitizer and
# UndefinedBehaviorSanitizer, then the threads' tests under ThreadSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)

python3 tests/check_layers.py
.ci/test-env.sh

echo "== release build"
cmake --preset release >/dev/null
cmake --build build -j "$jobs"
ctest --test-dir build --output-on-failure --no-tests=error -j "$jobs"

echo "== AddressSanitizer and UndefinedBehaviorSanitizer"
cmake --preset asan >/dev/null
cmake --build build/asan -j "$jobs"
ASAN_OPTIONS=detect_stack_use_after_return=0:allocator_may_return_null=1 \
  UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
  ctest --test-dir build/asan --output-on-failure --no-tests=error -j "$jobs" -LE heavy

echo "== ThreadSanitizer"
cmake --preset tsan >/dev/null
cmake --build build/tsan -j "$jobs" --target threads-tests
TSAN_OPTIONS=halt_on_error=1 \
  ctest --test-dir build/tsan --output-on-failure --no-tests=error -j "$jobs" -L threads
