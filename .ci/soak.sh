#!/usr/bin/env bash
# Mixed requests against a build under AddressSanitizer and UndefinedBehaviorSanitizer, for
# SOAK_SECONDS (half an hour). Fails if memory grows, an answer is wrong or a sanitizer speaks.
set -euo pipefail
cd "$(dirname "$0")/.."

.ci/configure.sh asan
cmake --build build/asan -j "$(nproc)" --target backplane-all
# Freed memory is held back for a while to find its uses; little of it, so that growth is seen.
ASAN_OPTIONS=quarantine_size_mb=16:detect_stack_use_after_return=0 \
  UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
  BACKPLANE_BINARY=$PWD/build/asan/bin/backplane BACKPLANE_TIME_SCALE=10 \
  PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/soak.py --seconds "${SOAK_SECONDS:-1800}"
