#!/usr/bin/env bash
# Run the tests marked numerical again as other processors would, in four named variants.
# usage: tools/other_processors.sh [PYTEST ARGUMENTS]      e.g. -m "numerical and not slow" -n 2
# The variables choose among the paths that torch, oneDNN, MKL, numpy and numba have for different
# instruction sets; tests/tools/test_other_processors.py fails where one is not in force.
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- -m "numerical and not slow" -n 2
failed=()

variant() {
  local name=$1 began=$SECONDS
  shift
  printf '\n=== numerical tests, %s: %s\n' "$name" "${variables[*]}"
  env FEDRT_TEST_VARIANT="$name" "${variables[@]}" .venv/bin/python -m pytest "$@" || failed+=("$name")
  printf '=== %s took %d s\n' "$name" $((SECONDS - began))
}

variables=(ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2
  NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR" NUMBA_CPU_NAME=generic)
variant sse41 "$@"

# The next three change what torch does: the tests that train, and of those the engines' own, without
# those of several processes, each of which computes what one does. sse41 has all of them.
torch_tests=(-k "not workers" tests/learning tests/distributed tests/tools)
few_tests=(-k "not workers" tests/learning/engines tests/learning/stacked tests/tools)
variables=(ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2
  NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR")
variant avx2 "$@" "${torch_tests[@]}"

variables=(PYTHONPATH="$PWD/tests/without_mkldnn${PYTHONPATH:+:$PYTHONPATH}")
variant without-mkldnn "$@" "${few_tests[@]}"

# Threads that wait for each other sleep instead of spinning: tests share the cores.
variables=(OMP_NUM_THREADS=2 OMP_WAIT_POLICY=PASSIVE)
variant two-threads "$@" "${few_tests[@]}"

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nnumerical tests failed as other processors run them: %s\n' "${failed[*]}" >&2
  exit 1
fi
printf '\nnumerical tests passed in all four variants\n'
