# What ./test and ./demo share: telling, logging, and building a preset. Sourced from the root.
# shellcheck shell=bash

error_lines='error:|CMake Error|ERROR: |\*\*\*(Failed|Exception|Timeout)|FAILED'
error_lines+='|^=+ (Invalid|Misaligned|Uninitialized|Error: |Program hit|Barrier error)'  # compute-sanitizer's

# Short lines with the time since the start.
say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }

# Runs a command with all its output in a log.
logged() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 </dev/null
}

# The lines of a log that name an error, and its end.
show_failure() {
  local what=$1 log=$2
  if grep -qE "$error_lines" "$log"; then
    grep -nE "$error_lines" "$log" | head -n 10 | sed 's/^/    /'
    echo "    ..."
  fi
  tail -n 20 "$log" | sed 's/^/    /'
  say "failed: $what; the whole log is $log"
}

# As many compilers at once as there are cores and as have 2 GB of memory each, for torch's headers.
compile_jobs() {
  local cores memory_kb limit
  cores=$(nproc)
  memory_kb=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  [ "$limit" = max ] || [ $((limit / 1024)) -ge "$memory_kb" ] || memory_kb=$((limit / 1024))
  local by_memory=$((memory_kb / 2000000))
  [ "$by_memory" -ge 1 ] || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

# The sanitizers of GCC 12 and 13 stumble over kernels that shuffle addresses widely; where it is
# allowed, programs run unshuffled.
unshuffled=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
  unshuffled=(setarch "$(uname -m)" -R)
fi

# Where there is no GPU nobody will run what is compiled for one: that it compiles is all to learn.
cuda_quickly() {
  if [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; then echo OFF; else echo ON; fi
}

# build PRESET [TARGET...]: configures and builds, quietly.
build() {
  local preset=$1 configured=build/$1-configure.log built=build/$1-build.log
  shift
  local targets=()
  [ $# -eq 0 ] || targets=(--target "$@")
  say "building $preset"
  # A build folder that was moved or whose compiler changed does not configure: begin it anew.
  local options=(--preset "$preset" "-DMALA_CUDA_QUICKLY=$(cuda_quickly)")
  if ! logged "$configured" cmake "${options[@]}" &&
    ! logged "$configured" cmake --fresh "${options[@]}"; then
    show_failure "configuring $preset" "$configured"
    return 1
  fi
  sed -n 's/^-- \(.*: building for the CPU only\)/         \1/p' "$configured"
  if ! logged "$built" "${unshuffled[@]}" cmake --build --preset "$preset" -j "$(compile_jobs)" \
    "${targets[@]}"; then
    show_failure "building $preset" "$built"
    return 1
  fi
}

# Some virtual machines announce AMX and do not have it: a product of bfloat16 matrices, torch's own
# too, ends with an illegal instruction. There oneDNN is told to do without.
avoid_broken_amx() {
  [ -z "${ONEDNN_MAX_CPU_ISA:-}" ] && grep -qw amx_bf16 /proc/cpuinfo 2>/dev/null || return 0
  local status=0 illegal=132
  { .venv/bin/python -c 'import torch; a = torch.ones(64, 64).bfloat16(); a @ a'; } \
    >/dev/null 2>&1 || status=$?
  [ "$status" -eq "$illegal" ] || return 0
  export ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16
  say "AMX is announced here but does not work: ONEDNN_MAX_CPU_ISA=$ONEDNN_MAX_CPU_ISA"
}
