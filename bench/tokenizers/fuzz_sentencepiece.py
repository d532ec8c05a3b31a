#!/usr/bin/env python3
"""Compares ids by a tokenizer.model with those of the sentencepiece package on random texts of mixed scripts, and by
tokenizer.json files with a model's charsmap with those of the tokenizers package.

  python3 bench/tokenizers/fuzz_sentencepiece.py PROSE [--texts N]

Models of every kind are trained on PROSE, a text file. Needs the packages `sentencepiece`, `protobuf` and `tokenizers`,
and of the build the target bench_tokenizers.
"""

import argparse
import base64
import json
import os
import random
import sys
import tempfile

import sentencepiece
from fuzz import ours, random_text, show
from models import METASPACE, document, sequence
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

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
OF_CHARSMAPS = ("unigram, nmt_nfkc", "unigram, nfkc_cf, no prefix")

WORDS = sequence("pretokenizers", [{"type": "WhitespaceSplit"}, METASPACE])
STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
COLLAPSE = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}
# What tokenizer.json files of Unigram models have behind the charsmap, and to split words.
FORMS = {"words": ([], WORDS), "marks": ([], METASPACE), "stripped": ([STRIP, COLLAPSE], METASPACE)}


def long_text(rng, words):
    """Sums of scores that float32 rounds to hundredths."""
    parts = []
    while sum(map(len, parts)) < 20000:
        at = rng.randrange(len(words))
        parts += [*words[at : at + rng.randint(3, 50)], random_text(rng)]
    return " ".join(parts)


def tokenizer_json(model, steps, pre_tokenizer):
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    # Sums of these are exact, be they in float32 or float64.
    vocab = [[piece.piece, round(piece.score * 1024) / 1024] for piece in proto.pieces]
    unigram = {"type": "Unigram", "unk_id": proto.trainer_spec.unk_id, "vocab": vocab, "byte_fallback": False}
    normalizer = sequence("normalizers", [{"type": "Precompiled", "precompiled_charsmap": charsmap}, *steps])
    return document(unigram, normalizer, pre_tokenizer, METASPACE, [(0, "<unk>")])


def differences(expected, path, route, stdin):
    """Which of the texts' ids are others, and ours, or why there are none."""
    out, error = ours(path, route, "ids", stdin)
    if error:
        return None, error
    found = [json.loads(line) for line in out.splitlines()]
    return [i for i in range(len(found)) if found[i] != expected[i]], found


def compare_charsmap(kind, model, texts, stdin, folder):
    path = os.path.join(folder, "tokenizer.json")
    failed = False
    for form, (steps, pre_tokenizer) in FORMS.items():
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tokenizer_json(model, steps, pre_tokenizer), file)
        theirs = Tokenizer.from_file(path)
        expected = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
        wrong, found = differences(expected, path, "", stdin)
        for i in sorted(wrong or [], key=lambda i: len(texts[i]))[:3]:
            show(texts[i], *([theirs.id_to_token(id) for id in ids] for ids in (expected[i], found[i])))
        count = found if wrong is None else len(wrong)
        print(f"{kind}: tokenizer.json, {form}: of {len(texts)} texts differ {count}", flush=True)
        failed = failed or wrong != []
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prose")
    parser.add_argument("--texts", type=int, default=100000)
    parser.add_argument("--long", type=int, default=0, help="further texts, of PROSE and random texts, each of 20000 characters")
    parser.add_argument("--kinds", default=";".join(KINDS), help="separated by semicolons")
    options = parser.parse_args()
    rng = random.Random(1)
    texts = [random_text(rng) for _ in range(options.texts)]
    with open(options.prose, encoding="utf-8", errors="ignore") as file:
        words = [word for word in file.read().split() if "<unk>" not in word]  # a token of its own
    texts += [long_text(rng, words) for _ in range(options.long)]
    stdin = "".join(json.dumps(text) + "\n" for text in texts).encode()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds.split(";"):
            settings = KINDS[kind]
            prefix = os.path.join(folder, "m")
            sentencepiece.SentencePieceTrainer.train(
                input=options.prose, model_prefix=prefix, vocab_size=2000, character_coverage=0.9995,
                hard_vocab_limit=False, minloglevel=2, **settings,
            )  # fmt: skip
            theirs = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
            expected = theirs.encode(texts)
            for route in ("", "converted"):
                wrong, found = differences(expected, prefix + ".model", route, stdin)
                if wrong is None:
                    print(f"{kind}: {route}: {found}", flush=True)
                    failed = failed or not route
                    continue
                for i in sorted(wrong, key=lambda i: len(texts[i]))[:3]:
                    show(texts[i], *([theirs.id_to_piece(id) for id in ids] for ids in (expected[i], found[i])))
                print(f"{kind}: {route or 'as it is'}: of {len(texts)} texts differ {len(wrong)}", flush=True)
                failed = failed or bool(wrong)
            if kind in OF_CHARSMAPS:
                model = theirs.serialized_model_proto()
                failed = compare_charsmap(kind, model, texts, stdin, folder) or failed
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
