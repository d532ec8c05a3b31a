#!/usr/bin/env python3
"""Compares ids by a tokenizer.model with those of the sentencepiece package on random texts of mixed scripts.

  python3 bench/tokenizers/fuzz_sentencepiece.py PROSE [--texts N]

Models of every kind are trained on PROSE, a text file. Needs the packages `sentencepiece` and `tokenizers`, and of
the build the target bench_tokenizers.
"""

import argparse
import json
import os
import random
import sys
import tempfile

import sentencepiece
from fuzz import ours, random_text

KINDS = {
    "unigram, nmt_nfkc": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc"},
    "unigram, nfkc_cf, no prefix": {"model_type": "unigram", "normalization_rule_name": "nfkc_cf", "add_dummy_prefix": False},
    "unigram, identity, all spaces": {
        "model_type": "unigram", "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
    },
    "unigram, bytes": {"model_type": "unigram", "byte_fallback": True},
    "BPE, nmt_nfkc": {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc"},
    "BPE, identity, bytes": {
        "model_type": "bpe", "normalization_rule_name": "identity", "byte_fallback": True, "remove_extra_whitespaces": False,
    },
    "BPE, bytes, no prefix": {"model_type": "bpe", "byte_fallback": True, "add_dummy_prefix": False},
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prose")
    parser.add_argument("--texts", type=int, default=100000)
    options = parser.parse_args()
    rng = random.Random(1)
    texts = [random_text(rng) for _ in range(options.texts)]
    stdin = "".join(json.dumps(text) + "\n" for text in texts).encode()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for kind, settings in KINDS.items():
            prefix = os.path.join(folder, "m")
            sentencepiece.SentencePieceTrainer.train(
                input=options.prose, model_prefix=prefix, vocab_size=2000, character_coverage=0.9995,
                hard_vocab_limit=False, minloglevel=2, **settings,
            )  # fmt: skip
            theirs = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
            expected = theirs.encode(texts)
            for route in ("", "converted"):
                out, error = ours(prefix + ".model", route, "ids", stdin)
                if error:
                    print(f"{kind}: {route}: {error}", flush=True)
                    failed = failed or not route
                    continue
                found = [json.loads(line) for line in out.splitlines()]
                wrong = [i for i in range(len(texts)) if found[i] != expected[i]]
                for i in sorted(wrong, key=lambda i: len(texts[i]))[:3]:
                    pieces = [[theirs.id_to_piece(id) for id in ids] for ids in (expected[i], found[i])]
                    print(f"    {texts[i]!a}\n      package {pieces[0]}\n      ours    {pieces[1]}")
                print(f"{kind}: {route or 'as it is'}: of {len(texts)} texts differ {len(wrong)}", flush=True)
                failed = failed or bool(wrong)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
