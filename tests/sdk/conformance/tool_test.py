#!/usr/bin/env python3
"""backplane-conform as its users meet it: options, output, exit codes, plugins that crash or hang.

Enters by environment: BACKPLANE_CONFORM, PLUGINS (the built plugins' folder), FAULTY (of plugins that
crash, exit and hang).
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TOOL = os.environ["BACKPLANE_CONFORM"]
REFERENCE = os.path.join(os.environ["PLUGINS"], "reference.plugin.yaml")
CPU = os.path.join(os.environ["PLUGINS"], "cpu.plugin.yaml")
BACKEND_LEVELS = ["load", "abi", "life", "ops", "steps", "errors", "threads", "model"]
MANIFEST = 'schema: 1\nid: %s\nversion: 1.0.0\nabi: "0.1"\nkinds: [bp.backend/1]\n'


def conform(*arguments):
    return subprocess.run(
        [TOOL, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def conform_json(*arguments):
    done = conform(*arguments, "--json")
    return done.returncode, json.loads(done.stdout)


class Listing(unittest.TestCase):
    def test_names_are_kebab_case_unique_and_described(self):
        code, document = conform_json(REFERENCE, "--list")
        self.assertEqual(code, 0)
        self.assertEqual(document["plugin"], "reference")
        names = [test["name"] for test in document["tests"]]
        self.assertGreater(len(names), 60)
        self.assertEqual(len(names), len(set(names)))
        for test in document["tests"]:
            self.assertRegex(test["name"], r"^[a-z0-9]+(-[a-z0-9]+)+$")
            self.assertTrue(test["name"].startswith(test["level"] + "-"), test)
            self.assertGreater(len(test["description"]), 15, test)
        self.assertEqual(sorted({t["level"] for t in document["tests"]}), sorted(BACKEND_LEVELS))

    def test_names_are_the_same_each_time_and_in_both_forms(self):
        _, document = conform_json(REFERENCE, "--list")
        text = conform(REFERENCE, "--list").stdout
        self.assertEqual(
            re.findall(r"^(\S+)  \(", text, re.M), [test["name"] for test in document["tests"]]
        )

    def test_listing_runs_no_code_of_the_plugin(self):
        with tempfile.TemporaryDirectory() as folder:
            manifest = pathlib.Path(folder, "absent.plugin.yaml")
            manifest.write_text(MANIFEST % "absent", encoding="utf-8")
            self.assertEqual(conform(str(manifest), "--list").returncode, 0)


class Output(unittest.TestCase):
    def test_json_has_a_line_per_test(self):
        code, document = conform_json(REFERENCE, "--level", "load", "--level", "errors")
        self.assertEqual(code, 0)
        self.assertEqual(set(document), {"plugin", "tests"})
        self.assertEqual({test["level"] for test in document["tests"]}, {"load", "errors"})
        for test in document["tests"]:
            self.assertEqual(set(test), {"name", "level", "status", "message"})
            self.assertEqual(test["status"], "pass")

    def test_only_failed_prints_nothing_of_what_passes(self):
        done = conform(REFERENCE, "--level", "load", "--only-failed")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^reference: \d+ passed, 0 failed, 0 skipped\n$")

    def test_one_test_by_name(self):
        code, document = conform_json(REFERENCE, "--test", "load-one-symbol")
        self.assertEqual((code, len(document["tests"])), (0, 1))

    def test_tests_may_run_in_the_tool_itself(self):
        self.assertEqual(conform(REFERENCE, "--level", "abi", "--in-process").returncode, 0)

    def test_configuration_reaches_the_plugin(self):
        arguments = (CPU, "--level", "errors", "--only-failed")
        self.assertEqual(conform(*arguments, "--set", "isa=scalar").returncode, 0)
        done = conform(*arguments, "--set", "isa=nonsense")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nonsense", done.stdout)
        self.assertIn("no such key", conform(*arguments, "--set", "colour=red").stderr)


class ExitCodes(unittest.TestCase):
    def assert_error(self, code, words, *arguments):
        done = conform(*arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(words, done.stdout + done.stderr)

    def test_a_wrong_command_line_is_2(self):
        self.assert_error(2, "PLUGIN.plugin.yaml")
        self.assert_error(2, "--nonsense", REFERENCE, "--nonsense")
        self.assert_error(2, "nonsense", REFERENCE, "--level", "nonsense")

    def test_help_is_0_and_names_the_levels(self):
        done = conform("--help")
        self.assertEqual(done.returncode, 0)
        for level in BACKEND_LEVELS + ["formats", "samplers", "schedulers"]:
            self.assertRegex(done.stdout, rf"\n +{level} ")

    def test_an_absent_manifest_is_1(self):
        self.assert_error(1, "cannot be read", "/nonexistent.plugin.yaml")

    def test_no_test_executed_is_1(self):
        self.assert_error(1, "no test was executed", REFERENCE, "--level", "formats")
        self.assert_error(1, "no test was executed", REFERENCE, "--test", "nonsense")

    def test_a_skip_says_why_and_is_no_execution(self):
        code, document = conform_json(REFERENCE, "--level", "model", "--model", "/nonexistent.gguf")
        self.assertEqual(code, 1)
        for test in document["tests"]:
            self.assertEqual(test["status"], "skip")
            self.assertIn("does not exist", test["message"])


class BadPlugins(unittest.TestCase):
    def run_faulty(self, name):
        manifest = os.path.join(os.environ["FAULTY"], name + ".plugin.yaml")
        code, document = conform_json(manifest, "--level", "load", "--time-scale", "0.05")
        self.assertEqual(code, 1)
        tests = {test["name"]: test for test in document["tests"]}
        self.assertEqual(tests["load-one-symbol"]["status"], "pass")
        self.assertEqual(tests["load-unknown-ids"]["status"], "fail")
        return tests["load-unknown-ids"]["message"]

    def test_a_crash_is_a_failure_with_the_signals_name_and_the_output(self):
        message = self.run_faulty("crashes")
        self.assertIn("SIGABRT", message)
        self.assertIn("faulty plugin at work", message)

    def test_an_exit_is_a_failure(self):
        self.assertIn("must not exit", self.run_faulty("exits"))

    def test_a_hang_is_a_failure(self):
        self.assertIn("did not end within", self.run_faulty("hangs"))

    def test_a_pass_that_ends_with_another_exit_code_is_a_failure(self):
        preloaded = os.path.join(os.environ["FAULTY"], "ends_with_9.so")
        if not os.path.exists(preloaded):
            self.skipTest("built with a sanitizer, which wants to be loaded first")
        done = subprocess.run(
            [TOOL, REFERENCE, "--test", "load-one-symbol"], capture_output=True, text=True,
            timeout=120, check=False, env={**os.environ, "LD_PRELOAD": preloaded},
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(
            "the test passed, then the process ended with exit code 9", done.stdout + done.stderr
        )

    def test_what_is_no_library_fails_in_a_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "text.so").write_text("I am no library\n" * 100, encoding="utf-8")
            manifest = pathlib.Path(folder, "text.plugin.yaml")
            manifest.write_text(MANIFEST % "text", encoding="utf-8")
            code, document = conform_json(str(manifest))
        self.assertEqual(code, 1)
        failed = [test for test in document["tests"] if test["status"] == "fail"]
        self.assertTrue(failed)
        self.assertTrue(all(test["level"] == "load" for test in failed))
        self.assertTrue(any("cannot be loaded" in test["message"] for test in failed))
        skipped = [test for test in document["tests"] if test["status"] == "skip"]
        self.assertTrue(skipped)
        self.assertTrue(all("does not load" in test["message"] for test in skipped))


if __name__ == "__main__":
    unittest.main()
