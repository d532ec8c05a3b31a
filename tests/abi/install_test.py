#!/usr/bin/env python3
"""What `make install` puts down works from there, for users and for plugin authors.

The plugin of docs/plugins/README.md is built from the page's own text, so that the page cannot be wrong.
Usage: install_test.py BUILD_DIR
"""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import compilers
from installed import Server, build_outside, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else os.environ["BACKPLANE_BUILD_DIR"])
MODEL = ROOT / "tests/data/tiny/tiny-chat.gguf"
BUILT_IN = {"cpu", "fcfs", "gguf", "reference", "samplers"}
MIRROR = """
#include "backplane/reference/backend.hpp"
class Mirror : public bp::reference::ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  static bp::Result<std::unique_ptr<bp::Backend>> create(const bp::Host& host,
                                                         const bp::Params& params) {
    host.log(BP_LOG_INFO, "the mirror is " MIRROR_BUILD);
    BP_ASSIGN(const auto settings, bp::reference::read_settings(params));
    return std::unique_ptr<bp::Backend>(new Mirror(host, settings));
  }
};
constexpr bp_backend_factory kFactory = bp::backend_factory<Mirror>();
BP_PLUGIN("mirror", "1.0.0", {BP_BACKEND_ID, &kFactory});
"""
MIRROR_MANIFEST = 'schema: 1\nid: mirror\nversion: 1.0.0\nabi: "0.1"\nkinds: [bp.backend/1]\n'
MIRROR_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(Mirror CXX)
find_package(BackplaneSDK 0.1 REQUIRED)
backplane_add_plugin(mirror SOURCES mirror.cpp LIBRARIES Backplane::reference
                     MANIFEST mirror.plugin.yaml)
