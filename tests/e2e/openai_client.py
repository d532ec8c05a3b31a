"""The official OpenAI client for Python; a test whose Python lacks it begins anew in build/venv."""

import importlib.util
import os
import sys
import unittest

from support import SOURCE

VENV_PYTHON = os.path.join(SOURCE, "build", "venv", "bin", "python")
openai = None
if importlib.util.find_spec("openai") is not None:
    import openai
elif os.access(VENV_PYTHON, os.X_OK) and sys.executable != VENV_PYTHON:
    os.execv(VENV_PYTHON, [VENV_PYTHON, *sys.argv])

needs_client = unittest.skipUnless(
    openai, "the openai client is missing: .ci/test-env.sh installs it"
)
