"""Models with state, served: whoever runs beside a request, its answer is that of a run alone."""

import concurrent.futures
import json
import os

import numpy as np
from huggingface_folder import gguf, tokenizer, write_json, write_shard
from support import SOURCE, TINY, CommandTest, Server, backplane, main, tiny_model

PROMPTS = ["Hi", "What is the capital of Italy?", "one two three " * 9, "The quick brown fox " * 14]
N_TOKENS = 12


def nested(metadata):
    config = {}
    for key, value in metadata.items():
        *parts, last = key.split(".")[1:]
        inner = config
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return config


def write_hybrid(folder, family):
    """The tiny model of a family as tests know its shapes, random, with the vocabulary of the tiny model."""
    path = os.path.join(SOURCE, "tests", "data", "architectures", family + ".json")
    with open(path, encoding="utf-8") as file:
        form = json.load(file)["huggingface"]
    meta = gguf.Reader(TINY).metadata
    texts = meta["tokenizer.ggml.tokens"]
    config = nested(form["metadata"])
    old, config["vocab_size"] = config["vocab_size"], len(texts)
    config["max_position_embeddings"] = 1024
    random = np.random.default_rng(5)
    tensors = {}
    for name, shape in form["tensors"].items():
        shape = [len(texts) if n == old else n for n in shape]
        deviation = 0.1 if len(shape) == 1 else shape[-1] ** -0.5
        values = random.normal(0, deviation, shape) + (1 if "norm" in name else 0)
        tensors[name] = np.ascontiguousarray(values, np.float32)
    write_shard(os.path.join(folder, "model.safetensors"), tensors)
    write_json(folder, "config.json", config)
    write_json(folder, "tokenizer.json", tokenizer(meta))
    write_json(folder, "tokenizer_config.json", {"eos_token": texts[meta["tokenizer.ggml.eos_token_id"]]})


class Hybrid(CommandTest):
    def serve(self, scheduler):
        return Server(tiny_model(source=self.folder, context=512, scheduler=scheduler))

    @staticmethod
    def answers(server, prompt, n=1):
        fields = {"max_tokens": N_TOKENS, "temperature": 0, "ignore_eos": True, "n": n}
        return [choice["text"] for choice in server.complete(prompt, **fields)["choices"]]

    def check(self, family, state_bytes):
        write_hybrid(self.folder, family)
        found = json.loads(self.assert_done(backplane("inspect", self.folder, "--json")))
        self.assertEqual(found["memory"]["state_bytes"], state_bytes)
        with self.serve({"max_step_tokens": 512}) as server:
            server.wait_logged("no prefix cache")
            alone = {prompt: self.answers(server, prompt)[0] for prompt in PROMPTS}
        self.assertEqual(len(set(alone.values())), len(PROMPTS))
        # Chunks of prompts among decodes, and more choices than sequences may run.
        with self.serve({"max_step_tokens": 16, "max_sequences": 4}) as server:
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                asked = [(prompt, pool.submit(self.answers, server, prompt, n)) for prompt in PROMPTS
                         for n in (1, 3)]
                for prompt, answer in asked:
                    for text in answer.result():
                        self.assertEqual(text, alone[prompt])
            server.wait_idle()

    def test_gated_delta_nets(self):
        self.check("qwen3next-plain", 4 * 4 * (124 * 3 + 6 * 10 * 14))

    def test_short_convolutions(self):
        self.check("lfm2-plain", 4 * 3 * 48 * 2)


if __name__ == "__main__":
    main()
