#!/usr/bin/env python3
"""bench/cuda on the emulated device: what a machine with a GPU will be asked must work before.

Enters by environment: PROGRAMS (the folder of conform, measure and products), BACKPLANE_CONFORM,
EMULATED (the manifest of the emulated cuda backend), FAULTY (the folder of plugins that crash and
hang).
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCH = ROOT / "bench" / "cuda"
PROGRAMS = pathlib.Path(os.environ["PROGRAMS"])
EMULATED = os.environ["EMULATED"]
sys.path.insert(0, str(BENCH))
sys.dont_write_bytecode = True
import verdicts  # noqa: E402


def run(*command, **environment):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120,
                          check=False, cwd=ROOT, env={**os.environ, **environment})


def program(name, *arguments):
    return run(PROGRAMS / name, *arguments)


class Measure(unittest.TestCase):
    def measure(self, *arguments):
        done = program("measure", EMULATED, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_steps_alone_and_ahead_say_what_the_device_was_idle(self):
        text = self.measure("tiny", "q4_k_m", "step_times=true", "--steps", "3", "--kv", "q8_0",
                            "--sample", "best", "--ahead", "decode:1:8", "decode:3:70",
                            "mixed:2:16:64")
        for title in ("decode n 1 depth 8", "decode n 3 depth 70", "mixed n 2 and 16 depth 64"):
            self.assertRegex(text, rf"(?m)^{title} best: median [\d.]+ ms")
        self.assertEqual(len(re.findall(r"^  ahead: median [\d.]+ ms", text, re.M)), 2)
        for title in ("decode n 1 depth 8 best", "decode n 3 depth 70 best"):
            device = verdicts.figure(text, "tiny q4_k_m", title, r"device ([\d.]+) us")
            wall = verdicts.figure(text, "tiny q4_k_m", title, r"median ([\d.]+) ms") * 1e3
            self.assertGreater(device, 0.2 * wall)
            self.assertLessEqual(device, wall)
            for how in ("alone", "ahead"):
                self.assertIsNotNone(verdicts.figure(text, "tiny q4_k_m", title,
                                                     rf"idle .*?([-\d.]+) us {how}"))

    def test_without_times_of_the_device_nothing_is_said_of_it(self):
        text = self.measure("tiny", "bf16", "--steps", "2", "decode:1:0")
        self.assertIn("decode n 1 depth 0 logits: median", text)
        self.assertNotIn("idle", text)

    def test_experts_and_blocks_that_go_to_host_memory_and_back(self):
        text = self.measure("tiny-moe", "bf16", "--steps", "2", "decode:2:8", "transfer:96")
        found = re.search(r"^transfer n 96: ([\d.]+) MB, out [\d.]+ ms .*, in [\d.]+ ms .*, "
                          r"computed [\d.]+ ms$", text, re.M)
        self.assertIsNotNone(found, text)
        kv_bytes = 2 * 2 * 2 * 64 * 2 * 96  # layers, K and V, heads, columns, bf16, tokens
        self.assertGreaterEqual(float(found.group(1)) * 1e6 + 0.1e6, kv_bytes)

    def test_each_way_to_choose_tokens_and_each_cache(self):
        for how in ("draw", "candidates"):
            text = self.measure("tiny", "q8_0", "--steps", "1", "--sample", how, "decode:2:4")
            self.assertIn(f" {how}: median", text)
        for kv in ("f16", "f8_e4m3"):
            self.measure("tiny", "q8_0", "--steps", "1", "--kv", kv, "decode:1:4", "prefill:9:4")

    def test_products_have_a_line_for_each_number_of_rows(self):
        done = program("products", EMULATED, "q8_0", "256", "128", "--megabytes", "1", "1", "9")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(re.findall(r"^q8_0 128 x 256 rows (\d+): [-\d.]+ us", done.stdout, re.M),
                         ["1", "9"])

    def test_wrong_words_are_refused_by_name(self):
        for words in (("decode:0:1",), ("decode:1",), ("mixed:1:0:5",), ("--kv", "f99"),
                      ("--sample", "worst"), ("decode:1:1", "--ahead"), ()):
            done = program("measure", EMULATED, "tiny", "bf16", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("measure: ", done.stderr)


class Conform(unittest.TestCase):
    def listed(self, *arguments):
        done = program("conform", EMULATED, "--list", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_the_stand_in_reads_every_case_that_yaml_cpp_reads(self):
        tool = run(os.environ["BACKPLANE_CONFORM"], EMULATED, "--list").stdout
        names = re.findall(r"^([a-z][a-z0-9-]*)  \(", tool, re.M)
        self.assertEqual(self.listed(), self.in_order_of_levels(names))

    def in_order_of_levels(self, names):
        levels = ["load", "abi", "life", "ops", "steps", "errors", "threads"]
        return [n for level in levels for n in names if n.startswith(level + "-")]

    def test_shards_hold_each_test_once(self):
        shards = [self.listed("--shard", f"{i}/4", "errors", "steps", "ops") for i in range(1, 5)]
        self.assertEqual(sorted(sum(shards, [])), sorted(self.listed("errors", "steps", "ops")))
        self.assertLess(max(map(len, shards)) - min(map(len, shards)), 2)

    def test_a_shard_passes_in_one_process(self):
        done = program("conform", EMULATED, "--in-process", "--time-scale", "10", "--shard", "7/40",
                       "ops", "errors")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\n\d+ passed, 0 failed, \d+ skipped, 0 did not run\n$")
        skips = re.findall("^skip  .*$", done.stdout, re.M)  # of a type that the backend does not keep
        self.assertEqual([s for s in skips if "k_dtype is q4_0" not in s], [])

    def test_a_crash_in_process_names_the_test(self):
        self.assert_ended("crashes", "SIGABRT")

    def test_a_hang_in_process_names_the_test(self):
        self.assert_ended("hangs", "SIGALRM, its time is over")

    def assert_ended(self, plugin, how):
        manifest = pathlib.Path(os.environ["FAULTY"], plugin + ".plugin.yaml")
        done = program("conform", manifest, "--in-process", "--time-scale", "0.05", "load")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"fail  load-factories-are-pure: ended by {how}", done.stdout)


class Parts(unittest.TestCase):
    def script(self, *parts, **environment):
        with tempfile.TemporaryDirectory() as folder:
            return run("bash", BENCH / "run.sh", *parts, **{"OUT": folder, **environment})

    def test_each_command_of_each_part_is_understood(self):
        done = self.script("all", DRY_RUN="1", BUILD="/absent", PLUGIN="/absent.plugin.yaml")
        self.assertEqual(done.returncode, 0, done.stdout)
        commands = [c.split() for c in re.findall(r"^\+ (.*)$", done.stdout, re.M)]
        ours = [c[c.index(p) :] for c in commands for p in c if p.startswith("/absent/bin/")]
        asked = {c[0].rsplit("/", 1)[1] for c in ours}
        self.assertEqual(asked, {"conform", "measure", "products", "lost", "ceilings"})
        for command in ours:
            name = command[0].rsplit("/", 1)[1]
            if name in ("lost", "ceilings"):
                continue
            answer = program(name, *command[1:])
            self.assertIn("/absent.plugin.yaml", answer.stderr, command)

    def test_the_head_names_every_part(self):
        head = run("bash", BENCH / "run.sh").stdout
        done = self.script("all", DRY_RUN="1")
        parts = re.findall(r"^passed     (\S+)$", done.stdout, re.M)
        self.assertGreater(len(parts), 20)
        for part in parts:
            self.assertRegex(head, rf"(?m)^#   .*\b{part.split('-')[0]}\b")

    def test_what_fails_or_takes_too_long_does_not_stop_the_rest(self):
        with tempfile.TemporaryDirectory() as build:
            for name, body in (("conform", "exit 3"), ("lost", "sleep 20"), ("ceilings", "exit 0")):
                file = pathlib.Path(build, "bin", name)
                file.parent.mkdir(exist_ok=True)
                file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
                file.chmod(0o755)
            done = self.script("conform", "lost", "nonsense", "ceilings", BUILD=build, LIMIT="1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.split("== summary\n")[1].splitlines(),
                         ["failed     conform", "timed out  lost", "failed     nonsense",
                          "passed     ceilings"])


CEILINGS = "copy: 4000 GB/s (read and written)\n" + "".join(
    f"bf16 product m {m} n {n} k {k}: 0.500 ms, 9 TFLOPS\n" for m in (512, 2048, 4096)
    for n, k in ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)))
DECODE = """8b bf16: ready after 1.0 s, weights 15.00 GB, workspace 0.20 GB
decode n 1 depth 512 best: median 5.000 ms (4.9 to 5.2), 200.0 tokens/s, weights 3100 GB/s
  ahead: median 4.990 ms (4.9 to 5.2), 200.4 tokens/s, 10 us less
  device 4940.0 us, idle 60.0 us alone, 50.0 us ahead
