#!/usr/bin/env python3
"""Compares ids with those of the tokenizers package on random texts of mixed scripts, for every family
of pre-tokenizers and every kind of model, and their speed.

  python3 bench/tokenizers/fuzz.py RANKS [--texts N] [--families "A;B"] [--prose FILE] [--hostile] [--json FILE]

RANKS is a tiktoken rank file; all families get its vocabulary. Each family is read as a GGUF file names
it, as its tokenizer.json, and as quantising its folder to GGUF writes it. Needs the package `tokenizers`,
and of the build the target bench_tokenizers. --prose measures on that text, one thread each, in turns;
--hostile on a million equal characters and the like.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import models  # noqa: E402
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


def show(text, package, ours):
    """What differs of two lists of tokens, and a few behind and before."""
    pairs = [i for i, (a, b) in enumerate(zip(package, ours)) if a != b] or [min(len(package), len(ours))]
    begin, end = max(pairs[0] - 8, 0), pairs[0] + 24
    print(f"    {text[:1000]!a}\n      package {package[begin:end]}\n      ours    {ours[begin:end]}")


def routes_of(pre):
    """How a tokenizer.json is read: as GGUF names its pre-tokenizer, as it is, and as quantising it writes it."""
    return {**({"gguf": pre} if pre else {}), "tokenizer.json": "", "converted": "converted"}


def compare(path, pre, texts):
    theirs = Tokenizer.from_file(path)
    expected = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    stdin = "".join(json.dumps(text) + "\n" for text in texts).encode()
    result = {}
    for route, mode in routes_of(pre).items():
        out, error = ours(path, mode, "ids", stdin)
        if error:
            result[route] = error
            continue
        found = [json.loads(line) for line in out.splitlines()]
        wrong = [i for i in range(len(texts)) if found[i] != expected[i]]
        result[route] = len(wrong)
        for i in sorted(wrong, key=lambda i: len(texts[i]))[:3]:
            show(texts[i], *([theirs.id_to_token(id) for id in ids] for ids in (expected[i], found[i])))
    return result


def speed(path, pre, prose):
    """MB/s of processor time; the package gets the text in parts, which it likes better."""
    theirs = Tokenizer.from_file(path)
    parts = [prose[i : i + 10000].decode(errors="ignore") for i in range(0, len(prose), 10000)]
    routes = routes_of(pre)
    best = {"package": 0.0, **dict.fromkeys(routes, 0.0)}
    for _ in range(3):
        begin = time.process_time()
        for part in parts:
            theirs.encode(part, add_special_tokens=False)
        best["package"] = max(best["package"], len(prose) / 1e6 / (time.process_time() - begin))
        for route, mode in routes.items():
            out, error = ours(path, mode, "speed", prose)
            best[route] = error or max(best[route], float(out))
    return {name: value if isinstance(value, str) else round(value, 2) for name, value in best.items()}


HOSTILE = ["a", " ", "\n", " \n", "\u0301", "a\u0301", "7", "!", "'", "\u4e2d", "\u1100\u1161", "\u0e01",
           "\U0001f468\u200d\U0001f469\u200d", "aA", "A", "<|", "\x00", "\ufb01", "a b", "IMG"]  # fmt: skip
# What only the end decides is searched from every place.
ENDS = [(" ", "a"), ("\n", "a"), (" \n", " a"), ("7", "a"), ("A", "!"), ("a ", "\u0301"), (" " * 999 + "a", ""),
        ("7" * 999 + "a", ""), ("<sentinel:7", ""), ("IMGIMGA", "")]  # fmt: skip


def hostile(path, pre):
    """Of each route the worst text: seconds for a million characters of it, and how many times those for a quarter."""
    units = [(unit, "") for unit in HOSTILE] + ENDS
    texts = [unit * (n // len(unit)) + end for unit, end in units for n in (250000, 1000000)]
    stdin = "".join(json.dumps(text) + "\n" for text in texts).encode()
    found = {}
    for route, mode in routes_of(pre).items():
        out, error = ours(path, mode, "time", stdin)
        if error:
            found[route] = error
            continue
        seconds = list(map(float, out.split()))
        rows = zip(seconds[1::2], seconds[0::2], units)
        found[route] = max((round(s, 3), round(s / part, 1), unit[-7:] + end) for s, part, (unit, end) in rows)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks")
    parser.add_argument("--texts", type=int, default=100000)
    parser.add_argument("--tokens", type=int, default=32000, help="of the vocabulary that are taken")
    parser.add_argument("--families", default=";".join(models.names()), help="separated by semicolons")
    parser.add_argument("--prose")
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    ranks = models.read_ranks(options.ranks, options.tokens)
    rng = random.Random(1)
    texts = [random_text(rng) for _ in range(options.texts)]
    report = {"texts": len(texts), "differences": {}, "MB/s": {}, "hostile": {}}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        for family in options.families.split(";"):
            document, pre = models.make(family, ranks)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(document, file)
            if texts:
                report["differences"][family] = found = compare(path, pre, texts)
                print(f"{family}: of {len(texts)} texts differ {found}", flush=True)
            if options.prose:
                with open(options.prose, "rb") as file:
                    report["MB/s"][family] = found = speed(path, pre, file.read())
                print(f"{family}: MB/s {found}", flush=True)
            if options.hostile:
                report["hostile"][family] = found = hostile(path, pre)
                print(f"{family}: a million characters {found}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    # A refusal to convert is a sentence, and no difference.
    wrong = [
        found
        for routes in report["differences"].values()
        for route, found in routes.items()
        if route != "converted" or isinstance(found, int)
    ]
    sys.exit(1 if any(wrong) else 0)


if __name__ == "__main__":
    main()
