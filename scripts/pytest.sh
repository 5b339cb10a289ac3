#!/usr/bin/env bash
# The Python tests, in two processes: those of training mostly wait, for time-outs and each other.
set -uo pipefail
cd "$(dirname "$0")/.."
export GRADWIRE_CLI=$PWD/build/release/gradwire
log=build/pytest-torch.log

.venv/bin/python -m pytest -p no:cacheprovider tests/python/torch >"$log" 2>&1 &
training=$!
.venv/bin/python -m pytest --ignore tests/python/torch
others=$?
wait "$training"
result=$?
cat "$log"
[ "$result" = 5 ] && result=0 # no test there: PyTorch is not installed
exit $((others > result ? others : result))
