"""quantize and imatrix: the files they write, and what the models in them still know."""

import filecmp
import json
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import time

from huggingface_folder import change_json, gguf, write_folder, write_json
from support import (
    BINARY,
    SMOLLM2,
    TINY,
    CommandTest,
    backplane,
    data,
    deviation,
    logits,
    main,
    needs_data,
    needs_smollm2,
    rms,
    scaled,
)

TOKENS = [1, 5, 9, 40, 77]
STORIES = data("stories260k", "stories260k-f32.gguf")  # rows of 64 and 172


def inspected(path):
    return json.loads(backplane("inspect", path, "--json").stdout)


class ImatrixFile:
    """GGUF as far as importance matrices need it: metadata and {tensor name: (dims, values)}."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes, self.at = file.read(), 0
        assert self.take("<4sI") == (b"GGUF", 3)
        n_tensors, n_entries = self.take("<QQ")
        self.metadata = {self.text(): self.value(*self.take("<I")) for _ in range(n_entries)}
        infos = [self.info() for _ in range(n_tensors)]
        start = (self.at + 31) // 32 * 32
        self.tensors = {name: (dims, self.floats(start + at, dims)) for name, dims, at in infos}

    def take(self, layout):
        values = struct.unpack_from(layout, self.bytes, self.at)
        self.at += struct.calcsize(layout)
        return values

    def text(self):
        (size,) = self.take("<Q")
        return self.take(f"<{size}s")[0].decode()

    def value(self, kind):
        if kind == 9:
            element, n = self.take("<IQ")
            return [self.value(element) for _ in range(n)]
        return self.text() if kind == 8 else self.take({4: "<I"}[kind])[0]

    def info(self):
        name = self.text()
        (n_dims,) = self.take("<I")
        dims = list(self.take(f"<{n_dims}Q"))[::-1]
        kind, offset = self.take("<IQ")
        assert kind == 0
        return name, dims, offset

    def floats(self, at, dims):
        return struct.unpack_from(f"<{dims[0] * dims[1]}f", self.bytes, at)


def distance(a, b):
    return rms([x - y for x, y in zip(a, b)]) / deviation(b)


class QuantizeTest(CommandTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def quantize(self, kind, *options, model=TINY, name=None):
        path = self.path(name or f"{kind}.gguf")
        done = backplane("quantize", model, path, "--type", kind, *options)
        self.assert_done(done)
        return path, done.stderr.decode()


class Files(QuantizeTest):
    def types(self, *options):
        path, _ = self.quantize(*options, name="model.gguf")
        return {tensor["name"]: tensor["dtype"] for tensor in inspected(path)["tensors"]}

    def test_hold_the_types_of_the_mixture(self):
        types = self.types("q4_k_m")
        self.assertEqual(types["token_embd.weight"], "q6_K")  # the output too
        self.assertEqual(types["blk.0.attn_q.weight"], "q4_K")
        self.assertEqual(types["blk.0.attn_norm.weight"], "f32")
        self.assertEqual(types["output_norm.weight"], "f32")
        # Of two layers the second is in the last eighth.
        self.assertEqual(types["blk.0.ffn_down.weight"], "q4_K")
        self.assertEqual(types["blk.1.ffn_down.weight"], "q6_K")
        self.assertEqual(os.listdir(self.folder), ["model.gguf"])

    def test_are_foretold(self):
        done = backplane("quantize", TINY, "--dry-run", "--type", "q4_k_m")
        *tensors, total = self.assert_done(done).decode().splitlines()
        foretold = {name: after for name, _, _, after in (line.split() for line in tensors)}
        self.assertEqual(os.listdir(self.folder), [])
        self.assertEqual(foretold, self.types("q4_k_m"))
        self.assertIn("bits a weight", total)

    def test_are_written_or_foretold(self):
        for options in ([], [self.path("x"), "--dry-run"]):
            done = backplane("quantize", TINY, *options, "--type", "Q8_0")
            self.assertEqual(done.returncode, 2)
            self.assertIn("--dry-run", done.stderr.decode())

    def test_hold_one_type_where_that_is_asked_for(self):
        types = self.types("Q3_K_M", "--pure")
        self.assertEqual(set(types.values()), {"q3_K", "f32"})

    def test_keep_tokenizer_and_parameters(self):
        before, after = inspected(TINY), inspected(self.quantize("Q8_0")[0])
        for key in ["architecture", "hyperparameters", "tokenizer"]:
            self.assertEqual(after[key], before[key])

    def test_know_almost_what_the_model_knew(self):
        expected = logits(TINY, TOKENS, "--backend", "reference")
        bounds = {"F32": 1e-5, "F16": 5e-3, "Q6_K": 0.05, "Q4_K_M": 0.2, "IQ4_XS": 0.2, "Q2_K": 0.9}
        for kind, bound in bounds.items():
            with self.subTest(kind=kind):
                path, _ = self.quantize(kind)
                found = logits(path, TOKENS, "--backend", "reference")
                self.assertLess(distance(found, expected), bound)

    def test_of_one_bit_come_with_advice(self):
        _, notes = self.quantize("IQ2_XS")
        self.assertIn("--imatrix", notes)

    def test_are_the_same_for_any_number_of_threads(self):
        one, _ = self.quantize("Q4_0", "--threads", "1", name="one")
        many, _ = self.quantize("Q4_0", "--threads", "5", name="many")
        with open(one, "rb") as a, open(many, "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_of_quantised_files_come_with_a_note(self):
        path, notes = self.quantize("F32")
        self.assertNotIn("quantised already", notes)
        _, notes = self.quantize("Q4_0")
        self.assertIn("quantised already", notes)
        _, notes = self.quantize("Q4_0", model=path)
        self.assertNotIn("quantised already", notes)

    @needs_data
    def test_say_which_rows_no_block_divides(self):
        _, notes = self.quantize("Q4_K_M", model=STORIES)
        self.assertRegex(notes, r"note: \S+weight: rows of 64 are no multiple of 256.*q5_0 instead")
        rows = re.findall(r"note: \S+: (rows of \d+ .*) instead", notes)
        self.assertEqual(len(rows), len(set(rows)), notes)
        self.assertRegex(notes, r"instead, as for \d+ more\n")


class Interrupted(CommandTest):
    def partials(self, out):
        prefix = os.path.basename(out) + ".partial-"
        return [name for name in os.listdir(self.folder) if name.startswith(prefix)]

    def start(self, out):
        """Quantising, with half a file written."""
        process = subprocess.Popen(
            [BINARY, "quantize", SMOLLM2, out, "--type", "Q3_K_M", "--threads", "1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        end = time.monotonic() + scaled(60)
        while not self.partials(out) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        self.assertEqual(self.partials(out), [f"{os.path.basename(out)}.partial-{process.pid}"])
        return process

    @needs_smollm2
    def test_leaves_no_half_file(self):
        out = os.path.join(self.folder, "out.gguf")
        for sent in (signal.SIGINT, signal.SIGTERM):
            process = self.start(out)
            process.send_signal(sent)
            self.assertEqual(process.wait(), -sent)
            self.assertEqual(os.listdir(self.folder), [])

    @needs_smollm2
    def test_what_a_killed_one_leaves_goes_with_the_next(self):
        out = os.path.join(self.folder, "out.gguf")
        killed = self.start(out)
        killed.kill()
        killed.wait()
        self.assertEqual(len(self.partials(out)), 1)
        other = self.start(os.path.join(self.folder, "other.gguf"))
        self.assert_done(backplane("quantize", TINY, out, "--type", "Q8_0"))
        self.assertEqual(self.partials(out), [])
        self.assertEqual(len(self.partials("other.gguf")), 1)
        other.kill()


class WhileLoading(QuantizeTest):
    def test_gives_the_logits_of_the_file(self):
        for kind in ["q5_0", "Q3_K_M"]:
            with self.subTest(kind=kind):
                path, _ = self.quantize(kind)
                for backend in ["reference", "cpu"]:
                    self.assertEqual(
                        logits(TINY, TOKENS, "--quantize", kind, "--backend", backend),
                        logits(path, TOKENS, "--backend", backend),
                    )

    @needs_data
    def test_reads_the_folders_of_checkpoints(self):
        path, _ = self.quantize("Q8_0", model=STORIES)
        folder = data("stories260k", "stories260k-hf")
        expected = logits(path, TOKENS, "--backend", "reference")
        found = logits(folder, TOKENS, "--quantize", "Q8_0", "--backend", "reference")
        self.assertLess(distance(found, expected), 1e-3)

    def check(self, kind):
        config = self.write(
            "c.yaml", f"models:\n  - id: a\n    source: {TINY}\n    quantize: {kind}\n"
        )
        return backplane("serve", config, "--check")

    def test_is_a_key_of_the_configuration(self):
        self.assert_done(self.check("q8_0"))
        self.assert_one_clear_line(self.check("q8_o"), "c.yaml:4:15", "q8_o", "nearest: Q8_0")


class Importance(QuantizeTest):
    TEXT = "What is the capital of Italy? The capital of Italy is Rome. Count to ten. " * 40

    def measure(self, *options):
        path = self.path("importance.gguf")
        text = self.write("text", self.TEXT)
        self.assert_done(
            backplane("imatrix", TINY, text, "--output", path, "--context", "128", *options)
        )
        return path

    def test_has_the_sums_of_every_product_inside_the_layers(self):
        file = ImatrixFile(self.measure())
        self.assertEqual(file.metadata["general.type"], "imatrix")
        self.assertEqual(file.metadata["imatrix.datasets"], ["text"])
        self.assertEqual(file.metadata["imatrix.chunk_size"], 128)
        n_tokens = 128 * file.metadata["imatrix.chunk_count"]
        products = [
            t
            for t in inspected(TINY)["tensors"]
            if t["name"].startswith("blk.") and len(t["dims"]) == 2
        ]
        self.assertEqual(len(file.tensors), 2 * len(products))
        for product in products:
            dims, sums = file.tensors[product["name"] + ".in_sum2"]
            self.assertEqual(dims, [1, product["dims"][1]])
            self.assertGreater(min(sums), 0)
            self.assertEqual(file.tensors[product["name"] + ".counts"], ([1, 1], (n_tokens,)))
        # q, k and v have the same input.
        q, k = (file.tensors[f"blk.0.attn_{name}.weight.in_sum2"] for name in "qk")
        self.assertEqual(q, k)

    def test_changes_what_quantize_writes(self):
        importance = self.measure()
        plain, _ = self.quantize("Q4_1", name="plain.gguf")
        weighted, _ = self.quantize("Q4_1", "--imatrix", importance, name="weighted.gguf")
        with open(plain, "rb") as a, open(weighted, "rb") as b:
            self.assertFalse(a.read()[-100000:] == b.read()[-100000:])
        expected = logits(TINY, TOKENS, "--backend", "reference")
        found = logits(weighted, TOKENS, "--backend", "reference")
        self.assertLess(distance(found, expected), 0.35)

    def test_of_too_short_a_text_is_refused(self):
        text = self.write("short", "Hello")
        done = backplane("imatrix", TINY, text, "--output", self.path("importance.gguf"))
        self.assert_one_clear_line(done, text, "--context")

    def test_must_be_a_file_of_its_kind(self):
        done = backplane("quantize", TINY, self.path("x"), "--type", "Q4_1", "--imatrix", TINY)
        self.assert_one_clear_line(done, TINY, "backplane imatrix")

    @needs_data
    def test_of_another_model_is_refused(self):
        done = backplane(
            "quantize", STORIES, self.path("x"), "--type", "Q4_1", "--imatrix", self.measure()
        )
        self.assert_one_clear_line(done, "another model")
        self.assertFalse(os.path.exists(self.path("x")))


class Refusals(QuantizeTest):
    def test_are_one_line_with_the_place(self):
        self.assert_one_clear_line(
            backplane("quantize", "/nowhere", self.path("x"), "--type", "Q8_0"), "/nowhere"
        )
        self.assert_one_clear_line(
            backplane("quantize", TINY, "/nowhere/x", "--type", "Q8_0"), "/nowhere/x"
        )
        self.assertEqual(os.listdir(self.folder), [])

    def test_keep_what_is_read(self):
        own, name = self.path("own.gguf"), self.path("name.gguf")
        text = self.write("text", Importance.TEXT)
        shutil.copyfile(TINY, own)
        os.symlink(own, name)
        measure = ("imatrix", own, text, "--context", "128", "--output")
        for output in (own, name):
            done = backplane("quantize", own, output, "--type", "Q4_0")
            self.assert_one_clear_line(done, output, "another name")
            self.assert_one_clear_line(backplane(*measure, output), output, "another name")
        self.assert_one_clear_line(backplane(*measure, text), text, "another name")
        self.assertTrue(filecmp.cmp(own, TINY, shallow=False))
        with open(text) as file:
            self.assertEqual(file.read(), Importance.TEXT)

    def test_keep_what_is_no_file(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        for output in (pipe, self.folder):
            done = backplane("quantize", TINY, output, "--type", "Q4_0")
            self.assert_one_clear_line(done, output, "regular file")
        self.assertEqual(os.listdir(self.folder), ["pipe"])
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))

    def test_of_an_unknown_type_name_the_nearest(self):
        done = backplane("quantize", TINY, self.path("x"), "--type", "Q4_K_N")
        self.assertEqual(done.returncode, 2)
        self.assertIn("nearest: Q4_K_", done.stderr.decode())

    def test_of_folders_name_what_gguf_has_no_place_for(self):
        folder = self.path("folder")
        os.mkdir(folder)
        write_folder(folder)
        for kind in ("Lowercase", "NFKC"):
            change_json(folder, "tokenizer.json", normalizer={"type": kind})
            done = backplane("quantize", folder, self.path("x"), "--type", "Q8_0")
            self.assert_one_clear_line(done, folder, "normalizer")


class Folders(QuantizeTest):
    """Hugging Face folders become what the GGUF file of the same model is."""

    def setUp(self):
        super().setUp()
        self.source = self.path("model")
        os.mkdir(self.source)
        write_folder(self.source)

    def written(self, kind):
        out = self.path(f"{kind}.gguf")
        self.assert_done(backplane("quantize", self.source, out, "--type", kind))
        return out

    def test_compute_the_same(self):
        out = self.written("F32")
        before, after = (
            logits(model, TOKENS, "--backend", "reference") for model in (self.source, out)
        )
        self.assertLess(distance(after, before), 1e-5)

    def test_keep_their_tokenizer_and_template(self):
        out = self.written("Q8_0")
        request = {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True}
        for command, text in [
            ("tokenize", "Hello there,  don't\n 12345 na\u00efve <|im_end|>".encode()),
            ("render", json.dumps(request).encode()),
        ]:
            answers = [
                self.assert_done(backplane(command, model, stdin=text))
                for model in (self.source, out)
            ]
            self.assertEqual(*answers)

    def test_keep_tokenizers_of_other_kinds(self):
        mark = "\u2581"
        texts = [*"abcdefghilnorstu,.", mark, "th", mark + "the", "ing", mark + "an"]
        control = [{"id": i, "content": c, "special": True} for i, c in enumerate(("<unk>", "</s>"))]
        words = ["<unk>", "</s>", *"abcdefghilnorstu,.", "the", *(f"##{c}" for c in "abcdeghinrst"), "##ing"]
        metaspace = {"type": "Metaspace", "replacement": mark, "prepend_scheme": "never", "split": False}
        unigram = {
            "pre_tokenizer": metaspace,
            "decoder": metaspace,
            "model": {
                "type": "Unigram",
                "unk_id": 0,
                "vocab": [["<unk>", 0.0], ["</s>", 0.0], *([t, -3.0 - i / 8] for i, t in enumerate(texts))],
            },
        }
        wordpiece = {
            "normalizer": {"type": "BertNormalizer", "lowercase": False},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": {"type": "WordPiece"},
            "model": {"type": "WordPiece", "unk_token": "<unk>", "vocab": {w: i for i, w in enumerate(words)}},
        }
        for name, tokenizer in (("t5", unigram), ("bert", wordpiece)):
            write_json(self.source, "tokenizer.json", {**tokenizer, "added_tokens": control})
            write_json(self.source, "tokenizer_config.json", {})
            out = self.written("F32")
            self.assertEqual(gguf.Reader(out).metadata["tokenizer.ggml.model"], name)
            text = "The anthing  string, and \u00e9\u4e2d th.\n".encode()
            ids, written = (
                json.loads(self.assert_done(backplane("tokenize", model, stdin=text))) for model in (self.source, out)
            )
            self.assertEqual(ids, written)
            self.assertGreater(len(set(ids)), 8)

    def test_have_the_tensors_of_the_gguf_file(self):
        tensors = [
            {(t["name"], tuple(t["dims"])) for t in inspected(model)["tensors"]}
            for model in (self.written("F32"), TINY)
        ]
        self.assertEqual(*tensors)

    def test_have_importance_matrices_in_the_names_of_gguf(self):
        text = self.write("text", Importance.TEXT)
        files = []
        for model in (self.source, TINY):
            path = self.path("importance.gguf")
            self.assert_done(
                backplane("imatrix", model, text, "--output", path, "--context", "128", "--chunks", "1",
                          "--backend", "reference")
            )
            files.append(ImatrixFile(path))
        ours, theirs = files
        self.assertEqual(set(ours.tensors), set(theirs.tensors))
        for name, (dims, values) in theirs.tensors.items():
            found = ours.tensors[name]
            self.assertEqual(found[0], dims)
            for a, b in zip(found[1], values):
                self.assertLess(abs(a - b), 1e-3 * abs(b) + 1e-6)


if __name__ == "__main__":
    main()
