#!/usr/bin/env bash
# Run every fuzz target for FUZZ_SECONDS; new inputs stay in build/fuzz/corpus, logs in
# build/fuzz/NAME.log, findings in build/fuzz/artifacts. A finding is committed as a malformed case with its name.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}
scripts/build.sh fuzz all

status=0 count=0
for target in build/fuzz/fuzz/*_fuzz; do
  [ -x "$target" ] || continue
  count=$((count + 1))
  name=$(basename "$target" _fuzz)
  corpus=build/fuzz/corpus/$name
  artifacts=build/fuzz/artifacts/$name
  mkdir -p "$corpus" "$artifacts"
  seeds=()
  for folder in "fuzz/corpus/$name" tests/golden tests/malformed; do
    if [ -d "$folder" ]; then seeds+=("$folder"); fi
  done
  echo "fuzz: $name for $seconds s"
  log=build/fuzz/$name.log
  if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="$artifacts/" "$corpus" ${seeds[@]+"${seeds[@]}"} >"$log" 2>&1; then
    tail -n 1 "$log"
  else
    tail -n 60 "$log" >&2
    status=1
  fi
done
if [ "$status" = 0 ]; then
  echo "fuzz: $count targets, no finding"
else
  echo "fuzz: findings in build/fuzz/artifacts" >&2
fi
exit "$status"
