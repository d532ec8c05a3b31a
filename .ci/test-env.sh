#!/usr/bin/env bash
# What the tests need besides the build: a Python environment with the official client, and the
# default model. Does nothing where both are there.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/venv
if [[ ! -x $venv/bin/python || ! -f $venv/.complete ]]; then
  echo "== making the tests' Python environment (openai client)"
  rm -rf "$venv"
  mkdir -p build
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check 'openai>=1.50,<3'
  touch "$venv/.complete"
fi

python3 configs/fetch_model.py >/dev/null