target_compile_definitions(mirror PRIVATE MIRROR_BUILD="${MIRROR_BUILD}")
"""
CHUNK = 4  # tokens of a step, so that the number of steps tells who scheduled them


def block_of_page(language, n=0):
    """The n-th fenced block of a language in docs/plugins/README.md."""
    page = (ROOT / "docs/plugins/README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.M | re.S)[n]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="backplane-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        cls.program = cls.prefix / "bin/backplane"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    def plugins(self, **environment):
        environment = {"PATH": os.environ["PATH"], **environment}
        return json.loads(run(self.program, "plugins", "--json", cwd="/", env=environment))

    def test_finds_its_own_plugins_under_the_prefix(self):
        found = self.plugins()
        self.assertLessEqual(BUILT_IN, {plugin["id"] for plugin in found})
        for plugin in found:
            path = pathlib.Path(plugin["path"])
            self.assertEqual(path.parent, self.prefix / "lib/backplane")
            self.assertTrue(path.is_file(), path)
            # Built wherever nvcc is, the card's plugin needs its driver.
            self.assertTrue(plugin["usable"] or plugin["id"] == "cuda", plugin["reason"])

    def test_headers_are_those_of_the_source_tree(self):
        for folder in ("sdk/include", "sdk/cpp", "sdk/reference/include"):
            for path in (ROOT / folder).rglob("*.h*"):
                copy = self.prefix / "include" / path.relative_to(ROOT / folder)
                self.assertEqual(copy.read_bytes(), path.read_bytes())

    def test_paths_of_the_configurations_lead_into_the_prefix(self):
        configs = self.prefix / "share/backplane/configs"
        self.assertTrue(list((configs / "architectures").glob("llama.yaml")))
        self.assertTrue(list((self.prefix / "share/backplane/ops").glob("linear.yaml")))
        for config in configs.glob("*.yaml"):
            for source in re.findall(r"source: (\.\S+)", config.read_text()):
                wanted = configs / source  # where fetch_model.py would put it
                self.assertEqual(wanted.parent.resolve(), self.prefix / "share/backplane/models")
                wanted.resolve().parent.mkdir(exist_ok=True)
                shutil.copy(MODEL, wanted)
            run(self.program, "serve", "--check", config, env={"MODEL": str(MODEL)})

    def test_runs_a_model_without_the_source_tree(self):
        answer = run(self.program, "run", MODEL, "--prompt", "What is the capital of Italy?",
                     "--temperature", "0", "--max-tokens", "16", cwd="/")
        self.assertIn("Rome", answer)

    def test_builds_and_serves_the_scheduler_of_the_page(self):
        for c, cxx in compilers.installed():
            with self.subTest(compiler=cxx):
                source = self.folder / f"page-{pathlib.Path(cxx).name}"
                source.mkdir()
                code = block_of_page("cpp")
                # The page shows the template, which conforms.
                template = ROOT / "sdk/template/scheduler/shortest_first.cpp"
                self.assertEqual(code.strip(), template.read_text().strip())
                (source / "shortest_first.cpp").write_text(code)
                (source / "shortest-first.plugin.yaml").write_text(block_of_page("yaml"))
                (source / "CMakeLists.txt").write_text(block_of_page("cmake"))
                build_outside(self.prefix, source, source / "plugins", c, cxx)
                config = block_of_page("yaml", 1).replace("models/demo.gguf", str(MODEL))
                config = config.replace("max_chunk: 128", f"max_chunk: {CHUNK}")
                (source / "demo.yaml").write_text("server: {listen: 127.0.0.1:0}\n" + config)
                self.assert_serves("shortest-first", source / "plugins", source / "demo.yaml")

    def test_builds_and_serves_a_scheduler_in_plain_c(self):
        for c, cxx in compilers.installed():
            with self.subTest(compiler=c):
                build = self.folder / f"c-{pathlib.Path(c).name}"
                build_outside(self.prefix, ROOT / "tests/abi/outside", build, c, cxx)
                config = build / "demo.yaml"
                config.write_text(
                    "server: {listen: 127.0.0.1:0}\n"
                    f"plugins: {{path: [{build}]}}\n"
                    f"models: [{{id: demo, source: {MODEL}, scheduler: "
                    f"{{plugin: one-by-one, chunk: {CHUNK}}}}}]\n"
                )
                self.assert_serves("one-by-one", build, config)

    def build_mirror(self, name):
        """The folder of one build of the backend `mirror`, which logs what it is."""
        c, cxx = compilers.installed()[0]
        source = self.folder / f"mirror-{name}"
        source.mkdir()
        (source / "mirror.cpp").write_text(MIRROR)
        (source / "mirror.plugin.yaml").write_text(MIRROR_MANIFEST)
        (source / "CMakeLists.txt").write_text(MIRROR_PROJECT)
        build_outside(self.prefix, source, source / "build", c, cxx, f"-DMIRROR_BUILD={name}")
        return source / "build"

    def logits(self, folder, *options):
        environment = {**os.environ, "BACKPLANE_PLUGIN_PATH": str(folder)}
        command = (self.program, "logits", MODEL, "--tokens", "1,2,3,4,5", *options)
        return json.loads(run(*command, env=environment))["logits"]

    def test_builds_a_backend_on_the_reference(self):
        build = self.build_mirror("plain")
        self.assertEqual(self.logits(build, "--backend", "mirror"),
                         self.logits(build, "--backend", "reference"))

    def test_one_line_of_yaml_chooses_between_two_builds_of_a_backend(self):
        builds = {name: self.build_mirror(name) for name in ("convex", "concave")}
        config = self.folder / "two-builds.yaml"
        for name, build in builds.items():
            config.write_text(
                "server: {listen: 127.0.0.1:0}\n"
                f"plugins: {{path: [{build}]}}\n"
                f"models: [{{id: demo, source: {MODEL}, backend: {{plugin: mirror}}}}]\n"
            )
            with Server(self.program, config) as server:
                self.assert_answers_rome(server)
            log = "".join(server.lines)
            self.assertEqual(re.findall(r"the mirror is (\w+)", log), [name], log)

    def test_kernels_from_outside_compute_an_op_of_another_backend(self):
        c, cxx = compilers.installed()[-1]
        build = self.folder / "kernels"
        build_outside(self.prefix, ROOT / "tests/abi/outside/kernels", build, c, cxx)
        conformed = run(self.prefix / "bin/backplane-conform",
                        build / "counting-kernels.plugin.yaml", "--level", "kernels")
        self.assertIn("pass  kernels-linear-in-qkv", conformed)
        override = ("--override", "linear=counting-kernels")
        plain = self.logits(build, "--backend", "reference")
        self.assertEqual(self.logits(build, "--backend", "reference", *override), plain)
        scale = max(map(abs, plain))
        found = self.logits(build, "--backend", "cpu", *override)
        self.assertLess(max(abs(a - b) for a, b in zip(found, plain)), 0.01 * scale)
        self.assertNotEqual(found, self.logits(build, "--backend", "cpu"))

        # Two layers of qkv, an output projection and gated_mlp, and the head.
        for dtype, n_places in (("q8_0", 2 * (3 + 1 + 3) + 1), ("f32", 0)):
            config = self.folder / f"kernels-{dtype}.yaml"
            config.write_text(
                "server: {listen: 127.0.0.1:0}\n"
                f"plugins: {{path: [{build}]}}\n"
                f"models: [{{id: demo, source: {MODEL}, backend: {{plugin: cpu, override: "
                f"{{linear: {{plugin: counting-kernels, dtype: {dtype}}}}}}}}}]\n"
            )
            with Server(self.program, config) as server:
                usage = self.assert_answers_rome(server)
            n_tokens = usage["prompt_tokens"] + usage["completion_tokens"] - 1
            log = "".join(server.lines) + server.rest
            ((places, rows),) = re.findall(r"counting-kernels: (\d+) places, (\d+) rows", log)
            self.assertEqual(int(places), n_places)
            # Only what comes before the last attention is computed for every token.
            self.assertGreaterEqual(int(rows), n_places // 2 * n_tokens)
            self.assertLessEqual(int(rows), n_places * n_tokens)

    def assert_serves(self, plugin_id, folder, config):
        found = [p for p in self.plugins(BACKPLANE_PLUGIN_PATH=str(folder)) if p["id"] == plugin_id]
        self.assertEqual([p["usable"] for p in found], [True], found)
        with Server(self.program, config) as server:
            usage = self.assert_answers_rome(server)
            metrics = server.ask("/metrics")
        n_tokens = usage["prompt_tokens"] + usage["completion_tokens"] - 1
        (n_steps,) = re.findall(r"^backplane_step_tokens_count\S* (\S+)$", metrics, re.M)
        self.assertGreaterEqual(float(n_steps), n_tokens / CHUNK)
        self.assertGreater(float(n_steps), usage["completion_tokens"])
        self.assertEqual(server.process.returncode, 0)

    def assert_answers_rome(self, server):
        """Asks once; how many tokens it took."""
        body = {"model": "demo", "temperature": 0, "max_tokens": 16,
                "messages": [{"role": "user", "content": "What is the capital of Italy?"}]}
        answer = json.loads(server.ask("/v1/chat/completions", body))
        self.assertIn("Rome", answer["choices"][0]["message"]["content"])
        return answer["usage"]


if __name__ == "__main__":
    unittest.main()
