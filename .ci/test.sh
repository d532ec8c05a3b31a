#!/usr/bin/env bash
# What `make test` runs: the release build's tests, then everything under AddressSanitizer and
# UndefinedBehaviorSanitizer, then the threads' tests under ThreadSanitizer. Says what each phase took
# before the last, so that it ends with the tests' own summary.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
times=()

# phase NAME COMMAND...
phase() {
  local name=$1 start=$SECONDS status=0
  shift
  echo "== $name"
  "$@" || status=$?
  times+=("$(printf '%3d:%02d  %s' $(((SECONDS - start) / 60)) $(((SECONDS - start) % 60)) "$name")")
  return "$status"
}
print_times() {
  echo "== wall time of each phase so far (min:s, $jobs jobs)"
  printf '%s\n' "${times[@]}"
}

# build PRESET [TARGET]
build() {
  .ci/configure.sh "$1" -DBACKPLANE_UNITY_TESTS=ON &&
    cmake --build --preset "$1" -j "$jobs" ${2:+--target "$2"}
}
run_tests() {
  ctest --output-on-failure --no-tests=error -j "$jobs" "$@"
}

phase "layer rule" python3 tests/check_layers.py
phase "Python environment and default model" .ci/test-env.sh

phase "release: build" build release
phase "release: tests" run_tests --test-dir build

phase "AddressSanitizer, UndefinedBehaviorSanitizer: build" build asan
ASAN_OPTIONS=detect_stack_use_after_return=0:allocator_may_return_null=1 \
  UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
  phase "AddressSanitizer, UndefinedBehaviorSanitizer: tests" run_tests --test-dir build/asan -LE heavy

phase "ThreadSanitizer: build" build tsan threads-tests
print_times
TSAN_OPTIONS=halt_on_error=1 \
  phase "ThreadSanitizer: tests" run_tests --test-dir build/tsan -L threads
