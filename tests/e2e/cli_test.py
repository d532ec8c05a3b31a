"""The command line: exit codes, and what each command prints."""

import json
import math
import os
import resource
import struct
import subprocess
import unittest

from support import (
    BINARY,
    TINY,
    CommandTest,
    backplane,
    data,
    deviation,
    logits,
    main,
    needs_data,
    read_json,
    rms,
    tiny_expected,
)

COMMANDS = [
    "serve",
    "run",
    "plugins",
    "inspect",
    "tokenize",
    "render",
    "logits",
    "perplexity",
    "bench",
    "quantize",
    "imatrix",
    "simulate",
]


class ExitCodes(CommandTest):
    def test_help_is_everywhere(self):
        for arguments in [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)]:
            with self.subTest(arguments=arguments):
                self.assertNotEqual(self.assert_done(backplane(*arguments)), b"")

    def test_a_wrong_command_line_is_2(self):
        wrong = [
            [],
            ["dance"],
            ["--dance"],
            ["inspect"],
            ["inspect", TINY, "--dance"],
            ["logits", TINY],
            ["logits", TINY, "--tokens", "1,two"],
            ["render"],
            ["perplexity", TINY],
            ["perplexity", TINY, "text", "--context", "1"],
            ["perplexity", TINY, "text", "--kv", "q9"],
            ["logits", TINY, "--tokens", "1", "--kv", "f16,"],
            ["tokenize", TINY, "--decode", "--plain"],
            ["tokenize", TINY, "--no-special", "--decode"],
            ["run", TINY, "--temperature", "-1"],
            ["bench", TINY, "--sequences", "0"],
            ["bench", TINY, "--prompt", "0", "--generate", "0"],
            ["run", TINY, "--prompt", "a", "--max-tokens", ""],
            ["run", TINY, "--prompt", "a", "--seed", "-1"],
            ["run", TINY, "--prompt", "a", "--seed", "18446744073709551616"],
            ["run", TINY, "--prompt", "a", "--context", "4294967295"],
            ["logits", TINY, "--tokens", ""],
        ]
        for arguments in wrong:
            with self.subTest(arguments=arguments):
                done = backplane(*arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stdout, b"")
                self.assertNotEqual(done.stderr, b"")

    def test_a_command_that_is_none_is_named(self):
        self.assertIn(b"'serv'; nearest: serve", backplane("serv").stderr)

    def test_options_may_stand_before_the_model(self):
        for options in [["--set", "prepare=none"], ["--tokens", "1,2"]]:
            others = ["--tokens", "1,2"] if options[0] == "--set" else ["--backend", "reference"]
            self.assert_done(backplane("logits", *options, TINY, *others))

    def test_other_failures_are_1_and_name_the_file(self):
        for name in ["inspect", "tokenize", "render", "bench", "run", "serve"]:
            with self.subTest(command=name):
                self.assert_one_clear_line(backplane(name, "/nowhere/model"), "/nowhere/model")
        self.assert_one_clear_line(
            backplane("logits", "/nowhere/model", "--tokens", "1"), "/nowhere/model"
        )
        self.assert_one_clear_line(
            backplane("logits", TINY, "--tokens", "1", "--backend", "cpuu"), "cpuu", "cpu"
        )


