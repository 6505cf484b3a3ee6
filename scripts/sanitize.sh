#!/bin/sh
# Runs compute-sanitizer's four tools over the GPU tests tagged [sanitize], which reach every kernel
# and branch on small shapes: all of them, whatever fails. Exits with 1 where a tool found an error
# or a test failed, with 2 where something is missing.
#
#   PRESET=default   whose tests, under build/
#   TOOLS="memcheck racecheck initcheck synccheck"
set -eu
cd "$(dirname "$0")/.."

preset=${PRESET:-default}
tools=${TOOLS:-memcheck racecheck initcheck synccheck}
tests="common/common_test ch02_roofline/ch02_test ch13_norm_rope/ch13_test ch28_design/ch28_test"

refuse() {
  echo "sanitize.sh: $1" >&2
  exit 2
}

# The CUDA Toolkit is often installed without being on PATH.
PATH=$PATH:${CUDA_PATH:-/usr/local/cuda}/bin
command -v compute-sanitizer >/dev/null ||
  refuse "no compute-sanitizer on PATH; it comes with the CUDA Toolkit"
nvidia-smi -L 2>/dev/null | grep -q '^GPU 0' ||
  refuse "no NVIDIA GPU is visible (nvidia-smi -L lists none)"

for test in $tests; do
  [ -x "build/$preset/$test" ] ||
    refuse "build/$preset/$test: not built; run ./book test --preset $preset"
done

failed=
for tool in $tools; do
  case $tool in
    memcheck | racecheck | initcheck | synccheck) ;;
    *) refuse "TOOLS: got \"$tool\"; allowed: memcheck, racecheck, initcheck, synccheck" ;;
  esac
  for test in $tests; do
    echo "== compute-sanitizer --tool $tool build/$preset/$test '[sanitize]'"
    # No test of that tag would be no check: Catch2 then exits with 2. Skipped tests alone: 4.
    compute-sanitizer --tool "$tool" --error-exitcode 1 "build/$preset/$test" "[sanitize]" ||
      failed="$failed $tool:$(basename "$test")"
  done
done

if [ -n "$failed" ]; then
  echo "sanitize.sh: failed:$failed" >&2
  exit 1
fi
echo "sanitize.sh: no errors"