decode n 256 depth 512 best: median 10.000 ms (4.9 to 5.2), 12100.0 tokens/s, weights 30 GB/s
8b q4_k_m: ready after 1.0 s, weights 5.00 GB, workspace 0.20 GB
decode n 1 depth 512 best: median 3.000 ms (2.9 to 3.2), 333.3 tokens/s, weights 1900 GB/s
8b bf16: ready after 1.0 s, weights 15.00 GB, workspace 0.20 GB
decode n 256 depth 512 logits: median 20.000 ms (4.9 to 5.2), 600.0 tokens/s, weights 30 GB/s
"""
PREFILL = """8b bf16: ready after 1.0 s, weights 15.00 GB, workspace 0.20 GB
prefill n 512 depth 0 best: median 100.000 ms (90.0 to 110.0), 5120.0 tokens/s, weights 150 GB/s
prefill n 2048 depth 0 best: median 120.000 ms (90.0 to 110.0), 5120.0 tokens/s, weights 150 GB/s
"""


class Verdicts(unittest.TestCase):
    def verdicts(self, **parts):
        with tempfile.TemporaryDirectory() as folder:
            for part, text in parts.items():
                pathlib.Path(folder, part + ".txt").write_text(text, encoding="utf-8")
            return run(sys.executable, BENCH / "verdicts.py", folder)

    def test_figures_stand_beside_the_targets(self):
        done = self.verdicts(ceilings=CEILINGS, decode=DECODE, prefill=PREFILL)
        lines = [(line[:5].strip(), line[7:]) for line in done.stdout.splitlines()]
        self.assertEqual(lines, [
            ("PASS", "8b bf16 batch 1, % of copy bandwidth: 77.5, at least 75"),
            ("SHORT", "8b q4_k_m batch 1, % of copy bandwidth: 47.5, at least 50"),
            ("PASS", "8b bf16 256 sequences, times batch 1: 60.5, at least 60"),
            ("SHORT", "8b bf16 batch 1 alone, idle us a step: 60.0, at most 50"),
            ("PASS", "8b bf16 batch 1 ahead, idle us a step: 50.0, at most 50"),
            ("PASS", "8b bf16 prefill 512, % of cuBLASLt's products: 64.0, at least 60"),
            ("SHORT", "8b bf16 prefill 2048, % of cuBLASLt's products: 53.3, at least 60"),
            ("NONE", "8b bf16 prefill 4096, % of cuBLASLt's products: not measured, at least 60"),
        ])
        self.assertEqual(done.returncode, 1)

    def test_nothing_measured_is_nothing_met(self):
        done = self.verdicts()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(re.findall(r"^NONE ", done.stdout, re.M)), 8)


if __name__ == "__main__":
    unittest.main()
