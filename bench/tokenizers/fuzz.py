#!/usr/bin/env python3
"""Compares ids with those of the tokenizers package on random texts of mixed scripts, for every family
of pre-tokenizers, and the speed of some.

  python3 bench/tokenizers/fuzz.py RANKS [--texts N] [--families A,B] [--prose FILE] [--json FILE]

RANKS is a tiktoken rank file; all families get its vocabulary. Each family is read twice: as a GGUF
file names it, and as its tokenizer.json. Needs the package `tokenizers`, and of the build the target
bench_tokenizers. --prose measures llama-bpe and qwen2 on that text, one thread each, in turns.
"""

import argparse
import base64
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from families import FAMILIES  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "build", "bin", "bench_tokenizers")
BLOCKS = [(0x20, 0x7E)] * 8 + [
    (0xA0, 0x17F), (0x1C4, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA),
    (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE4E), (0x1000, 0x109F), (0x10A0, 0x10FF),
    (0x1100, 0x11FF), (0x1780, 0x17DD), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x20A0, 0x20BF),
    (0x2100, 0x218B), (0x2460, 0x24FF), (0x2E80, 0x2FDF), (0x3000, 0x312F), (0x3131, 0x318E),
    (0x4E00, 0x4FFF), (0xAC00, 0xADFF), (0xF900, 0xFAFF), (0xFE30, 0xFE4F), (0xFF00, 0xFFEE),
    (0x10400, 0x1044F), (0x1D400, 0x1D7FF), (0x1F300, 0x1F64F), (0x20000, 0x20100),
]  # fmt: skip
# Of another kind in the package's older Unicode tables.
NEWER = "\u061d"
WORDS = (
    "hello World don't I'LL they've it's 'S 'ſ naïve İstanbul straße ΣΑΣ ﬁne ½ ３４ ² 1 12 123 1234 1234567 3.14 "
    "2024-01-02 x1y2 12ab ab12 camelCase HTTPServer XMLHttpRequest ABCdef éÉ print(x) // a/b #include <sentinel:42> "
    "IMGIMGABZ IMGIMGAZ 한국어 日本語 中文。 「引用」 ㄅㄆ العربية هندى हिन्दी ไทย မြန်မာ 👩‍👩‍👧 "
    "e\u0301 a\u0300\u0301 〇 々 !? ... -- $^+<=>|~` (a|b)"
).split() + [" " * n for n in (2, 3, 4, 9)]
WORDS += ["\n", "\r\n", "\t", "\n\n\n", " \n ", "\u3000", "\u00a0", "\u200b", "\u2028", "a" * 40]


def alphabet():
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b if b in own else next(others)) for b in range(256)]


def read_ranks(path, limit):
    """Tokens and merges as byte-level BPE writes them, of the first ranks."""
    table = alphabet()
    with open(path, "rb") as file:
        ranks = {base64.b64decode(line.split()[0]): i for i, line in enumerate(file) if i < limit}
    merges = []
    for piece, rank in ranks.items():
        pairs = ((piece[:k], piece[k:]) for k in range(1, len(piece)))
        known = [(ranks[a], ranks[b], a, b) for a, b in pairs if a in ranks and b in ranks]
        merges += [(rank, a, b) for _, _, a, b in sorted(known)]
    text = lambda raw: "".join(table[b] for b in raw)  # noqa: E731
    merges.sort(key=lambda merge: merge[0])
    return {text(p): r for p, r in ranks.items()}, [[text(a), text(b)] for _, a, b in merges]


def write_tokenizer(path, family, vocab, merges):
    steps, whole = FAMILIES[family]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(
            {
                "version": "1.0",
                "added_tokens": [],
                "normalizer": None,
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
                "post_processor": None,
                "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
                "model": {"type": "BPE", "ignore_merges": whole, "vocab": vocab, "merges": merges},
            },
            file,
        )


def random_text(rng):
    parts = []
    for _ in range(rng.randint(1, 10)):
        if rng.random() < 0.5:
            parts.append(rng.choice(WORDS))
        else:
            first, last = rng.choice(BLOCKS)
            drawn = (chr(rng.randint(first, last)) for _ in range(rng.randint(1, 5)))
            parts += [c for c in drawn if unicodedata.category(c) != "Cn" and c not in NEWER]
        if rng.random() < 0.5:
            parts.append(rng.choice([" ", " ", " ", "  ", "\n"]))
    return "".join(parts)


def ours(path, pre, mode, stdin):
    done = subprocess.run([PROGRAM, path, pre, mode], input=stdin, capture_output=True, check=False)
    if done.returncode != 0:
        return None, done.stderr.decode().strip()
    return done.stdout, None


def show(theirs, text, expected, found):
    pieces = [[theirs.id_to_token(i) for i in ids] for ids in (expected, found)]
    print(f"    {text!a}\n      package {pieces[0]}\n      ours    {pieces[1]}")


def compare(family, path, texts):
    theirs = Tokenizer.from_file(path)
    expected = [encoding.ids for encoding in theirs.encode_batch(texts)]
    stdin = "".join(json.dumps(text) + "\n" for text in texts).encode()
    result = {}
    for route, pre in (("gguf", family), ("tokenizer.json", "")):
        out, error = ours(path, pre, "ids", stdin)
        if error:
            result[route] = error
            continue
        found = [json.loads(line) for line in out.splitlines()]
        wrong = [i for i in range(len(texts)) if found[i] != expected[i]]
        result[route] = len(wrong)
        for i in sorted(wrong, key=lambda i: len(texts[i]))[:3]:
            show(theirs, texts[i], expected[i], found[i])
    return result


def speed(family, path, prose):
    """MB/s; the package gets the text in parts, which it likes better."""
    theirs = Tokenizer.from_file(path)
    parts = [prose[i : i + 10000].decode(errors="ignore") for i in range(0, len(prose), 10000)]
    best = {"package": 0.0, "gguf": 0.0, "tokenizer.json": 0.0}
    for _ in range(3):
        begin = time.perf_counter()
        for part in parts:
            theirs.encode(part, add_special_tokens=False)
        best["package"] = max(best["package"], len(prose) / 1e6 / (time.perf_counter() - begin))
        for route, pre in (("gguf", family), ("tokenizer.json", "")):
            best[route] = max(best[route], float(ours(path, pre, "speed", prose)[0]))
    return {name: round(value, 2) for name, value in best.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks")
    parser.add_argument("--texts", type=int, default=100000)
    parser.add_argument("--tokens", type=int, default=32000, help="of the vocabulary that are taken")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--prose")
    parser.add_argument("--json")
    options = parser.parse_args()
    vocab, merges = read_ranks(options.ranks, options.tokens)
    rng = random.Random(1)
    texts = [random_text(rng) for _ in range(options.texts)]
    report = {"texts": len(texts), "differences": {}, "MB/s": {}}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        for family in options.families.split(","):
            write_tokenizer(path, family, vocab, merges)
            if texts:
                report["differences"][family] = found = compare(family, path, texts)
                print(f"{family}: of {len(texts)} texts differ {found}", flush=True)
            if options.prose and family in ("llama-bpe", "qwen2"):
                with open(options.prose, "rb") as file:
                    report["MB/s"][family] = found = speed(family, path, file.read())
                print(f"{family}: MB/s {found}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    wrong = [found for routes in report["differences"].values() for found in routes.values()]
    sys.exit(1 if any(wrong) else 0)


if __name__ == "__main__":
    main()
