#!/usr/bin/env python3
"""backplane-conform on formats, samplers and schedulers: those of this repository pass, and every
mistake of the plugin wrong-kinds fails a test with a message that points at it.

Enters by environment: BACKPLANE_CONFORM, PLUGINS (the built plugins' folder), WRONG_KINDS (manifest).
"""
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

TOOL = os.environ["BACKPLANE_CONFORM"]
PLUGINS = pathlib.Path(os.environ["PLUGINS"])
WRONG = os.environ["WRONG_KINDS"]

# (mistake, test that must fail, pattern of its message)
FORMATS = [
    ("claims-all", "formats-probe-others", "probe claims 0 bytes of noise"),
    ("too-confident", "formats-probe-own", "confidence 101, at most 100"),
    ("probe-reads-beyond", "formats-probe-pure", "crashed: probe of .* bytes of its head"),
    ("probe-opens", "formats-probe-pure", "must not open the file"),
    ("outside-file", "formats-truncated", r"outside of its file of \d+ bytes \(cut off after"),
    ("name-twice", "formats-bit-flips", r"stands twice \(with bit \d of byte \d+ flipped"),
    ("reads-past-end", "formats-extreme-numbers", "it crashed: open of .* with |heap-buffer-overflow"),
    ("aborts", "formats-truncated", "it crashed: open of .* cut off after"),
    ("leaks-model", "formats-close", "bytes are still held after 20 models were closed"),
    ("leaks-file", "formats-close", "20 files are still open"),
    ("no-sentence", "formats-other-files", "fails without a sentence"),
    ("touches-out", "formats-other-files", r"writes to \*out"),
    ("reads-one-row", "formats-open", r"row \d+ read alone differs from the one read with others"),
    ("reads-beyond-rows", "formats-open", "read of 64 rows from row 0 writes behind them"),
    ("rows-without-bytes", "formats-open", "has more rows than its 0 bytes hold"),
    ("internal-error", "formats-bit-flips", "code 7, which says nothing of a file"),
]
SAMPLERS = [
    ("keeps-none", "samplers-top-k-rules", "keeps no (candidate|id that can be drawn)"),
    ("nan-logit", "samplers-top-k-rules", "the logit NaN"),
    ("lies-about-order", "samplers-top-k-rules", "best first, but 0 and 1 do not"),
    ("lists-twice", "samplers-top-k-rules", "lists id .* twice"),
    ("lists-forbidden", "samplers-top-k-rules", "allows id .*, which is forbidden"),
    ("writes-past-room", "samplers-top-k-rules", "it crashed: stage top_k with"),
    ("drops-secretly", "samplers-repeats-rules", "drops candidates although it does not truncate"),
    ("greatest-dropped", "samplers-top-k-forms", "a dense row whose greatest logit is known"),
    ("another-vocabulary", "samplers-top-k-rules", "members of the row that are the host's"),
    ("candidates-of-its-own", "samplers-top-k-rules", "members of the row that are the host's"),
    ("forms-differ", "samplers-top-k-forms", "a dense row against candidates by id"),
    ("own-random", "samplers-top-k-deterministic", "two equal states|one state twice"),
    ("effect-differs", "samplers-top-k-effect", "its effect against apply: id .* first case only"),
    ("one-too-many", "samplers-top-k-definition", "which the definition does not keep"),
    ("drops-the-best", "samplers-top-k-definition", r"was drawn 0 times, expected \d+"),
    ("sharpens", "samplers-top-k-definition", "standard deviations from the definition"),
    ("random-of-host", "samplers-top-k-definition", "standard deviations from the definition"),
    ("draws-unscaled", "samplers-top-k-definition", "the draw being known: .* deviations"),
    ("draws-below-the-floor", "samplers-top-k-definition", "the draw being known: id .* was drawn"),
    ("clone-shares", "samplers-repeats-clone", "after its clone went on"),
    ("clone-forgets", "samplers-repeats-clone", "state and clone: id"),
    ("rollback-ignored", "samplers-repeats-rollback", "accepted and taken back: id"),
    ("rollback-one-short", "samplers-repeats-rollback", "accepted and taken back: id"),
    ("counts-calls", "samplers-repeats-rebuild", "token by token against all at once"),
    ("state-of-all", "samplers-repeats-independent", "alone against four sequences|SIG"),
]
SCHEDULERS = [
    ("over-budget", "schedulers-decisions-few-blocks", r"\d+ tokens, of 64"),
    ("over-places", "schedulers-decisions-few-blocks", r"\d+ sequences, of 8"),
    ("over-blocks", "schedulers-decisions-few-blocks", r"\d+ new blocks, of \d+"),
    ("too-many-tokens", "schedulers-decisions-plenty", r"to compute \d+ tokens of \d+ that are left"),
    ("does-nothing", "schedulers-decisions-plenty", "nothing runs and nobody is preempted"),
    ("draft-tokens", "schedulers-decisions-plenty", "gets draft tokens"),
    ("preempts-waiting", "schedulers-decisions-few-blocks", "preempted although it waits"),
    ("preempts-and-runs", "schedulers-decisions-plenty", "is preempted and run"),
    ("unknown-preemption", "schedulers-decisions-few-tokens", "preempted in an unknown way"),
    ("thrashes", "schedulers-decisions-plenty", "preempted again and again"),
    ("writes-past-columns", "schedulers-decisions-plenty", "it crashed: schedule"),
    ("last-come-first-served", "schedulers-no-starvation", "has no token 30 s later"),
    ("shortest-first", "schedulers-no-starvation", "a request of 2200 tokens .* has no token"),
    ("own-random", "schedulers-deterministic", "decide differently at step"),
    ("state-of-all", "schedulers-deterministic", "decide differently at step"),
    ("remembers-all", "schedulers-memory", r"holds \d+ bytes more after 4800 requests"),
    ("fails-on-empty", "schedulers-empty", "a snapshot without sequences fails"),
    ("unknown-bits-accepted", "schedulers-unknown-bits", "must be UNSUPPORTED"),
]


