#!/usr/bin/env python3
"""Reads what the parts of run.sh printed and says which targets are met: verdicts.py FOLDER."""
import pathlib
import re
import sys

BF16_DECODE, Q4_K_M_DECODE = 75, 50  # percent of the copy bandwidth
PREFILL = 60  # percent of the same products by cuBLASLt
SEQUENCES_256 = 60  # times batch 1
IDLE_US = 50
LAYERS, DIM, FF, Q_DIM, KV_DIM = 32, 4096, 14336, 4096, 1024  # of 8b


def text_of(folder, part):
    path = folder / f"{part}.txt"
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def sections(text):
    """What measure printed, by shape and types: [("8b bf16", lines)]."""
    found = re.split(r"^(\S+ \S+): ready after.*\n", text, flags=re.M)
    return list(zip(found[1::2], found[2::2]))


def figure(text, model, title, pattern):
    """The first that a section of the model says of a task, or None."""
    for name, lines in sections(text):
        match = re.search(rf"^{re.escape(title)}:.*\n(?:  .*\n)*", lines, re.M)
        found = match and re.search(pattern, match.group(0))
        if name == model and found:
            return float(found.group(1))
    return None


def product_ms(ceilings, tokens):
    """Of all products of the layers of 8b, by cuBLASLt."""
    shapes = [(Q_DIM + 2 * KV_DIM, DIM), (DIM, Q_DIM), (2 * FF, DIM), (DIM, FF)]
    times = []
    for n, k in shapes:
        found = re.search(rf"^bf16 product m {tokens} n {n} k {k}: ([\d.]+) ms", ceilings, re.M)
        if not found:
            return None
        times.append(float(found.group(1)))
    return LAYERS * sum(times)


def share(part, whole):
    return None if part is None or not whole else 100 * part / whole


def decode_verdicts(ceilings, decode):
    copy = re.search(r"^copy: (\d+) GB/s", ceilings, re.M)
    copy = copy and float(copy.group(1))
    for model, least in (("8b bf16", BF16_DECODE), ("8b q4_k_m", Q4_K_M_DECODE)):
        read = figure(decode, model, "decode n 1 depth 512 best", r"weights (\d+) GB/s")
        yield f"{model} batch 1, % of copy bandwidth", share(read, copy), least, True
    rates = [figure(decode, "8b bf16", f"decode n {n} depth 512 best", r"([\d.]+) tokens/s")
             for n in (1, 256)]
    times = None if None in rates else rates[1] / rates[0]
    yield "8b bf16 256 sequences, times batch 1", times, SEQUENCES_256, True
    for how in ("alone", "ahead"):
        idle = figure(decode, "8b bf16", "decode n 1 depth 512 best", rf"([-\d.]+) us {how}")
        yield f"8b bf16 batch 1 {how}, idle us a step", idle, IDLE_US, False


def prefill_verdicts(ceilings, prefill):
    for tokens in (512, 2048, 4096):
        title = f"prefill n {tokens} depth 0 best"
        ms = figure(prefill, "8b bf16", title, r"median ([\d.]+) ms")
        products = product_ms(ceilings, tokens)
        rate = share(products, ms) if products and ms else None
        yield f"8b bf16 prefill {tokens}, % of cuBLASLt's products", rate, PREFILL, True


def main():
    folder = pathlib.Path(sys.argv[1])
    ceilings = text_of(folder, "ceilings")
    verdicts = [*decode_verdicts(ceilings, text_of(folder, "decode")),
                *prefill_verdicts(ceilings, text_of(folder, "prefill"))]
    for name, value, limit, is_least in verdicts:
        bound = f"at {'least' if is_least else 'most'} {limit}"
        if value is None:
            print(f"NONE   {name}: not measured, {bound}")
            continue
        passes = value >= limit if is_least else value <= limit
        print(f"{'PASS ' if passes else 'SHORT'}  {name}: {value:.1f}, {bound}")
    return 0 if all(v is not None for _, v, _, _ in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