class Inputs(CommandTest):
    """What never ends or is no text is refused by name."""

    @staticmethod
    def short_of_memory(*arguments, stdin="/dev/null"):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (3_000_000 << 10,) * 2)

        with open(stdin, "rb") as file:
            return subprocess.run(
                [BINARY, *arguments], stdin=file, capture_output=True, check=False, preexec_fn=limit
            )

    def refuse_endless(self, name, *arguments, stdin="/dev/null"):
        with self.subTest(arguments=arguments):
            done = self.short_of_memory(*arguments, stdin=stdin)
            self.assert_one_clear_line(done, f"{name}: larger than", "MiB", "give a part of it")

    @unittest.skipIf(os.environ.get("BACKPLANE_SANITIZED"), "a sanitizer takes more addresses than that")
    def test_that_never_end(self):
        zero = "/dev/zero"
        self.refuse_endless(zero, "perplexity", TINY, zero)
        self.refuse_endless(zero, "imatrix", TINY, zero, "--output", self.write("out", ""))
        self.refuse_endless(zero, "render", "--template", zero)
        for arguments in [["tokenize", TINY], ["tokenize", TINY, "--decode"], ["render", TINY]]:
            self.refuse_endless("standard input", *arguments, stdin=zero)

    def test_pipes_that_nobody_writes_to(self):
        pipe = os.path.join(self.folder, "some.plugin.yaml")
        os.mkfifo(pipe)
        self.assert_one_clear_line(backplane("serve", pipe), pipe, "not a regular file")
        self.assert_one_clear_line(backplane("perplexity", TINY, pipe), pipe, "nobody writes")
        done = backplane("plugins", env={"BACKPLANE_PLUGIN_PATH": self.folder})
        self.assertIn(f"{pipe}: not a regular file", (done.stdout + done.stderr).decode())

    def test_a_prompt_that_is_not_utf_8(self):
        done = backplane("run", TINY, "--prompt", os.fsdecode(b"\xff\xfe"))
        self.assert_one_clear_line(done, "--prompt: is not UTF-8")

    def test_a_template_that_is_wrong_names_the_file(self):
        with open(TINY, "rb") as file:
            model = file.read()
        self.assertIn(b"{%", model)
        path = self.write("changed.gguf", model.replace(b"{%", b"{{", 1))
        for command in [["render", path], ["run", path, "--prompt", "a"]]:
            self.assert_one_clear_line(backplane(*command), f"{path}: chat template 'default'")


class StandardOutput(CommandTest):
    COMMANDS = [
        ["inspect", TINY],
        ["inspect", TINY, "--json"],
        ["plugins"],
        ["logits", TINY, "--tokens", "1"],
        ["tokenize", TINY],
        ["run", TINY, "--prompt", "Count without stopping.", "--temperature", "0"],
    ]

    def end(self, command, stdout):
        done = subprocess.run(
            [BINARY, *command], input=b"Hi", stdout=stdout, stderr=subprocess.PIPE, check=False
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr.decode(), r"\Abackplane: [^\n]+\n\Z")

    def test_that_is_full_or_closed_is_a_failure(self):
        for command in self.COMMANDS:
            with self.subTest(command=command):
                with open("/dev/full", "wb") as full:
                    self.end(command, full)
                reading, writing = os.pipe()
                os.close(reading)
                with open(writing, "wb") as nobody_reads:
                    self.end(command, nobody_reads)


class Plugins(CommandTest):
    KEYS = {"id", "kind", "version", "abi", "path", "usable", "reason"}

    def rows(self, **env):
        return json.loads(self.assert_done(backplane("plugins", "--json", env=env)))

    def test_all_four_kinds_are_there(self):
        rows = {row["id"]: row for row in self.rows()}
        for plugin, kind in [
            ("gguf", "bp.format/1"),
            ("cpu", "bp.backend/1"),
            ("reference", "bp.backend/1"),
            ("samplers", "bp.sampler/1"),
            ("fcfs", "bp.scheduler/1"),
        ]:
            row = rows[plugin]
            self.assertEqual(set(row), self.KEYS)
            self.assertEqual(row["kind"], kind)
            self.assertIs(row["usable"], True, row)
            self.assertTrue(os.path.isfile(row["path"]), row)

    def test_an_unusable_plugin_is_listed_with_the_reason(self):
        self.write(
            "quantum.plugin.yaml",
            "schema: 1\nid: quantum\nversion: 1.0.0\nabi: '0.1'\nkinds: [bp.backend/1]\n"
            "library: quantum.so\ndescription: Not of this world.\n"
            "requires: {cpu: [qubits], libraries: []}\nconfig: {}\n",
        )
        self.write("quantum.so", b"never loaded")
        rows = {row["id"]: row for row in self.rows(BACKPLANE_PLUGIN_PATH=self.folder)}
        self.assertIs(rows["quantum"]["usable"], False)
        self.assertIn("qubits", rows["quantum"]["reason"])
        self.assertIs(rows["cpu"]["usable"], True)

    def test_the_human_table_names_them(self):
        table = self.assert_done(backplane("plugins")).decode()
        for plugin in ["gguf", "cpu", "reference", "samplers", "fcfs"]:
            self.assertRegex(table, rf"(?m)^{plugin}\s")


