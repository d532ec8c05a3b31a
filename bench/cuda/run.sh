#!/usr/bin/env bash
# run.sh PART...: what a machine with a GPU is asked, in parts of less than 10 minutes each. Needs
# nvcc, g++, cmake and, for the comparison with PyTorch, python3 with torch and transformers.
#   build           backend, conform, measure, products, lost and ceilings in $BUILD (build/cuda)
#   conform         backplane-conform's levels errors, steps and ops, in one process
#   conform-apart   load, abi, life and threads, each test in a process of its own
#   conform-library conform-int8   steps and ops without cuBLASLt, and by int8 tensor cores
#   lost            a fault on the device is DEVICE_LOST, and the process goes on
#   memcheck-I racecheck-I   shard I of 4 of errors, steps and ops under compute-sanitizer
#   memcheck-int8 racecheck-int8   ops by int8
#   ceilings        copy bandwidth and cuBLASLt's products
#   decode          8B shapes, batch 1 to 256, one step at a time and ahead, tokens chosen there
#   prefill         8B shapes, 512 to 4096 tokens; decode at depth; both in one step
#   kv              decode and prefill at depth by type of the cache; blocks to host memory and back
#   moe             decode and prefill of experts
#   sampling        rows of logits brought to the host, tokens chosen on the device, candidates
#   products-TYPE   one product by rows, with cuBLASLt and without; TYPE int8 or a dtype
#   torch           the same bf16 decode and prefill by transformers
#   all             all of them, and then which passed
#   verdicts        the targets, from what ceilings, decode and prefill printed into $OUT
# A part ends after $LIMIT seconds (580). DRY_RUN=1 prints the commands alone.
set -uo pipefail
self=$(realpath "$0")
cd "$(dirname "$self")/../.."
build=${BUILD:-build/cuda}
out=${OUT:-$build/results}
plugin=${PLUGIN:-$build/lib/backplane/cuda.plugin.yaml}
limit=${LIMIT:-580}
# Where the plugin finds cuBLASLt.
cuda=${CUDA_HOME:-/usr/local/cuda}
export LD_LIBRARY_PATH="$cuda/lib64:$cuda/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
all=(build conform ceilings decode prefill lost conform-{apart,library,int8} kv moe sampling
     memcheck-{1,2,3,4,int8} racecheck-{1,2,3,4,int8} products-{bf16,q8_0,q4_K,q6_K,f8_e4m3,int8}
     torch verdicts)

# Runs a command of a part; the part goes on after a failure, and fails.
failed=0
go() {
  echo "+ $*"
  [[ -n ${DRY_RUN:-} ]] || "$@" || failed=1
}
conform() { go "$build/bin/conform" "$plugin" "$@"; }
measure() { go "$build/bin/measure" "$plugin" "$@"; }

