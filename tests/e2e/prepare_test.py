"""Where the cpu backend keeps weights: the same logits everywhere, and the memory that it promises."""

import contextlib
import itertools
import json
import os
import re
import string
import threading

from scripted_model import byte_alphabet, write_gguf
from support import (
    SMOLLM2,
    CommandTest,
    Server,
    backplane,
    logits,
    main,
    needs_own_allocator,
    needs_smollm2,
    scaled,
    smollm2_model,
)

TOKENS = [1, 504, 260, 253, 338, 28, 732]
OVERHEAD = 64 << 20  # bytes of anonymous memory beside weights and KV cache
VOCABULARY = 40 << 20  # of these where a small model has 150,000 tokens, while it is loaded too


def anonymous_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(r"RssAnon:\s+(\d+) kB", file.read())[1]) * 1024


class PeakOf:
    """The largest anonymous memory of a server while the block runs."""

    def __init__(self, pid):
        self.pid, self.bytes, self.ended = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.ended.wait(0.005):
            self.bytes = max(self.bytes, anonymous_bytes(self.pid))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def kv_bytes(server):
    return float(server.wait_logged(r"KV blocks of .* \(([\d.]+) MB\)")[1]) * 1e6


def write_wordy_model(path, n_vocab=150_000, width=32):
    """A llama of one layer of zeros with tokens of up to four letters, each joined by one merge."""
    letters = string.ascii_lowercase
    tokens, merges = list(byte_alphabet().values()), []
    for n in (2, 3, 4):
        for text in map("".join, itertools.product(letters, repeat=n)):
            if len(tokens) == n_vocab:
                break
            tokens.append(text)
            merges.append(f"{text[:-1]} {text[-1]}")
    shapes = {"token_embd": (n_vocab, width), "output_norm": (width, None)}
    shapes |= {f"blk.0.{name}": (width, None) for name in ("attn_norm", "ffn_norm")}
    shapes |= {
        f"blk.0.{name}": (width, width)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    }
    metadata = {
        "general.architecture": "llama",
        "llama.context_length": 2048,
        "llama.embedding_length": width,
        "llama.block_count": 1,
        "llama.feed_forward_length": width,
        "llama.attention.head_count": 1,
        "llama.attention.head_count_kv": 1,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": width,
        "llama.vocab_size": n_vocab,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * n_vocab,
        "tokenizer.ggml.merges": merges,
    }
    write_gguf(path, metadata, {
        f"{name}.weight": (rows, columns, bytes(4 * rows * (columns or 1)))
        for name, (rows, columns) in shapes.items()
    })


class LargeVocabulary(CommandTest):
    @needs_own_allocator
    def test_loading_and_serving_take_little_memory(self):
        path = os.path.join(self.folder, "wordy.gguf")
        write_wordy_model(path)
        model = {"id": "wordy", "source": path, "context": 512,
                 "backend": {"plugin": "cpu", "prepare": "none", "kv": {"memory": "4MiB"}}}
        with Server(model, ready=False) as server:
            with PeakOf(server.process.pid) as peak:
                server.wait_ready()
                server.complete("once upon a time " * 20, max_tokens=4)
        self.assertGreater(peak.bytes, 0)
        self.assertLess(peak.bytes, kv_bytes(server) + VOCABULARY)


