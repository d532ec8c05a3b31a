"""`backplane simulate`: a trace against a scheduler plugin, from the command line."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import xml.etree.ElementTree

from support import BINARY, SOURCE, CommandTest, backplane, main

TRACE = os.path.join(SOURCE, "tests", "traces", "simulate-short-memory.yaml")
CSV = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,374,44\n"
    "2023-11-16 18:15:50.9951690,396,109\n"
    "2023-11-16 18:15:51.2225670,879,55\n"
)


class Simulate(CommandTest):
    def simulate(self, trace, *options):
        return backplane("simulate", trace, "--scheduler", "fcfs", *options)

    def report(self, trace, *options):
        return json.loads(self.assert_done(self.simulate(trace, "--json", *options)))

    def test_help_names_every_option(self):
        text = self.assert_done(backplane("simulate", "--help")).decode()
        for option in ["--scheduler", "--set", "--cost", "--plot", "--json", "--seed", "--blocks",
                       "--block-size", "--max-step-tokens", "--max-sequences"]:  # fmt: skip
            self.assertIn(option, text)

    def test_a_wrong_command_line_is_2(self):
        for arguments in [[], [TRACE], [TRACE, "--scheduler", "fcfs", "--blocks", "0"]]:
            self.assertEqual(backplane("simulate", *arguments).returncode, 2)

    def test_a_recorded_trace(self):
        path = self.write("azure.csv", CSV)
        report = self.report(path)
        self.assertEqual(report["requests"]["finished"], 3)
        self.assertIn("the default", report["cost_model"]["source"])
        prices = self.write("cost.yaml", "step_us: {step: 1000}\n")
        report = self.report(path, "--cost", prices)
        # The engine's first step has 64 tokens, later ones 512: prompts of 2, 1 and 2 steps.
        self.assertEqual([report["ttft_ms"][name] for name in ["p50", "max"]], [2, 2])
        self.assertEqual(report["ttft_ms"]["mean"], 5 / 3)
        self.assertIn(prices, report["cost_model"]["source"])

    def test_the_same_seed_gives_the_same_bytes(self):
        runs = [self.assert_done(self.simulate(TRACE, "--json")) for _ in range(2)]
        self.assertEqual(*runs)
        self.assertNotEqual(runs[0], self.simulate(TRACE, "--json", "--seed", "99").stdout)

    def test_limits_of_the_command_line_win(self):
        tight = self.report(TRACE)
        roomy = self.report(self.without_expectations(), "--blocks", "100000")
        self.assertGreater(tight["preemptions"], 0)
        self.assertEqual(roomy["preemptions"], 0)
        self.assertEqual(roomy["limits"]["blocks"], 100000)
        self.assertEqual(roomy["limits"]["block_size"], 16)

    def without_expectations(self):
        with open(TRACE, encoding="utf-8") as file:
            return self.write("trace.yaml", file.read().split("expect:")[0])

    def test_a_plot_that_does_not_fit(self):
        path = os.path.join(self.folder, "cut.svg")

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        done = subprocess.run(
            [BINARY, "simulate", TRACE, "--scheduler", "fcfs", "--plot", path],
            capture_output=True,
            check=False,
            preexec_fn=limit,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{path}: cannot be written: File too large", done.stderr.decode())
        self.assertFalse(os.path.exists(path))
        self.assertIn("No space left", self.simulate(TRACE, "--plot", "/dev/full").stderr.decode())

    def test_a_plot(self):
        path = os.path.join(self.folder, "plot.svg")
        self.assert_done(self.simulate(TRACE, "--plot", path))
        root = xml.etree.ElementTree.parse(path).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        text = "".join(root.itertext())
        for title in ["Time to first token", "Time between tokens", "over time"]:
            self.assertIn(title, text)

    def test_human(self):
        text = self.assert_done(self.simulate(TRACE)).decode()
        self.assertIn("1500 of 1500 requests finished", text)
        self.assertRegex(text, r"(?m)^time to first token +[\d.]+ ")
        self.assertRegex(text, r"(?m)^preemptions +[1-9]")

    def test_expectations_that_are_not_met(self):
        path = self.write(
            "trace.yaml",
            "streams: [{requests: 1, prompt: 1, output: 1}]\n"
            'expect: ["preemptions >= 5", "requests.finished == 1"]\n',
        )
        done = self.simulate(path)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"not as expected: preemptions >= 5: it is 0", done.stderr)
        self.assertIn(b"1 of the trace's 2 expectations", done.stderr)

    def test_settings_of_the_scheduler(self):
        self.assert_done(self.simulate(self.without_expectations(), "--set", "watermark=0.2"))
        for setting in ["watermark=2", "watermark", "watermak=0.1", "watermark=x"]:
            with self.subTest(setting=setting):
                self.assert_one_clear_line(self.simulate(TRACE, "--set", setting), setting[:7])

    def test_what_is_not_there(self):
        self.assert_one_clear_line(self.simulate("/nowhere/trace.csv"), "/nowhere/trace.csv")
        self.assert_one_clear_line(self.simulate("/nowhere/trace.yaml"), "/nowhere/trace.yaml")
        self.assert_one_clear_line(backplane("simulate", TRACE, "--scheduler", "fcfss"), "fcfs")
        self.assert_one_clear_line(self.simulate(TRACE, "--cost", "/nowhere/c.json"), "/nowhere")

    def documented(self, language):
        """The first block of this language in docs/simulate.md."""
        with open(os.path.join(SOURCE, "docs", "simulate.md"), encoding="utf-8") as page:
            return re.search(rf"(?ms)^```{language}\n(.*?)^```$", page.read())[1]

    def test_documented_commands(self):
        os.symlink(os.path.join(SOURCE, "tests"), os.path.join(self.folder, "tests"))
        self.write("azure.csv", CSV)
        measured = os.path.join(SOURCE, "bench", "results", "smollm2-135m-q4_1-one-core.json")
        shutil.copy(measured, os.path.join(self.folder, "bench.json"))
        path = os.path.dirname(os.path.abspath(BINARY)) + os.pathsep + os.environ["PATH"]
        self.assert_done(
            subprocess.run(
                ["bash", "-ec", self.documented("")],
                cwd=self.folder,
                env=os.environ | {"PATH": path},
                capture_output=True,
                check=False,
            )
        )
        self.assertTrue(os.path.isfile(os.path.join(self.folder, "priorities.svg")))

    def test_a_documented_trace(self):
        self.assert_done(self.simulate(self.write("synthetic.yaml", self.documented("yaml"))))


if __name__ == "__main__":
    main()
