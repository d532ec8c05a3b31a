"""Pre-tokenizers as the families' own tokenizer.json files write them, by the names that GGUF has for them."""

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SYMBOLS = r" ?[^\s\p{L}\p{N}]+"
WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
PREFIX = r"[^\r\n\p{L}\p{N}]?"
ASCII_SYMBOLS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
# Not as characters: some of these have equivalents that editors put in their place.
CASED_RANGES = (
    "41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376-377 37b-37d 37f 386 388-38a "
    "38c 38e-3a1 3a3-3f5 3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf "
    "1d00-1d2b 1d6b-1d77 1d79-1d9a 1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d "
    "1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 "
    "1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 212a-212d 212f-2134 2139 213c-213f "
    "2145-2149 214e 2183-2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2-2cf3 a640-a66d a680-a69b a722-a76f "
    "a771-a787 a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f 104b0-104d3 "
    "104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943 "
)
CASED_LETTERS = "".join("-".join(chr(int(end, 16)) for end in r.split("-")) for r in CASED_RANGES.split())


def split(regex):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def splits(*regexes):
    return [*map(split, regexes), byte_level(False)]


def words(word=WORD, numbers=r"\p{N}", symbols=SYMBOLS + r"[\r\n]*", spaces=SPACES, contraction=CONTRACTION):
    return "|".join([part for part in (contraction, word, numbers, symbols, spaces) if part])


def cased(numbers=r"\p{N}{1,3}", ending=CONTRACTION + "?", tail=r"[\r\n/]*", also=""):
    upper, lower = f"[{UPPER}{also}]", f"[{LOWER}{also}]"
    parts = [PREFIX + upper + "*" + lower + "+" + ending, PREFIX + upper + "+" + lower + "*" + ending]
    return "|".join([*parts, numbers, SYMBOLS + tail, SPACES])


def deepseek(end=r" ?[\p{P}\p{S}]+" + "[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"):
    return ASCII_SYMBOLS + "[A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" + end


GPT2 = [byte_level(True)]
DIGITS = {"type": "Digits", "individual_digits": True}
DIGIT_RUNS = {"type": "Digits", "individual_digits": False}
LLAMA3 = words(numbers=r"\p{N}{1,3}")
HALVES = "|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}"
THREES = r"(?=(\d{3})+(?!\d))"
CJK_AND_KANA = "[一-龥぀-ゟ゠-ヿ]+"
CJK_AND_HANGUL = "[一-龥ࠀ-一가-퟿]+"
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
NOT_HAN = r"&&[^\p{Han}]"

# name: (steps, whether a piece that is a token is that token)
FAMILIES = {
    "gpt-2": (GPT2, False),
    "starcoder": ([DIGITS, *GPT2], False),
    "llama-bpe": (splits(LLAMA3), True),
    "dbrx": (splits(LLAMA3), False),
    "minicpm5": (splits(r"\p{N}{1,3}", words(numbers=r"\p{N}+")), True),
    "jais-2": (splits(words(numbers=r"\p{N}{1,3}", spaces=r"\s*[\r\n]+|" + HALVES)), False),
    "qwen2": (splits(words()), False),
    "bailingmoe": (
        splits(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        ),
        False,
    ),
    "qwen35": (
        splits(words(word=PREFIX + r"[\p{L}\p{M}]+", symbols=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*")),
        False,
    ),
    "ufakzeka": (splits(words(contraction="")), False),
    "seed-coder": (splits(words(numbers=r"\p{N}{1}", symbols=r" ?[^\s\p{L}\p{N}" + "\r\n]+")), False),
    "laguna": (splits(r"[^\n]+|[\n]+", words()), False),
    "exaone-moe": (
        splits(
            words(
                word=PREFIX + r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",
                symbols=SYMBOLS + r"[\r\n/]?",
                spaces=r"\s*[\r\n]|\s+(?!\S)|\s+",
            )
        ),
        False,
    ),
    "gpt-4o": (splits(cased()), False),
    "tiny_aya": (splits(r"\d{1,3}(?=(?:\d{3})*\b)", cased()), False),
    "tekken": (splits(cased(numbers=r"\p{N}", ending="")), True),
    "youtu": (
        splits(
            "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + CJK_AND_KANA, cased(numbers=r"\p{N}")
        ),
        True,
    ),
    "kimi-k2": (splits(r"[\p{Han}]+|" + cased(tail=r"[\r\n]*", also=NOT_HAN)), False),
    "deepseek-llm": (
        [
            *map(
                split,
                [
                    "[\r\n]",
                    rf"\s?[{CASED_LETTERS}]+",
                    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
                    r"\s+$",
                    CJK_AND_HANGUL,
                ],
            ),
            DIGITS,
            byte_level(False),
        ],
        False,
    ),
    "deepseek-coder": (
        [
            *map(split, ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK_AND_HANGUL]),
            DIGITS,
            byte_level(False),
        ],
        False,
    ),
    "deepseek-v3": (splits(r"\p{N}{1,3}", CJK_AND_KANA, deepseek()), False),
    "spark2_5": (
        splits(
            r"\p{N}{1,3}",
            CJK_AND_KANA,
            deepseek(r" ?[\p{P}\p{S}]+|" + "[\r\n]|\\s+(?!\\S)|\\s+"),
            r"\p{N}",
        ),
        False,
    ),
    "afmoe": (
        splits(
            r"\p{N}+",
            THREES,
            "[一-鿿㐀-䶿豈-\ufaff぀-ゟ゠-ヿ･-ﾟ⼀-\u2fdfเ-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff가-\ud7afᄀ-ᇿ]+",
            deepseek(),
        ),
        False,
    ),
    "superbpe": (splits(r"\p{N}+", THREES), False),
    "falcon": (
        [
            {"type": "Punctuation", "behavior": "Contiguous"},
            *GPT2,
            DIGIT_RUNS,
            split("[0-9][0-9][0-9]"),
        ],
        False,
    ),
    "bloom": (splits(BLOOM), False),
    "viking": ([split(BLOOM), DIGITS, byte_level(False)], False),
    "chameleon": (
        [
            split("<sentinel:[0-9]+>"),
            split("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
            split("([\\t\\n]|    |  )"),
            DIGITS,
            {"type": "Punctuation", "behavior": "Isolated"},
            *GPT2,
        ],
        False,
    ),
}