@needs_smollm2
class Prepare(CommandTest):
    def cache_options(self, prepare="cache"):
        return ("--set", f"prepare={prepare}", "--set", f"cache_folder={self.folder}/cache")

    def setUp(self):
        super().setUp()
        os.mkdir(os.path.join(self.folder, "cache"))

    def cache_files(self):
        return [os.path.join(at, name)
                for at, _, names in os.walk(self.folder) for name in names]

    def assert_all_ways_agree(self, model):
        expected = logits(model, TOKENS, "--set", "prepare=repack")
        self.assertEqual(logits(model, TOKENS, "--set", "prepare=none"), expected)
        for _ in ("written", "mapped"):
            self.assertEqual(logits(model, TOKENS, *self.cache_options()), expected)

    def test_all_ways_give_the_same_logits(self):
        self.assert_all_ways_agree(SMOLLM2)
        self.assertEqual(len(self.cache_files()), 1)

    def test_all_ways_give_the_same_logits_in_bf16(self):
        model = os.path.join(self.folder, "bf16.gguf")
        self.assert_done(backplane("quantize", "--type", "BF16", SMOLLM2, model))
        self.assert_all_ways_agree(model)

    def test_a_damaged_file_is_made_anew(self):
        expected = logits(SMOLLM2, TOKENS, *self.cache_options())
        (path,) = self.cache_files()
        size = os.path.getsize(path)
        for damage in (lambda f: f.truncate(size // 2), lambda f: f.truncate(0),
                       lambda f: f.write(b"not strips"), lambda f: (f.seek(60), f.write(b"\xff"))):
            with open(path, "r+b") as file:
                damage(file)
            self.assertEqual(logits(SMOLLM2, TOKENS, *self.cache_options()), expected)
            self.assertEqual(os.path.getsize(path), size)
            self.assertEqual(self.cache_files(), [path])

    def test_one_cut_short_in_use_is_named(self):
        backend = {"plugin": "cpu", "prepare": "cache", "cache_folder": self.folder + "/cache"}
        server = Server(smollm2_model(backend=backend))
        self.addCleanup(server.stop)
        (path,) = self.cache_files()
        os.truncate(path, 0)
        with contextlib.closing(server.send("/v1/completions", {"prompt": "once"})):
            self.assertEqual(server.process.wait(scaled(60)), 1)
        server.wait_logged(f"file of prepared weights {re.escape(path)} was truncated or "
                           "replaced while in use; delete it, it is made again")

    def test_two_processes_at_once(self):
        found = [None, None]

        def run(i):
            found[i] = logits(SMOLLM2, TOKENS, *self.cache_options())

        threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertIsNotNone(found[0])
        self.assertEqual(found[0], found[1])
        self.assertEqual(len(self.cache_files()), 1)

    def test_a_folder_that_cannot_be_written_costs_a_warning(self):
        plain = self.write("plain", "no folder")
        done = backplane("logits", SMOLLM2, "--tokens", "1,2", "--set", "prepare=cache",
                         "--set", f"cache_folder={plain}")
        self.assert_done(done)
        self.assertIn("packed weights cannot be kept", done.stderr.decode())

    @needs_own_allocator
    def test_mapped_weights_take_no_memory_of_their_own(self):
        logits(SMOLLM2, TOKENS, *self.cache_options())
        for prepare in ("none", "cache"):
            backend = {"plugin": "cpu", "prepare": prepare, "cache_folder": self.folder + "/cache",
                       "kv": {"memory": "32MiB"}}
            with Server(smollm2_model(context=512, backend=backend)) as server:
                with PeakOf(server.process.pid) as peak:
                    server.complete("once upon a time " * 40, max_tokens=20)
            self.assertGreater(peak.bytes, 0)
            self.assertLess(peak.bytes, kv_bytes(server) + OVERHEAD, prepare)

    def test_inspect_tells_what_fits(self):
        memory = json.loads(self.assert_done(backplane("inspect", SMOLLM2, "--json")))["memory"]
        self.assertGreater(memory["available_bytes"], 0)
        self.assertIn(memory["chosen"], memory["modes"])
        repack, cache, none = (memory["modes"][mode] for mode in ("repack", "cache", "none"))
        self.assertGreater(repack["own_bytes"], 80e6)
        self.assertEqual(cache["own_bytes"], 0)
        self.assertEqual(none["own_bytes"], 0)
        self.assertGreater(none["mapped_bytes"], 80e6)
        line = self.assert_done(backplane("inspect", SMOLLM2)).decode()
        self.assertRegex(line, r"(?m)^memory +\d+ MB there; weights: none .*; chosen: \w+$")


if __name__ == "__main__":
    main()
