#!/usr/bin/env bash
# Make this checkout ready to build: Debian packages (missing ones only), a Python environment in
# .venv, the package in it. Quick when there is nothing to do, so every make target calls it.
#   scripts/setup.sh         what the release build and the tests need
#   scripts/setup.sh fuzz    also clang, for the fuzz targets
# PYTHON=/path/to/python chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
exec 9>build/.setup.lock
flock 9

build_packages=(build-essential cmake ninja-build make libxxhash-dev libfmt-dev libcli11-dev
  nlohmann-json3-dev libgtest-dev libgmock-dev libbenchmark-dev
  libopenmpi-dev openmpi-bin)
fuzz_packages=(clang-14 libclang-rt-14-dev)
python_packages=(python3 python3-venv python3-dev)

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "setup: needs root, or sudo, to run: $*" >&2
    return 1
  fi
}

is_installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "setup: not a Debian system; assuming that these are there: $*"
    return 0
  fi
  local missing=() package
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  echo "setup: installing ${missing[*]}"
  if [ -z "${apt_is_updated:-}" ]; then
    as_root apt-get update -qq
    apt_is_updated=1
  fi
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes -qq -o Dpkg::Use-Pty=0 --no-install-recommends "${missing[@]}" >/dev/null
}

# Can this interpreter make environments and build extensions?
is_usable_python() {
  "$1" - >/dev/null 2>&1 <<'PY'
import ensurepip, os, sys, sysconfig, venv
assert sys.version_info >= (3, 10)
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
PY
}

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10 \
    /usr/bin/python3; do
    if is_usable_python "$candidate"; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

install_packages "${build_packages[@]}"
if [ "${1:-}" = fuzz ]; then
  install_packages "${fuzz_packages[@]}"
fi

if ! .venv/bin/python -c 'import sys; assert sys.version_info >= (3, 10)' 2>/dev/null; then
  if ! python=$(find_python); then
    install_packages "${python_packages[@]}"
    python=$(find_python) || {
      echo "setup: no Python >= 3.10 with venv and headers; set PYTHON=/path/to/python" >&2
      exit 1
    }
  fi
  echo "setup: making .venv with $("$python" --version)"
  rm -rf .venv
  "$python" -m venv .venv
fi

# The editable installation is a .pth file to python/ and the package's metadata; the extension is
# built once, by scripts/build.sh. It is repeated when what it depends on has changed.
stamp=.venv/.setup-stamp
state="$(sha256sum pyproject.toml scripts/setup.sh) $PWD $(.venv/bin/python --version)"
if [ "$(cat "$stamp" 2>/dev/null)" != "$state" ]; then
  echo "setup: installing Python packages into .venv"
  pip=(.venv/bin/python -m pip --disable-pip-version-check --quiet)
  "${pip[@]}" install 'scikit-build-core>=0.11' 'nanobind>=2.4'
  mkdir -p python/gradwire
  if [ -f README.md ]; then
    "${pip[@]}" install --no-build-isolation --config-settings=wheel.cmake=false --config-settings=wheel.py-api=py3 \
      --config-settings=editable.mode=inplace --editable '.[dev]'
  else
    echo "setup: README.md, which the package's metadata needs, is missing" >&2
    exit 1
  fi
  # The CPU build where its index can be reached: a tenth of the size of the one with CUDA.
  if ! .venv/bin/python -c 'import torch' 2>/dev/null; then
    echo "setup: installing torch for gradwire.torch and its tests"
    "${pip[@]}" install --retries 0 --timeout 10 --index-url https://download.pytorch.org/whl/cpu \
      torch==2.13.0 2>/dev/null || "${pip[@]}" install torch==2.13.0 ||
      echo "setup: torch could not be installed; the tests of gradwire.torch will be skipped" >&2
  fi
  ln -sfn ../../build/release/gradwire .venv/bin/gradwire
  printf '%s' "$state" >"$stamp"
fi
