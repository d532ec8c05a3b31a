#!/usr/bin/env python3
"""The installed templates, copied and built by gcc and by clang against the installed SDK: each passes
backplane-conform as it is, and is selected in YAML and serves.

Usage: templates_test.py BUILD_DIR
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
import urllib.error

import compilers
from installed import Server, build_outside, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else os.environ["BACKPLANE_BUILD_DIR"])
MODEL = ROOT / "tests/data/tiny/tiny-chat.gguf"
# Folder of the template: (id of its plugin, most lines of its source; None: no limit).
TEMPLATES = {
    "backend": ("fast-linear", 150),
    "backend-c": ("plain-c", None),
    "format": ("flat", 100),
    "sampler": ("top-n-sigma", 100),
    "scheduler": ("shortest-first", 100),
}
CHUNK = 4  # tokens of a sequence in a step
# Why tests of a backend may be skipped: it has no threads; the one in C has few types and
# primitives besides.
SKIPS = {
    "backend": r"the backend starts no threads|max_in_flight is 1, the test is for 2 to 64",
    "backend-c": r"this backend reads f32, f16 and q8_0|kept as f32 only|has no get_extension|"
                 r"starts no threads|gives the host's team no work|"
                 r"is none of the primitives that this backend has|state slots are not supported|"
                 r"does not offer bp\.|version 2 is unknown",
    "sampler": r"the stage does not say what it does",
}
CONFIG = """
server: {{listen: 127.0.0.1:0}}
plugins: {{path: [{paths}]}}
models:
  - id: demo
    source: {flat}
    backend: {{plugin: fast-linear}}
    scheduler: {{plugin: shortest-first, max_chunk: {chunk}}}
    sampler: {{chain: [top_n_sigma, temperature]}}
  - id: plain
    source: {gguf}
    backend: {{plugin: plain-c}}
"""


class Templates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="backplane-templates-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.templates = cls.prefix / "share/backplane/templates"

    def test_are_those_of_the_source_tree(self):
        found = {path.name for path in self.templates.iterdir()}
        self.assertEqual(found, set(TEMPLATES) | {"README.md"})
        for path in (ROOT / "sdk/template").rglob("*"):
            if path.is_file():
                copy = self.templates / path.relative_to(ROOT / "sdk/template")
                self.assertEqual(copy.read_bytes(), path.read_bytes())

    def test_are_short_and_complete(self):
        for name, (plugin, limit) in TEMPLATES.items():
            folder = self.templates / name
            for needed in ("CMakeLists.txt", "README.md", f"{plugin}.plugin.yaml"):
                self.assertTrue((folder / needed).is_file(), f"{name}/{needed}")
            sources = [p for p in folder.iterdir() if p.suffix in (".c", ".h", ".cpp", ".hpp")]
            n_lines = sum(len(path.read_text().splitlines()) for path in sources)
            self.assertGreater(n_lines, 0, name)
            if limit is not None:
                self.assertLessEqual(n_lines, limit, name)

    def test_backend_c_is_plain_c(self):
        project = (self.templates / "backend-c/CMakeLists.txt").read_text()
        self.assertIn("project(PlainC C)", project)
        self.assertEqual(list((self.templates / "backend-c").glob("*.*pp")), [])

    def test_copies_build_conform_and_serve(self):
        for c, cxx in compilers.installed():
            with self.subTest(compiler=cxx):
                copies = self.build_all(pathlib.Path(cxx).name, c, cxx)
                flat = self.flat_model(copies["format"])
                for name, copy in copies.items():
                    self.assert_conforms(name, copy, flat)
                self.assert_serves(copies, flat)

    def build_all(self, compiler, c, cxx):
        copies = {name: self.folder / compiler / name for name in TEMPLATES}
        for name, copy in copies.items():
            shutil.copytree(self.templates / name, copy)
            build_outside(self.prefix, copy, copy / "build", c, cxx,
                          "-DCMAKE_C_FLAGS=-Wall -Wextra -Wpedantic -Werror")
        return copies

    def flat_model(self, copy):
        flat = copy / "tiny.flat"
        run(sys.executable, copy / "gguf_to_flat.py", MODEL, flat)
        return flat

    def assert_conforms(self, name, copy, flat):
        manifest = copy / f"build/{TEMPLATES[name][0]}.plugin.yaml"
        more = ["--model", flat] if name == "format" else []
        report = json.loads(run(self.prefix / "bin/backplane-conform", manifest, "--json", *more))
        passed = [test for test in report["tests"] if test["status"] == "pass"]
        skipped = [test for test in report["tests"] if test["status"] == "skip"]
        self.assertGreater(len(passed), 15, name)
        self.assertEqual(len(passed) + len(skipped), len(report["tests"]))
        for test in skipped:
            self.assertRegex(test["message"], SKIPS.get(name, "^no test$"), (name, test["name"]))

    def assert_serves(self, copies, flat):
        config = flat.parent / "demo.yaml"
        paths = ", ".join(str(copy / "build") for copy in copies.values())
        config.write_text(CONFIG.format(paths=paths, flat=flat, gguf=MODEL, chunk=CHUNK))
        with Server(self.prefix / "bin/backplane", config) as server:
            usage = self.assert_answers(server, "demo", top_n_sigma=1.5)
            self.assert_answers(server, "plain")
            with self.assertRaises(urllib.error.HTTPError) as refused:  # beyond the manifest's range
                self.assert_answers(server, "demo", top_n_sigma=1000)
            self.assertEqual(refused.exception.code, 400)
            metrics = server.ask("/metrics")
        n_tokens = usage["prompt_tokens"] + usage["completion_tokens"] - 1
        self.assertGreaterEqual(steps_of(metrics, "demo"), n_tokens / CHUNK)

    def assert_answers(self, server, model, **fields):
        body = {"model": model, "temperature": 0, "max_tokens": 16, **fields,
                "messages": [{"role": "user", "content": "What is the capital of Italy?"}]}
        answer = json.loads(server.ask("/v1/chat/completions", body))
        self.assertIn("Rome", answer["choices"][0]["message"]["content"])
        return answer["usage"]


def steps_of(metrics, model):
    """How many steps a model made."""
    (line,) = [line for line in metrics.splitlines()
               if line.startswith("backplane_step_tokens_count{") and f'"{model}"' in line]
    return float(line.rsplit(" ", 1)[1])


if __name__ == "__main__":
    unittest.main()
