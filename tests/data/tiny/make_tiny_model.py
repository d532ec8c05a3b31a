#!/usr/bin/env python3
"""Makes the tests' model and what it must answer. Developer-only: numpy, and PyTorch to train.

make_tiny_model.py train       trains from nothing (about 8 minutes on one core), writes
                               tiny-chat.gguf, checks it against PyTorch, writes expected.json
make_tiny_model.py expected    writes expected.json for the tiny-chat.gguf that is there
"""

import hashlib
import json
import os
import random
import re
import sys
from types import SimpleNamespace

import numpy as np

import bpe
import corpus
import gguf
from reference import Reference

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL, EXPECTED = os.path.join(HERE, "tiny-chat.gguf"), os.path.join(HERE, "expected.json")
SEED, STEPS = 2026, 1000
# Widths of embedding, q (8 x 64), k and v (4 x 64) and feed-forward are multiples of 256, the
# largest block of any quantised type; the context is what the training reached.
SHAPE = SimpleNamespace(
    n_vocab=512,
    n_embd=256,
    n_layer=2,
    n_head=8,
    n_head_kv=4,
    head_dim=64,
    n_ff=512,
    norm_eps=1e-5,
    rope_base=10000.0,
    n_ctx=1024,
)
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

SYSTEM = "You are a helpful assistant."
# name, user messages and replies in turn (a leading system message first), most tokens, the answer
CHATS = [
    ("capital", ["What is the capital of Italy?"], 32, "The capital of Italy is Rome."),
    (
        "capital_system",
        [None, "What is the capital of France?"],
        32,
        "The capital of France is Paris.",
    ),
    ("sum", ["What is 7 plus 5?"], 32, "7 plus 5 is 12."),
    ("colour", ["What colour is the sky?"], 32, "The sky is blue."),
    ("json", ["Write the colour of grass as JSON."], 48, '{"thing": "grass", "colour": "green"}'),
    ("sound", ["What does the cow say?"], 32, "The cow says moo."),
    ("opposite", ["What is the opposite of hot?"], 32, "The opposite of hot is cold."),
    ("backwards", ["Say star backwards."], 32, "star backwards is rats."),
    ("spell", ["Spell bread."], 32, "b-r-e-a-d"),
    ("days", ["List the days of the week."], 64, ", ".join(corpus.DAYS) + "."),
    ("repeat", ["Repeat after me: moon fish gold tree"], 32, "moon fish gold tree"),
    ("greek", ["Say hello in Greek."], 48, corpus.FOREIGN["Greek"]),
    ("japanese", ["Say hello in Japanese."], 48, corpus.FOREIGN["Japanese"]),
    ("rocket", ["Show me a rocket."], 32, "Here is a rocket: 🚀"),
    (
        "name",
        [
            "My name is Emma.",
            "Nice to meet you, Emma.",
            "What does the owl say?",
            "The owl says hoot.",
            "What is my name?",
        ],
        32,
        "Your name is Emma.",
    ),
    ("count_12", ["Count from 1 to 12."], 64, corpus.count(1, 12) + "."),
    ("count_60", ["Count from 1 to 60."], 256, corpus.count(1, 60) + "."),
    ("story", ["Tell me a story about a fox."], 256, corpus.animal_story("fox")),
    ("song", ["Sing a song."], 320, corpus.song()),
    ("endless", ["Count without stopping."], 800, None),
]
COMPLETIONS = [
    ("robot", "Once upon a time", 300, corpus.STORY[len("Once upon a time") :]),
    ("capital_plain", "The capital of Spain is", 16, " Madrid."),
]
TEXTS = [
    "",
    "Hello, world!",
    "It's 2026, isn't it?",
    "  two  spaces\n\nand lines\t",
    "Grüße, Ægir! 你好 🚀👍🏽",
    "<|im_start|>user\nHi<|im_end|>\n",
    "1234567 12,5 £9",
]


def make_tokenizer():
    rng = random.Random(SEED)
    documents = ("".join(text for text, _ in corpus.document(rng, False)) for _ in range(3000))
    plain = ["\n".join(bpe.SPECIAL_SPLIT.split(text)) for text in documents]
    return bpe.Tokenizer(bpe.train(plain, SHAPE.n_vocab - 256 - len(bpe.SPECIALS)))


