#!/usr/bin/env bash
# Configure and build a preset: scripts/build.sh PRESET TARGET [cmake arguments].
# One build of a preset runs at a time; a build folder of a moved checkout is made anew.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 target=$2
shift 2

mkdir -p "build/$preset"
exec 9>"build/.$preset.lock"
flock 9

cache=build/$preset/CMakeCache.txt
if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$cache"; then
  rm -rf "build/$preset"
fi
cmake --preset "$preset" --log-level=WARNING "$@" >/dev/null  # warnings and errors: stderr
cmake --build --preset "$preset" --target "$target"