class Inspect(CommandTest):
    def test_json(self):
        found = json.loads(self.assert_done(backplane("inspect", TINY, "--json")))
        self.assertEqual(found["format"], "gguf")
        self.assertEqual(found["architecture"], "llama")
        self.assertEqual(found["hyperparameters"]["n_layers"], 2)
        tensors = {tensor["name"]: tensor for tensor in found["tensors"]}
        self.assertEqual(tensors["token_embd.weight"]["dims"], [512, 256])
        self.assertEqual(tensors["token_embd.weight"]["dtype"], "q8_0")
        self.assertEqual(found["tokenizer"]["pre"], "gpt-2")
        self.assertEqual(found["tokenizer"]["n_vocab"], 512)
        self.assertGreater(found["memory"]["weights_bytes"], 1_500_000)
        self.assertEqual(found["obstacles"], [])
        # Two layers, keys and values of 4 heads of 64, two bytes each.
        self.assertEqual(found["memory"]["kv_bytes_per_token"], 2 * 2 * 4 * 64 * 2)

    def test_human(self):
        text = self.assert_done(backplane("inspect", TINY)).decode()
        self.assertIn("llama", text)
        self.assertIn("token_embd.weight", text)

    def changed(self, *changes):
        """The tiny model with texts replaced by others of the same length."""
        with open(TINY, "rb") as file:
            model = file.read()
        for old, new in changes:
            self.assertIn(old, model)
            model = model.replace(old, new)
        return self.write("changed.gguf", model)

    def test_an_unknown_architecture(self):
        key = b"general.architecture" + struct.pack("<IQ", 8, 5)
        path = self.changed((key + b"llama", key + b"llamo"))
        self.assert_one_clear_line(
            backplane("inspect", path), path, "architecture 'llamo' is unknown; nearest: llama"
        )

    def test_a_missing_tensor(self):
        path = self.changed((b"blk.1.ffn_down.weight", b"blk.1.ffn_dawn.weight"))
        self.assert_one_clear_line(
            backplane("inspect", path), path, "missing tensor for weight ffn_down", "blk.1.ffn_down.weight"
        )

    def test_an_unknown_pre_tokenizer(self):
        key = b"tokenizer.ggml.pre" + struct.pack("<IQ", 8, 5)
        path = self.changed((key + b"gpt-2", key + b"gtp-2"))
        reason = "'gtp-2' is unknown; nearest: gpt-2"
        text = self.assert_done(backplane("inspect", path)).decode()
        lines = [line for line in text.splitlines() if line.startswith("cannot run")]
        self.assertEqual(len(lines), 1, text)
        self.assertIn(reason, lines[0])
        found = json.loads(self.assert_done(backplane("inspect", path, "--json")))
        self.assertEqual(len(found["obstacles"]), 1)
        self.assertIn(reason, found["obstacles"][0])
        self.assert_one_clear_line(backplane("run", path, "--prompt", "Hi"), reason)

    @needs_data
    def test_a_vocabulary_alone(self):
        path = data("tokenizers", "gpt-2.gguf")
        found = json.loads(self.assert_done(backplane("inspect", path, "--json")))
        self.assertEqual(found["tokenizer"]["n_vocab"], 50257)
        self.assertEqual(found["architecture"], "gpt2")
        self.assertEqual(len(found["obstacles"]), 1)
        text = self.assert_done(backplane("inspect", path)).decode()
        self.assertIn("50257", text)
        self.assertRegex(text, "(?m)^cannot run .*no tensors")

    def test_a_vocabulary_alone_cannot_run(self):
        with open(TINY, "rb") as file:
            model = file.read()
        path = self.write("no-tensors.gguf", model[:8] + struct.pack("<Q", 0) + model[16:])
        for command in [["run", path, "--prompt", "Hi"], ["logits", path, "--tokens", "1"]]:
            self.assert_one_clear_line(
                backplane(*command), path, "no tensors", "give the file with the model's weights"
            )


