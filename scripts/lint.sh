#!/usr/bin/env bash
# scripts/lint.sh          formats, ruff, mypy and the layers test; runs all, then fails if any did
# scripts/lint.sh format   rewrite the sources in the agreed format
# scripts/lint.sh tidy     clang-tidy (needs the release build for its compile commands)
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin

cxx_files() {
  local folder
  for folder in src include cli python/bindings tests fuzz bench examples; do
    if [ -d "$folder" ]; then
      find "$folder" -type f \( -name '*.h' -o -name '*.cc' -o -name '*.c' \) -print0
    fi
  done
}

status=0
check() {
  echo "lint: $1"
  shift
  "$@" || status=1
}

case "${1:-check}" in
  format)
    cxx_files | xargs -0 --no-run-if-empty "$bin/clang-format" -i
    "$bin/ruff" check --fix --quiet . || true
    "$bin/ruff" format --quiet .
    ;;
  tidy)
    find src cli -name '*.cc' -print0 |
      xargs -0 --no-run-if-empty -n 1 -P 2 "$bin/clang-tidy" -p build/release --quiet
    ;;
  check)
    clang_format() { cxx_files | xargs -0 --no-run-if-empty "$bin/clang-format" --dry-run -Werror; }
    mypy() {
      if [ -f python/gradwire/__init__.py ]; then
        "$bin/mypy" --strict python/gradwire
      fi
    }
    check clang-format clang_format
    check "ruff check" "$bin/ruff" check --quiet .
    check "ruff format" "$bin/ruff" format --check --quiet .
    check "mypy --strict" mypy
    check layers "$bin/python" -m pytest --quiet tests/layers_test.py
    exit "$status"
    ;;
  *)
    echo "usage: scripts/lint.sh [format|tidy]" >&2
    exit 2
    ;;
esac
