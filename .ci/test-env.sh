#!/usr/bin/env bash
# The Python environment of the tests that speak to the server through the official client.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/venv
[[ -x $venv/bin/python && -f $venv/.complete ]] && exit 0
echo "== making the tests' Python environment (openai client)"
rm -rf "$venv"
mkdir -p build
/usr/bin/python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check 'openai>=1.50,<3'
touch "$venv/.complete"
