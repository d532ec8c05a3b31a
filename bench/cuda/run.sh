#!/usr/bin/env bash
# run.sh PART...: what a machine with a GPU is asked, in parts of less than 10 minutes each. Needs
# nvcc, g++, cmake and, for the comparison with PyTorch, python3 with torch and transformers.
#   build        builds backend, conform, measure, products and ceilings in $BUILD (build/cuda)
#   conform      backplane-conform's levels for backends
#   memcheck racecheck   the levels errors, steps and ops under compute-sanitizer, ops by int8 too
#   ceilings     copy bandwidth and cuBLASLt's products
#   products     one product by type and rows, with cuBLASLt and without; by int8 and fp8
#   decode       8B shapes, batch 1 to 256, bf16 and q4_K
#   prefill      8B shapes, 512 to 4096 tokens, bf16 and q4_K; decode at depth
#   sampling     decode with rows of logits brought to the host, and with tokens chosen on the device
#   ahead        decode one step at a time, and with the next step submitted while one runs
#   torch        the same bf16 decode and prefill by transformers
#   all          all of them
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build/cuda}
out=${OUT:-$build/results}
plugin=$build/lib/backplane/cuda.plugin.yaml
mkdir -p "$out"
# Where the plugin finds cuBLASLt.
cuda=${CUDA_HOME:-/usr/local/cuda}
export LD_LIBRARY_PATH="$cuda/lib64:$cuda/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

part_build() {
  local nvcc
  nvcc=$(command -v nvcc || echo "$cuda/bin/nvcc")
  cmake -S bench/cuda -B "$build" -DCMAKE_CUDA_COMPILER="$nvcc" \
    -DCMAKE_CUDA_ARCHITECTURES="${ARCHITECTURES:-90a-real}"
  cmake --build "$build" -j "$(nproc)"
}
part_conform() {
  "$build/bin/conform" "$plugin" load abi errors steps threads ops --time-scale 3
  "$build/bin/conform" "$plugin" steps ops --time-scale 3 matrix_library=false
  "$build/bin/conform" "$plugin" steps ops --time-scale 3 prefill=int8
  "$build/bin/conform" "$plugin" life --time-scale 5
}
sanitize() {
  local checked=(compute-sanitizer --tool "$1" --target-processes all --error-exitcode 9)
  "${checked[@]}" "$build/bin/conform" "$plugin" errors steps ops --time-scale 20
  "${checked[@]}" "$build/bin/conform" "$plugin" ops --time-scale 20 prefill=int8
}
part_memcheck() { sanitize memcheck; }
part_racecheck() { sanitize racecheck; }
part_ceilings() { "$build/bin/ceilings"; }
part_products() {
  local rows="1 2 4 8 9 16 32 64 128 256 512 2048"
  for dtype in bf16 q8_0 q4_K q6_K; do
    for shape in "4096 6144" "14336 4096"; do
      for library in true false; do
        "$build/bin/products" "$plugin" $dtype $shape matrix_library=$library $rows
      done
    done
  done
  rows="9 16 32 64 128 256 512 2048"
  for shape in "4096 6144" "14336 4096"; do
    for dtype in q8_0 q4_K q6_K; do
      echo "int8:"
      "$build/bin/products" "$plugin" $dtype $shape prefill=int8 $rows
    done
    for fp8 in false true; do
      echo "fp8_products=$fp8:"
      "$build/bin/products" "$plugin" f8_e4m3 $shape fp8_products=$fp8 1 2 4 8 $rows
    done
  done
}
part_decode() {
  for dtype in bf16 q4_K q8_0; do
    "$build/bin/measure" "$plugin" 8b $dtype decode:1:0 decode:1:512 decode:2:512 decode:8:512 decode:4:512 decode:16:512 \
      decode:64:512 decode:256:512 prefill:1:0
  done
}
part_prefill() {
  for dtype in bf16 q4_K q8_0; do
    "$build/bin/measure" "$plugin" 8b $dtype --steps 10 prefill:512:0 prefill:2048:0 \
      prefill:4096:0 prefill:512:3584 decode:1:3584 decode:16:3584 decode:1:7680
  done
  "$build/bin/measure" "$plugin" 8b q4_K prefill=int8 --steps 10 prefill:512:0 prefill:2048:0
  for fp8 in false true; do
    "$build/bin/measure" "$plugin" 8b f8_e4m3 fp8_products=$fp8 --steps 10 prefill:512:0 prefill:2048:0
  done
}
part_sampling() {
  local tasks="decode:1:0 decode:16:0 decode:64:0 decode:256:0"
  "$build/bin/measure" "$plugin" 8b bf16 $tasks
  for how in best draw candidates; do
    "$build/bin/measure" "$plugin" 8b bf16 --sample $how $tasks
  done
}
part_ahead() {
  for dtype in bf16 q4_K; do
    "$build/bin/measure" "$plugin" 8b $dtype --sample best --ahead decode:1:512 decode:4:512 decode:16:512 \
      decode:64:512 decode:256:512
  done
}
part_torch() { python3 bench/cuda/torch_peer.py; }

[[ $# -gt 0 ]] || { sed -n 2,14p "$0"; exit 2; }
parts=("$@")
[[ $1 != all ]] || parts=(build conform memcheck racecheck ceilings products decode prefill sampling ahead torch)
for part in "${parts[@]}"; do
  echo "== $part"
  "part_$part" 2>&1 | tee "$out/$part.txt"
done