def conform(manifest, *arguments, **environment):
    done = subprocess.run([TOOL, manifest, *arguments, "--json"], capture_output=True, text=True,
                          timeout=120, env={**os.environ, **environment})
    return done.returncode, json.loads(done.stdout)["tests"]


def model_file(folder):
    """A file of the format of wrong-kinds."""
    names = [b"tensor-%d" % i for i in range(8)]
    begin = 16 + 24 * len(names)
    table = b"".join(struct.pack("<8sQQ", name, begin + 64 * i, 64)
                     for i, name in enumerate(names))
    path = pathlib.Path(folder, "model.wrong")
    path.write_bytes(b"WRONG001" + struct.pack("<Q", len(names)) + table + bytes(64 * len(names)))
    return path


class OfThisRepository(unittest.TestCase):
    def assert_passes(self, plugin, level):
        code, tests = conform(PLUGINS / f"{plugin}.plugin.yaml", "--level", level)
        wrong = [test for test in tests if test["status"] == "fail"]
        self.assertEqual((code, wrong), (0, []))
        self.assertGreater(len([t for t in tests if t["status"] == "pass"]), 8)

    def test_gguf_passes(self):
        self.assert_passes("gguf", "formats")

    def test_samplers_pass(self):
        self.assert_passes("samplers", "samplers")

    def test_fcfs_passes(self):
        self.assert_passes("fcfs", "schedulers")


class Mistakes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = ["--model", str(model_file(folder.name))]
        self.temporary = os.path.join(folder.name, "temporary")
        os.mkdir(self.temporary)

    def test_without_one_all_levels_pass(self):
        code, tests = conform(WRONG, *self.model)
        self.assertEqual((code, [t for t in tests if t["status"] == "fail"]), (0, []))

    def test_each_fails_with_a_message_that_points_at_it(self):
        for mutation, test, pattern in FORMATS + SAMPLERS + SCHEDULERS:
            with self.subTest(mutation=mutation):
                code, tests = conform(WRONG, "--test", test, *self.model, MUTATION=mutation,
                                      TMPDIR=self.temporary)
                self.assertEqual([(t["name"], t["status"]) for t in tests], [(test, "fail")])
                self.assertEqual(code, 1)
                self.assertRegex(tests[0]["message"], pattern)
                self.assertEqual(os.listdir(self.temporary), [])


if __name__ == "__main__":
    unittest.main()
