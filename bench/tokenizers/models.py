"""tokenizer.json files of every kind of model, out of the texts of a tiktoken rank file."""

import base64

import families

MARK = "\u2581"
HEX_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
MARK_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
PREPEND = {"type": "Prepend", "prepend": MARK}
TO_TEXT = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": MARK}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ],
}


def alphabet():
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b if b in own else next(others)) for b in range(256)]


def read_ranks(path, limit):
    """Byte strings by rank."""
    with open(path, "rb") as file:
        return [base64.b64decode(line.split()[0]) for i, line in enumerate(file) if i < limit]


def merges_of(texts):
    """All pairs of texts that make a third, those of the first third first."""
    rank = {text: i for i, text in enumerate(texts)}
    for text in texts:
        pairs = [(text[:k], text[k:]) for k in range(1, len(text))]
        yield from sorted((p for p in pairs if p[0] in rank and p[1] in rank), key=lambda p: (rank[p[0]], rank[p[1]]))


def document(model, normalizer=None, pre_tokenizer=None, decoder=None, added=()):
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": text, "special": True, "normalized": False, "lstrip": False, "rstrip": False,
             "single_word": False}
            for i, text in added
        ],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }  # fmt: skip


def sequence(kind, steps):
    return {"type": "Sequence", kind: steps} if steps else None


def byte_level(ranks, family):
    steps, whole = families.FAMILIES[family]
    table = alphabet()
    text = lambda raw: "".join(table[b] for b in raw)  # noqa: E731
    merges = [[text(a), text(b)] for a, b in merges_of(ranks)]
    model = {"type": "BPE", "ignore_merges": whole, "vocab": {text(p): r for r, p in enumerate(ranks)}}
    decoder = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return document({**model, "merges": merges}, None, sequence("pretokenizers", steps), decoder)


def characters(ranks):
    """The texts that are whole characters, every character among them; a space is written as MARK. Tokens hold
    line breaks alone, as in SentencePiece's vocabularies of this kind, and spaces only where a word begins."""
    texts = [raw.decode(errors="ignore").replace(" ", MARK) for raw in ranks if raw == raw.decode(errors="ignore").encode()]
    texts = [t for t in texts if set(t) == {"\n"} or not set(t) & set("\n\r")]
    texts = [t for t in texts if MARK not in t.lstrip(MARK)]
    singles = dict.fromkeys(c for text in texts for c in text)
    return list(dict.fromkeys([*singles, *texts]))


def character_bpe(ranks, pre_tokenizer=None, prefix=False, marks=True, fallback=True, fuses=True):
    texts = characters(ranks)
    if not marks:
        texts = [text for text in texts if MARK not in text]
    vocab = ["<unk>", *(HEX_TOKENS if fallback else []), *texts]
    model = {
        "type": "BPE",
        "unk_token": "<unk>",
        "fuse_unk": fuses,
        "byte_fallback": fallback,
        "vocab": {text: i for i, text in enumerate(vocab)},
        "merges": [list(pair) for pair in merges_of(texts)],
    }
    normalizer = sequence("normalizers", ([PREPEND] if prefix else []) + ([MARK_SPACES] if marks else []))
    decoder = TO_TEXT if marks else None
    return document(model, normalizer, pre_tokenizer, decoder, [(0, "<unk>")])


def unigram(ranks, pre_tokenizer, normalizer=None, fallback=False):
    texts = characters(ranks)
    # Sums of float32 in steps of 1/1024 are exact, and steps of a prime leave few of them equal.
    scores = [-(4096 + 7919 * i % 10007 + 3 * i) / 1024 for i in range(len(texts))]
    head = [["<unk>", 0.0], *([t, -64.0] for t in (HEX_TOKENS if fallback else []))]
    model = {"type": "Unigram", "unk_id": 0, "byte_fallback": fallback}
    vocab = [*head, *([text, score] for text, score in zip(texts, scores))]
    decoder = {**METASPACE, "split": True}
    return document({**model, "vocab": vocab}, normalizer, pre_tokenizer, decoder, [(0, "<unk>")])


METASPACE = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}


def wordpiece(ranks, lowers, strips=None):
    texts = [t for t in characters(ranks) if not set(t) & set("\n\t")]
    if lowers:
        texts = [t for t in texts if t == t.lower()]
    words = [t.lstrip(MARK) for t in texts if t.startswith(MARK)] + [t for t in texts if len(t) == 1]
    parts = ["##" + t for t in texts if MARK not in t]
    vocab = list(dict.fromkeys(["[UNK]", "[CLS]", "[SEP]", *filter(None, words), *parts]))
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {text: i for i, text in enumerate(vocab)},
    }
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": strips,
        "lowercase": lowers,
    }
    decoder = {"type": "WordPiece", "prefix": "##", "cleanup": False}
    return document(model, normalizer, {"type": "BertPreTokenizer"}, decoder, [(i, vocab[i]) for i in range(3)])


def by_spaces(behavior):
    return {"type": "Split", "pattern": {"String": " "}, "behavior": behavior, "invert": False}


COLLAPSE = {"type": "Sequence", "normalizers": [
    {"type": "Replace", "pattern": {"Regex": r"\A +| +\z"}, "content": ""},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
]}  # fmt: skip
WHOLE = {**METASPACE, "split": False}
UNPREFIXED = {**METASPACE, "prepend_scheme": "never"}

# name: (how to make its tokenizer.json, the name that GGUF has for its pre-tokenizer or "")
OTHERS = {
    "gemma4": (lambda r: character_bpe(r, by_spaces("MergedWithPrevious")), "gemma4"),
    "granite-embed-multi-311m": (lambda r: character_bpe(r, by_spaces("MergedWithPrevious")), "granite-embed-multi-311m"),
    "sarvam-moe": (lambda r: character_bpe(r), "sarvam-moe"),
    "whitespace": (lambda r: character_bpe(r, {"type": "WhitespaceSplit"}, marks=False, fallback=False, fuses=False), "whitespace"),
    "sentencepiece BPE": (lambda r: character_bpe(r, prefix=True), ""),
    "sentencepiece BPE, no prefix": (lambda r: character_bpe(r), ""),
    "unigram, words": (lambda r: unigram(r, METASPACE), ""),
    "unigram, no prefix": (lambda r: unigram(r, {**UNPREFIXED, "split": False}), ""),
    "unigram, words without prefix": (lambda r: unigram(r, UNPREFIXED), ""),
    "unigram, spaces collapsed": (lambda r: unigram(r, METASPACE, COLLAPSE), ""),
    "unigram, bytes": (lambda r: unigram(r, WHOLE, None, True), ""),
    "wordpiece, uncased": (lambda r: wordpiece(r, True), ""),
    "wordpiece, cased": (lambda r: wordpiece(r, False), ""),
    "wordpiece, cased without accents": (lambda r: wordpiece(r, False, True), ""),
}  # fmt: skip


def names():
    return [*families.FAMILIES, *OTHERS]


def make(name, ranks):
    """tokenizer.json as a dict, and the pre-tokenizer's name in GGUF files."""
    if name in families.FAMILIES:
        return byte_level(ranks, name), name
    make_other, pre = OTHERS[name]
    return make_other(ranks), pre