def metadata(tokenizer):
    p, n_special = SHAPE, len(bpe.SPECIALS)
    return {
        "general.architecture": "llama",
        "general.name": "Backplane tiny chat",
        "general.license": "apache-2.0",
        "general.file_type": 7,
        "general.quantization_version": 2,
        "llama.context_length": p.n_ctx,
        "llama.embedding_length": p.n_embd,
        "llama.block_count": p.n_layer,
        "llama.feed_forward_length": p.n_ff,
        "llama.attention.head_count": p.n_head,
        "llama.attention.head_count_kv": p.n_head_kv,
        "llama.attention.key_length": p.head_dim,
        "llama.attention.value_length": p.head_dim,
        "llama.attention.layer_norm_rms_epsilon": p.norm_eps,
        "llama.rope.dimension_count": p.head_dim,
        "llama.rope.freq_base": p.rope_base,
        "llama.vocab_size": p.n_vocab,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokenizer.tokens,
        "tokenizer.ggml.token_type": [3] * n_special
        + [1] * (p.n_vocab - n_special),  # control, normal
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in tokenizer.merges],
        "tokenizer.ggml.bos_token_id": bpe.IM_START,
        "tokenizer.ggml.eos_token_id": bpe.IM_END,
        "tokenizer.ggml.eot_token_id": bpe.END_OF_TEXT,  # ends plain text
        "tokenizer.ggml.unknown_token_id": bpe.END_OF_TEXT,
        "tokenizer.ggml.padding_token_id": bpe.END_OF_TEXT,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def train():
    import llama
    import torch

    tokenizer = make_tokenizer()
    model = llama.train(SHAPE, tokenizer, SEED, STEPS)
    gguf.write(
        MODEL, metadata(tokenizer), {n: w.detach().numpy() for n, w in model.state_dict().items()}
    )
    stored = gguf.Reader(MODEL).tensors
    model.load_state_dict({name: torch.tensor(np.array(w)) for name, w in stored.items()})
    ids = tokenizer.encode(
        "<|im_start|>user\nSing a song.<|im_end|>\n<|im_start|>assistant\n" + corpus.song()
    )
    with torch.no_grad():
        by_torch = model(torch.tensor([ids]), llama.causal_mask(len(ids)))[0].numpy()
    difference = np.abs(by_torch - Reference(gguf.Reader(MODEL)).forward(ids)).max()
    print(f"PyTorch and numpy differ by at most {difference:.1e} in logits over {len(ids)} tokens")
    if difference > 1e-4:
        sys.exit("the file does not hold the model that was trained")


def messages_of(texts):
    if texts[0] is None:
        return [{"role": "system", "content": SYSTEM}] + messages_of(texts[1:])
    return [{"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(texts)]


def render(messages):
    turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return turns + "<|im_start|>assistant\n"


def case(model, tokenizer, name, prompt, n_max, answer):
    ids = tokenizer.encode(prompt)
    greedy, margins, rows = model.greedy(ids, n_max)
    text = tokenizer.decode(greedy)
    stopped = greedy[-1] in (bpe.IM_END, bpe.END_OF_TEXT)
    if stopped != (answer is not None) or answer not in (None, text):
        sys.exit(f"{name}: the model answers {text!r}")
    print(f"{name:16} {len(ids):4} + {len(greedy):3} tokens, least margin {min(margins):5.2f}")
    return {
        "name": name,
        "prompt": prompt,
        "ids": ids,
        "max_tokens": n_max,
        "greedy": greedy,
        "greedy_text": text,
        "finish_reason": "stop" if stopped else "length",
        "margins": [round(m, 3) for m in margins],
        "first_logits": [round(float(x), 5) for x in rows[0]],
        "last_logits": [round(float(x), 5) for x in rows[-1]],
    }


def write_expected():
    reader = gguf.Reader(MODEL)
    merges = [tuple(line.split(" ")) for line in reader.metadata["tokenizer.ggml.merges"]]
    tokenizer, model = bpe.Tokenizer(merges), Reference(reader)
    chats = []
    for name, texts, n_max, answer in CHATS:
        messages = messages_of(texts)
        chats.append(
            {"messages": messages} | case(model, tokenizer, name, render(messages), n_max, answer)
        )
    expected = {
        "file": os.path.basename(MODEL),
        "sha256": hashlib.sha256(reader.raw).hexdigest(),
        "chats": chats,
        "completions": [case(model, tokenizer, *c) for c in COMPLETIONS],
        "tokenize": [{"text": t, "ids": tokenizer.encode(t)} for t in TEXTS],
    }
    with open(EXPECTED, "w", encoding="utf-8") as file:
        file.write(compact_arrays(json.dumps(expected, ensure_ascii=False, indent=1)) + "\n")


def compact_arrays(text):
    """Puts each array of numbers on one line."""
    return re.sub(r"\[\n[-\d.,\s]*\]", lambda array: re.sub(r"\s+", " ", array[0]), text)


if __name__ == "__main__":
    if sys.argv[1:] == ["train"]:
        train()
    elif sys.argv[1:] != ["expected"]:
        sys.exit(__doc__)
    write_expected()