class Perplexity(CommandTest):
    TEXT = "The cat sat on the mat, and the dog looked on. " * 4

    def measure(self, text, *options):
        path = self.write("text", text)
        return json.loads(self.assert_done(backplane("perplexity", TINY, path, "--json", *options)))

    def scores(self, context):
        """Negative log-probabilities behind the middle of each window, from `logits`."""
        stdin = self.TEXT.encode()
        ids = json.loads(
            self.assert_done(backplane("tokenize", TINY, "--no-special", "--plain", stdin=stdin))
        )
        scores = []
        for first in range(0, len(ids) - context + 1, context):
            window = ids[first : first + context]
            for i in range(context // 2 + 1, context):
                row = logits(TINY, window[:i])
                largest = max(row)
                total = sum(math.exp(value - largest) for value in row)
                scores.append(math.log(total) + largest - row[window[i]])
        return scores

    def test_is_what_the_logits_say(self):
        scores = self.scores(16)
        mean = sum(scores) / len(scores)
        found = self.measure(self.TEXT, "--context", "16")
        self.assertEqual(found["tokens"], len(scores))
        self.assertEqual(found["windows"], len(scores) // 7)
        self.assertAlmostEqual(found["perplexity"] / math.exp(mean), 1, places=4)
        spread = (sum((x - mean) ** 2 for x in scores) / (len(scores) - 1)) ** 0.5
        error = math.exp(mean) * spread / len(scores) ** 0.5
        self.assertAlmostEqual(found["standard_error"] / error, 1, places=4)

    def test_steps_of_a_long_window_agree_with_a_short_one(self):
        # One window longer than the rows of a step, from f32 on: chunks change nothing.
        text = self.TEXT * 8
        found = self.measure(text, "--context", "300", "--backend", "reference")
        self.assertGreater(found["tokens"], 128)
        other = self.measure(text, "--context", "300", "--backend", "cpu")
        self.assertAlmostEqual(found["perplexity"] / other["perplexity"], 1, delta=0.05)

    def test_one_token_tells_nothing_of_the_error(self):
        found = self.measure("a b", "--context", "2")
        self.assertEqual(found["tokens"], 1)
        self.assertIsNone(found["standard_error"])
        done = backplane("perplexity", TINY, self.write("text", "a b"), "--context", "2")
        self.assertIn(b"+- unknown over 1 token", self.assert_done(done))

    def test_a_text_without_two_tokens_is_refused(self):
        for text in ["", "a"]:
            done = backplane("perplexity", TINY, self.write("short", text))
            self.assert_one_clear_line(done, "short", "two tokens")
        done = backplane("perplexity", TINY, "/nowhere/text")
        self.assert_one_clear_line(done, "/nowhere/text")
        self.assert_one_clear_line(backplane("perplexity", TINY, self.folder), self.folder)


class Tokenize(CommandTest):
    def ids(self, model, text, *options):
        return json.loads(self.assert_done(backplane("tokenize", model, *options, stdin=text)))

    def text(self, model, ids):
        stdin = json.dumps(ids).encode()
        return self.assert_done(backplane("tokenize", model, "--decode", stdin=stdin))

    def test_there_and_back(self):
        for case in tiny_expected()["tokenize"]:
            with self.subTest(text=case["text"]):
                text = case["text"].encode()
                self.assertEqual(self.ids(TINY, text), case["ids"])
                self.assertEqual(self.text(TINY, case["ids"]), text)

    def test_standard_input_is_taken_byte_for_byte(self):
        for text in [b"a\0b", b"line\r\n", b"\n", b" \t "]:
            with self.subTest(text=text):
                self.assertEqual(self.text(TINY, self.ids(TINY, text)), text)
        self.assertEqual(self.ids(TINY, b"\xff\xfe")[:0], [])  # no character, and no failure

    def test_special_tokens_in_the_text(self):
        text = b"hi<|im_end|>"
        end = self.ids(TINY, text)[-1]
        self.assertEqual(end, 2)
        plain = self.ids(TINY, text, "--plain")
        self.assertNotIn(2, plain)
        self.assertEqual(self.text(TINY, plain), text)

    @needs_data
    def test_no_special_adds_nothing(self):
        model = data("tokenizers", "llama-spm.gguf")
        plain = self.ids(model, b"Hello", "--no-special")
        self.assertEqual(self.ids(model, b"Hello"), [1, *plain])
        self.assertEqual(self.text(model, plain), b"Hello")

    @needs_data
    def test_published_vocabularies(self):
        for name in ["llama-spm", "gpt-2", "deepseek-coder"]:
            with open(data("tokenizers", name + ".inp"), "rb") as file:
                texts = file.read().split(b"\n__ggml_vocab_test__\n")
            with open(data("tokenizers", name + ".out"), "rb") as file:
                lines = file.read().decode().split("\n")
            model = data("tokenizers", name + ".gguf")
            for text, line in list(zip(texts, lines))[::5]:
                with self.subTest(name=name, text=text):
                    found = self.ids(model, text, "--no-special")
                    self.assertEqual(found, [int(id) for id in line.split()])

    def test_ids_that_are_none(self):
        deep = b"[" * 100_000 + b"]" * 100_000
        for stdin in [b"", b"{}", b"[1,", b"[512]", b"[-1]", b"[1.5]", b'["a"]', deep]:
            with self.subTest(stdin=stdin):
                self.assert_one_clear_line(backplane("tokenize", TINY, "--decode", stdin=stdin))


class Render(CommandTest):
    SPECIALS = {
        "bos_token": "<BOS>",
        "eos_token": "<EOS>",
        "pad_token": "<PAD>",
        "unk_token": "<UNK>",
        "now": "2026-01-15T12:00:00",
    }

    def test_a_model_brings_its_template(self):
        for case in tiny_expected()["chats"]:
            request = {"messages": case["messages"], "add_generation_prompt": True}
            done = backplane("render", TINY, stdin=json.dumps(request).encode())
            self.assertEqual(self.assert_done(done).decode(), case["prompt"])

    @needs_data
    def test_published_templates(self):
        expected = read_json(data("chat-templates", "expected.json"))
        self.assertGreater(len(expected), 10)
        for name, cases in expected.items():
            path = data("chat-templates", name + ".jinja")
            for number, case in enumerate(cases):
                with self.subTest(template=name, case=number):
                    self.check_template(path, case)

    def check_template(self, path, case):
        outcome = {"text", "error", "message"}
        request = {key: value for key, value in case.items() if key not in outcome}
        stdin = json.dumps(request | self.SPECIALS).encode()
        done = backplane("render", "--template", path, stdin=stdin)
        if "error" in case:
            self.assert_one_clear_line(done, case["message"])
        else:
            self.assertEqual(self.assert_done(done).decode(), case["text"])

    def test_what_is_no_request(self):
        deep = b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        for stdin in [b"", b"[]", b"{", b'{"messages": 5}', deep]:
            with self.subTest(stdin=stdin):
                self.assert_one_clear_line(backplane("render", TINY, stdin=stdin))

    def test_a_template_that_never_ends(self):
        endless = self.write(
            "endless.jinja",
            "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        )
        self.assert_one_clear_line(
            backplane("render", "--template", endless, stdin=b'{"messages": []}')
        )


class Logits(CommandTest):
    def test_tiny_by_both_backends(self):
        case = tiny_expected()["chats"][0]
        scale = deviation(case["first_logits"])
        for backend, bound in [("reference", 1e-4), ("cpu", 0.06)]:
            found = logits(TINY, case["ids"], "--backend", backend)
            self.assertEqual(len(found), 512)
            error = rms([a - b for a, b in zip(found, case["first_logits"])]) / scale
            self.assertLess(error, bound, backend)

    @needs_data
    def test_stories(self):
        models = read_json(data("logits", "expected.json"))["models"]
        for name, bound in [("f32", 0.005), ("f16", 0.005), ("q8_0", 0.06)]:
            for case in models[f"stories260k-{name}"]:
                found = logits(data("stories260k", f"stories260k-{name}.gguf"), case["prompt"])
                error = rms([a - b for a, b in zip(found, case["logits"])])
                self.assertLess(error / deviation(case["logits"]), bound, name)

    def test_ids_outside_the_vocabulary(self):
        self.assert_one_clear_line(backplane("logits", TINY, "--tokens", "1,512"), "512")
        self.assert_one_clear_line(backplane("logits", TINY, "--tokens=-1"), "-1")


class Run(CommandTest):
    @needs_data
    def test_greedy_text_of_stories(self):
        model = data("stories260k", "stories260k-f32.gguf")
        prompt = "Once upon a time"
        with open(data("stories260k", "greedy-f32.txt"), encoding="utf-8") as file:
            expected = file.read()
        done = backplane(
            "run", model, "--raw", "--prompt", prompt, "--max-tokens", 200, "--temperature", 0
        )
        self.assertEqual(prompt + self.assert_done(done).decode(), expected)

    def test_answers_a_message(self):
        for case in tiny_expected()["chats"]:
            if len(case["messages"]) > 1 or case["finish_reason"] != "stop":
                continue
            content = case["messages"][0]["content"]
            done = backplane("run", TINY, "--prompt", content, "--temperature", 0)
            self.assertEqual(self.assert_done(done).decode(), case["greedy_text"])

    def test_raw_continues(self):
        for case in tiny_expected()["completions"]:
            done = backplane(
                "run", TINY, "--raw", "--prompt", case["prompt"], "--temperature", 0,
                "--max-tokens", case["max_tokens"],
            )  # fmt: skip
            self.assertEqual(self.assert_done(done).decode(), case["greedy_text"])

    def test_the_same_seed_gives_the_same_text(self):
        def story(seed):
            return self.assert_done(
                backplane(
                    "run", TINY, "--prompt", "Tell me a story about a fox.", "--temperature", 3,
                    "--seed", seed, "--max-tokens", 40,
                )
            )  # fmt: skip

        self.assertEqual(story(7), story(7))
        self.assertNotEqual(story(7), story(8))

    def test_chats_over_a_pipe(self):
        done = backplane("run", TINY, "--temperature", 0, stdin=b"What is the capital of Italy?\n")
        self.assertEqual(self.assert_done(done).decode(), "The capital of Italy is Rome.\n")


class Bench(CommandTest):
    # Of a token in the tiny model's two layers: queries and output, keys and values, the MLP.
    PRODUCTS = 2 * 256 * (2 * 512 + 2 * 256 + 3 * 512)
    HEAD_PRODUCTS = 512 * 256

    def bench(self, *options):
        return backplane(
            "bench", TINY, "--prompt", 64, "--generate", 8, "--sequences", "1,3", *options
        )

    def test_json(self):
        done = self.bench("--depth", "0,100,100000", "--json")
        found = json.loads(self.assert_done(done))
        self.assertIn("skipped: depth 100000", done.stderr.decode())
        self.assertEqual(found["model"], TINY)
        machine = found["machine"]
        self.assertEqual(set(machine), {"cpu", "threads", "bandwidth_gb_s", "int8_tops"})
        self.assertGreater(machine["bandwidth_gb_s"], 0)
        self.assertGreater(machine["int8_tops"], 0)
        rows = [(row["kind"], row["sequences"], row["depth"]) for row in found["results"]]
        for depth in [0, 100]:
            self.assertIn(("prefill", 1, depth), rows)
            self.assertIn(("decode", 1, depth), rows)
            self.assertIn(("decode", 3, depth), rows)
        self.assertEqual(len(rows), 6)
        for row in found["results"]:
            self.assertGreater(row["tokens_per_s"], 0)
            self.assertEqual("share_of_bandwidth" in row, row["kind"] == "decode")

    # Shares are of what a token multiplies and a step reads.
    def test_shares(self):
        found = json.loads(self.assert_done(self.bench("--depth", "0,100", "--json")))
        peak = found["machine"]["int8_tops"] * 1e12
        read = {}
        for row in found["results"]:
            operations = row["share_of_int8_peak"] * peak / row["tokens_per_s"]
            head = self.HEAD_PRODUCTS if row["kind"] == "decode" else 0
            self.assertAlmostEqual(operations, 2 * (self.PRODUCTS + head), delta=1)
            if row["kind"] == "decode":
                steps_s = row["tokens_per_s"] / row["sequences"]
                bytes_s = row["share_of_bandwidth"] * row["bandwidth_gb_s"] * 1e9
                read[row["sequences"], row["depth"]] = bytes_s / steps_s
        file_size = os.path.getsize(TINY)
        self.assertTrue(0.7 * file_size < read[1, 0] < 1.1 * file_size, read)
        context = read[1, 100] - read[1, 0]  # 2048 bytes a token, in 12 bits a quarter less
        self.assertTrue(0.7 * 100 * 2048 < context < 1.1 * 100 * 2048, read)
        self.assertAlmostEqual(read[3, 100] - read[1, 100], 2 * context * 104 / 100, delta=1)

    def test_human(self):
        table = self.assert_done(self.bench("--depth", "0", "--threads", "1")).decode()
        self.assertRegex(table, r"(?m)^prefill +1 +0 +[\d.]+  \d+ % of the int8 peak$")
        both = r"\d+ % of the bandwidth, \d+ % of the int8 peak"
        self.assertRegex(table, rf"(?m)^decode +3 +0 +[\d.]+  {both}$")


if __name__ == "__main__":
    main()