part_build() {
  local nvcc
  nvcc=$(command -v nvcc || echo "$cuda/bin/nvcc")
  go cmake -S bench/cuda -B "$build" -DCMAKE_CUDA_COMPILER="$nvcc" \
    -DCMAKE_CUDA_ARCHITECTURES="${ARCHITECTURES:-90a-real}"
  go cmake --build "$build" -j "$(nproc)"
}
part_conform() {
  case ${1:-} in
    "") conform --in-process --time-scale 3 errors steps ops ;;
    apart) conform --time-scale 5 load abi life threads ;;
    library) conform --in-process --time-scale 3 matrix_library=false steps ops ;;
    int8) conform --in-process --time-scale 3 prefill=int8 steps ops ;;
    *) unknown "conform-$1" ;;
  esac
}
# As steps are run, and with messages that name ops.
part_lost() {
  go "$build/bin/lost" "$plugin"
  go "$build/bin/lost" "$plugin" synchronous=true
}
sanitize() {
  local checked=(compute-sanitizer --tool "$1" --error-exitcode 9 "$build/bin/conform" "$plugin"
                 --in-process --time-scale 20)
  case ${2:-} in
    int8) go "${checked[@]}" prefill=int8 ops ;;
    [1-4]) go "${checked[@]}" --shard "$2/4" errors steps ops ;;
    *) unknown "$1-${2:-}" ;;
  esac
}
part_memcheck() { sanitize memcheck "${1:-}"; }
part_racecheck() { sanitize racecheck "${1:-}"; }
part_ceilings() { go "$build/bin/ceilings"; }
part_decode() {
  local types
  for types in bf16 q4_k_m q8_0; do
    measure 8b $types step_times=true --sample best --ahead decode:1:0 decode:1:512 \
      decode:{2,4,8,16,64,256}:512
  done
  measure 8b bf16 step_times=true decode:1:512 decode:256:512
}
part_prefill() {
  local types fp8
  for types in bf16 q4_k_m q8_0; do
    measure 8b $types step_times=true --steps 10 --sample best prefill:{512,2048,4096}:0 \
      prefill:512:3584 decode:1:3584 decode:16:3584 decode:1:7680 mixed:64:512:3584
  done
  measure 8b q4_k_m prefill=int8 --steps 10 --sample best prefill:512:0 prefill:2048:0
  for fp8 in false true; do
    measure 8b f8_e4m3 fp8_products=$fp8 --steps 10 --sample best prefill:512:0 prefill:2048:0
  done
}
part_kv() {
  local kv
  for kv in bf16 f16 f8_e4m3 q8_0; do
    measure 8b bf16 --kv $kv --steps 10 --sample best decode:1:7680 decode:64:3584 \
      prefill:2048:2048 transfer:512 transfer:4096 transfer:16384
  done
}
part_moe() {
  local types
  for types in bf16 q4_k_m; do
    measure moe $types --steps 10 --sample best --ahead decode:{1,8,64,256}:512 prefill:512:0 \
      prefill:2048:0
  done
}
part_sampling() {
  local how tasks="decode:1:0 decode:16:0 decode:64:0 decode:256:0"
  measure 8b bf16 $tasks
  for how in best draw candidates; do measure 8b bf16 --sample $how $tasks; done
}
products() { go "$build/bin/products" "$plugin" "$@"; }
part_products() {
  local shape value rows="9 16 32 64 128 256 512 2048"
  for shape in "4096 6144" "14336 4096"; do
    case ${1:-} in
      bf16 | q8_0 | q4_K | q6_K)
        for value in true false; do
          products "$1" $shape matrix_library=$value 1 2 4 8 $rows
        done ;;
      f8_e4m3)
        for value in false true; do products "$1" $shape fp8_products=$value 1 2 4 8 $rows; done ;;
      int8)
        for value in q8_0 q4_K q6_K; do products $value $shape prefill=int8 $rows; done ;;
      *) unknown "products-${1:-}" ;;
    esac
  done
}
part_torch() { go python3 bench/cuda/torch_peer.py; }
part_verdicts() { go python3 bench/cuda/verdicts.py "$out"; }

unknown() {
  echo "run.sh: no part \"$1\"" >&2
  exit 2
}
# "memcheck-2" is part_memcheck 2.
run_inside() {
  local argument=
  [[ $1 != *-* ]] || argument=${1#*-}
  declare -F "part_${1%%-*}" > /dev/null || unknown "$1"
  "part_${1%%-*}" ${argument:+"$argument"}
  exit $failed
}
# Prints and keeps what a part prints; how it ended goes to the summary.
run_part() {
  local code
  echo "== $1"
  timeout -k 10 "$limit" bash "$self" --inside "$1" 2>&1 | tee "$out/$1.txt"
  code=${PIPESTATUS[0]}
  case $code in
    0) summary+=("passed     $1") ;;
    124 | 137) summary+=("timed out  $1") ;;
    *) summary+=("failed     $1") ;;
  esac
  [[ $code == 0 ]] || any_failed=1
}

[[ $# -gt 0 ]] || { sed -n '2,/^set/{/^set/!p}' "$self"; exit 2; }
[[ $1 != --inside ]] || run_inside "$2"
mkdir -p "$out"
out=$(realpath "$out")
export OUT=$out
any_failed=0
summary=()
parts=("$@")
[[ $1 != all ]] || parts=("${all[@]}")
for part in "${parts[@]}"; do run_part "$part"; done
echo "== summary"
printf '%s\n' "${summary[@]}" | tee "$out/summary.txt"
exit $any_failed
