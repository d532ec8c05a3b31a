#!/usr/bin/env bash
# configure.sh PRESET [OPTION...]: configures a preset, from the beginning where another compiler has
# configured it before: CMake would keep the compiler's change and drop the preset's variables.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
fresh=()
if [[ $preset == *san ]] && ! grep -qs '^CMAKE_CXX_COMPILER:.*clang' "build/$preset/CMakeCache.txt"; then
  fresh=(--fresh)
fi
cmake --preset "$preset" "${fresh[@]}" "$@" >/dev/null
