"""Byte-level BPE with GPT-2's pre-tokenizer: training, encoding, decoding."""

import re
from collections import Counter

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END_OF_TEXT, IM_START, IM_END = range(3)
# GPT-2's pattern; Python's re has no \p{L} and \p{N}: [^\W\d_] and \d agree with them on this text.
PRE_TOKENS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
SPECIAL_SPLIT = re.compile("(" + "|".join(map(re.escape, SPECIALS)) + ")")


def byte_alphabet():
    """Byte value to the printable character that stands for it in vocabularies."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in keep]
    return {b: chr(b) for b in keep} | {b: chr(256 + i) for i, b in enumerate(others)}


ALPHABET = byte_alphabet()
BYTE_OF = {c: b for b, c in ALPHABET.items()}
SPACE = ALPHABET[0x20]


def symbols(text):
    return tuple(ALPHABET[b] for b in text.encode("utf-8"))


def may_merge(left, right):
    """Digits stay single (one may carry its leading space), characters beyond ASCII stay bytes."""
    both = left + right
    if any(BYTE_OF[c] >= 0x80 for c in both):
        return False
    return not any(c.isdigit() for c in both) or (left == SPACE and len(right) == 1)


def merge(word, pair):
    out, i = [], 0
    while i < len(word):
        if word[i : i + 2] == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def train(texts, n_merges):
    words = Counter(w for text in texts for w in PRE_TOKENS.findall(text))
    words = {symbols(w): n for w, n in words.items()}
    merges = []
    while len(merges) < n_merges:
        pairs = Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                if may_merge(*pair):
                    pairs[pair] += n
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(best)
        merged = Counter()
        for word, n in words.items():
            merged[merge(word, best)] += n
        words = merged
    return merges


class Tokenizer:
    def __init__(self, merges):
        self.merges = merges
        self.tokens = SPECIALS + list(ALPHABET.values()) + [a + b for a, b in merges]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.rank = {pair: i for i, pair in enumerate(merges)}
        self.cache = {}

    def encode_word(self, text):
        word = symbols(text)
        while len(word) > 1:
            best = min(zip(word, word[1:]), key=lambda p: self.rank.get(p, len(self.rank)))
            if best not in self.rank:
                break
            word = merge(word, best)
        return [self.ids[s] for s in word]

    def encode(self, text):
        """Special tokens written in the text become their ids."""
        out = []
        for part in SPECIAL_SPLIT.split(text):
            if part in SPECIALS:
                out.append(SPECIALS.index(part))
                continue
            for word in PRE_TOKENS.findall(part):
                if word not in self.cache:
                    self.cache[word] = self.encode_word(word)
                out += self.cache[word]
        return out

    def decode(self, ids):
        """Special tokens leave no text."""
        raw = bytes(BYTE_OF[c] for i in ids if i >= len(SPECIALS) for c in self.tokens[i])
        return raw.decode("utf-8", errors="replace")
