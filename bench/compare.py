#!/usr/bin/env python3
"""Runs `backplane bench` and peers' benchmarks in turn on the same files, and prints the ratios.

  bench/compare.py --ours build/bin/backplane --probe build/bin/bench_probe
      --peer llama.cpp=PATH/bin [--peer "ik=PATH/bin:-rtr 1"] [--work prefill,decode,...]
      [--kv q8_0] [--set KEY=VALUE] [--rounds 5] [--threads 2] [--json OUT.json] [--chart OUT.svg]
      MODEL.gguf [MODEL.gguf ...]

A peer is a folder with llama-bench, llama-batched-bench and, where llama-bench knows no depth,
llama-sweep-bench, and flags for llama-bench after a colon.
Samples alternate: ours, peer, ours, peer, ... with a probe of the machine between any two. A pair
(ours, peer of the same round) counts only where the read rate seen before and after both samples
stayed within --tolerance; a cell without such a pair is given as unsettled, not as a ratio.
Before a model is measured its file, and what we keep beside it, are read anew: what came into the
system's page cache in small pieces stays there in small pages, which are read slower.

Work: prefill, decode, prefill@DEPTH, decode@DEPTH, decode*N (N sequences, prompt 128, generate 64),
start (from exec to the end of a run of one token, the file in the page cache; given as runs/s).
"""
import argparse
import json
import mmap
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

PROMPT, GENERATE, SHORT_PROMPT = 512, 64, 128
TIMEOUT_S = 3600
SWITCHES = ("-rtr", "--run-time-repack")
START_PROMPT = "The capital of Italy is"
START_CONTEXT = 512


class Work:
    """One row of the table: what is measured."""

    def __init__(self, text):
        match = re.fullmatch(r"(prefill|decode|start)(?:@(\d+))?(?:\*(\d+))?", text)
        if (not match or (match[1] == "prefill" and match[3])
                or (match[1] == "start" and text != "start")):
            sys.exit(f"compare.py: what is '{text}'? prefill, decode, decode@4096, decode*16, start")
        self.text, self.kind = text, match[1]
        self.depth, self.sequences = int(match[2] or 0), int(match[3] or 1)


def output_of(command, errors=False):
    """Standard output, with standard error where `errors` says so."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n"
                           f"{done.stdout[-500:]}{done.stderr[-1500:]}")
    return done.stdout + (done.stderr if errors else "")


def seconds_of(command):
    begin = time.monotonic()
    output_of(command)
    return time.monotonic() - begin


def rows_of_table(text, column):
    """The rows of numbers under the line of heads that has this one, as {head: text}."""
    head, rows = None, []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if column in cells:
            head = cells
        elif head and len(cells) == len(head) and re.fullmatch(r"\d+", cells[1] or ""):
            rows.append(dict(zip(head, cells)))
    return rows


class Ours:
    name = "backplane"

    def __init__(self, program, threads, kv, settings):
        self.program, self.threads = program, threads
        self.kv = ["--kv", kv] if kv else []
        self.settings = [part for setting in settings for part in ("--set", setting)]

    def sample(self, model, work):
        if work.kind == "start":
            return 1 / seconds_of([self.program, "run", model, "--prompt", START_PROMPT, "--raw",
                                   "--max-tokens", 1, "--temperature", 0, *self.settings])
        generate = GENERATE if work.kind == "decode" else 0
        prompt = PROMPT if work.kind == "prefill" else (SHORT_PROMPT if work.sequences > 1 else 0)
        document = json.loads(output_of(
            [self.program, "bench", model, "--json", "--threads", self.threads, "--prompt", prompt,
             "--generate", generate, "--sequences", work.sequences, "--depth", work.depth,
             *self.kv, *self.settings]))
        rates = [r["tokens_per_s"] for r in document["results"] if r["kind"] == work.kind]
        if len(rates) != 1:
            raise RuntimeError(f"bench gave {len(rates)} results for {work.text}")
        return rates[0]


class Peer:
    def __init__(self, text, threads, kv):
        self.name, _, rest = text.partition("=")
        folder, _, flags = rest.partition(":")
        self.folder, self.flags, self.threads = pathlib.Path(folder), flags.split(), threads
        self.flags += ["-ctk", kv, "-ctv", kv] if kv else []
        # Switches have a value in llama-bench alone.
        self.tool_flags = [flag for i, flag in enumerate(self.flags)
                           if i == 0 or self.flags[i - 1] not in SWITCHES]
        self.has_depth = "--n-depth" in self.help("llama-bench")
        if flags:
            self.name += " " + flags

    def help(self, program):
        done = subprocess.run([self.folder / program, "--help"], capture_output=True, text=True)
        return done.stdout + done.stderr

    def sample(self, model, work):
        if work.kind == "start":
            return 1 / seconds_of(self.start_command(model))
        return self.several(model, work) if work.sequences > 1 else self.one(model, work)

    # A short context: peers clear the whole KV cache of the model's own before they begin.
    def start_command(self, model):
        program = self.folder / "llama-completion"
        flags = ["-no-cnv"]
        if not program.exists():  # an older one, which completes unless told to converse
            program, flags = self.folder / "llama-cli", []
        return [program, "-m", model, "-t", self.threads, "-p", START_PROMPT, "-n", 1, "--temp", 0,
                "-c", START_CONTEXT, "--no-warmup", *flags, *self.tool_flags]

    def one(self, model, work):
        command = [self.folder / "llama-bench", "-m", model, "-t", self.threads, "-r", 1, "-o", "json",
                   *self.flags]
        n_prompt, n_generate = (PROMPT, 0) if work.kind == "prefill" else (0, GENERATE)
        if work.depth == 0 or self.has_depth:
            command += ["-p", n_prompt, "-n", n_generate]
            command += ["-d", work.depth] if work.depth else []
        elif work.kind == "decode":  # an older llama-bench: generation after a prompt
            command += ["-p", 0, "-n", 0, "-gp", f"{work.depth},{GENERATE}"]
        else:
            return self.prefill_of_sweep(model, work)
        results = json.loads(output_of(command))
        return float(results[-1]["avg_ts"])

    # Of a sweep in chunks as long as the prompt, the one that begins at the depth.
    def prefill_of_sweep(self, model, work):
        out = output_of([self.folder / "llama-sweep-bench", "-m", model, "-t", self.threads, "-c",
                         work.depth + 2 * PROMPT, "-ub", PROMPT, *self.tool_flags], errors=True)
        rows = [row for row in rows_of_table(out, "S_PP t/s") if row["N_KV"] == str(work.depth)]
        if not rows:
            raise RuntimeError(f"llama-sweep-bench printed nothing for {work.depth}:\n{out[-800:]}")
        return float(rows[0]["S_PP t/s"])

    # Only the generation's column of the table counts.
    def several(self, model, work):
        context = work.sequences * (SHORT_PROMPT + GENERATE) + 64
        out = output_of([self.folder / "llama-batched-bench", "-m", model, "-t", self.threads, "-tb",
                         self.threads, "-c", context, "-npp", SHORT_PROMPT, "-ntg", GENERATE, "-npl",
                         work.sequences, *self.tool_flags], errors=True)
        rows = rows_of_table(out, "S_TG t/s")
        if not rows:
            raise RuntimeError(f"llama-batched-bench printed no table:\n{out[-800:]}")
        return float(rows[-1]["S_TG t/s"])


class Probe:
    def __init__(self, program, threads):
        self.command = [program, threads]

    def take(self):
        return json.loads(output_of(self.command))


def read_anew(path):
    """Into huge pages of the page cache, where the file system has them."""
    with open(path, "rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
            pages.madvise(mmap.MADV_HUGEPAGE)
            for at in range(0, len(pages), mmap.PAGESIZE):
                pages[at]


def settled(probes, tolerance):
    rates = [probe["read_gb_s"] for probe in probes]
    return max(rates) <= min(rates) * (1 + tolerance)


def measure(model, work, ours, peers, probe, rounds, tolerance):
    """All samples of one cell, with the probes around each."""
    samples = []
    before = probe.take()
    for _ in range(rounds):
        for runner in [ours, *peers]:
            try:
                rate = runner.sample(model, work)
            except RuntimeError as error:
                print(f"  {runner.name}, {work.text}: {error}", file=sys.stderr)
                rate = None
            after = probe.take()
            samples.append({"who": runner.name, "tokens_per_s": rate, "probes": [before, after]})
            before = after
    return samples


def pairs_of(samples, peer, tolerance):
    """Ratios ours / peer of the rounds in which both saw the same machine."""
    mine = [s for s in samples if s["who"] == Ours.name]
    theirs = [s for s in samples if s["who"] == peer]
    ratios = []
    for a, b in zip(mine, theirs):
        if a["tokens_per_s"] and b["tokens_per_s"] and settled(a["probes"] + b["probes"], tolerance):
            ratios.append(a["tokens_per_s"] / b["tokens_per_s"])
    return ratios


def summary(model, work, samples, peers, tolerance):
    row = {"model": pathlib.Path(model).name, "work": work.text, "samples": samples, "rates": {},
           "ratios": {}}
    for who in [Ours.name, *[peer.name for peer in peers]]:
        rates = [s["tokens_per_s"] for s in samples if s["who"] == who and s["tokens_per_s"]]
        row["rates"][who] = statistics.median(rates) if rates else None
    for peer in peers:
        ratios = pairs_of(samples, peer.name, tolerance)
        row["ratios"][peer.name] = None if not ratios else {
            "median": statistics.median(ratios), "min": min(ratios), "max": max(ratios),
            "pairs": len(ratios)}
    known = [r["median"] for r in row["ratios"].values() if r]
    row["worst_ratio"] = min(known) if known else None
    return row


def cell(number, digits=1):
    return "-" if number is None else f"{number:.{digits}f}"


def print_row(row, peers):
    parts = [f"{row['model'][:38]:<38} {row['work']:<14} {cell(row['rates'][Ours.name]):>9}"]
    for peer in peers:
        ratio = row["ratios"][peer.name]
        text = "unsettled" if ratio is None else (
            f"{ratio['median']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f}, {ratio['pairs']})")
        parts.append(f"{cell(row['rates'][peer.name]):>9} {text:>22}")
    print(" ".join(parts), flush=True)


def chart(rows, path):
    """Bars of ours over the better peer; the line is 1."""
    shown = [row for row in rows if row["worst_ratio"]]
    height, scale, left = 22, 150, 330
    most = max([row["worst_ratio"] for row in shown], default=1)
    width = left + int(scale * max(most, 1.5)) + 60
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height * len(shown) + 40}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           '<text x="8" y="16">Backplane over the better peer, tokens/s, same file and run</text>']
    for i, row in enumerate(shown):
        y = 28 + i * height
        ratio = row["worst_ratio"]
        colour = "#2b8a3e" if ratio >= 1 else "#c92a2a"
        out.append(f'<text x="8" y="{y + 13}">{row["model"].removesuffix(".gguf")} {row["work"]}</text>'
                   f'<rect x="{left}" y="{y}" width="{scale * ratio:.0f}" height="{height - 6}" '
                   f'fill="{colour}"/><text x="{left + scale * ratio + 5:.0f}" y="{y + 13}">'
                   f'{ratio:.2f}</text>')
    out.append(f'<line x1="{left + scale}" y1="24" x2="{left + scale}" '
               f'y2="{28 + height * len(shown)}" stroke="black"/></svg>')
    pathlib.Path(path).write_text("\n".join(out) + "\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--ours", default="build/bin/backplane")
    parser.add_argument("--probe", default="build/bin/bench_probe")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=FOLDER[:FLAGS]")
    parser.add_argument("--work", default="prefill,decode,decode*4,decode*16")
    parser.add_argument("--kv", metavar="TYPE", help="of the KV cache, on every side")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="of our backend, as isa=avx2 beside peers built for AVX2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=0.15, help="of the read rate in a pair")
    parser.add_argument("--json", help="write all samples there")
    parser.add_argument("--chart", help="write bars there (SVG)")
    return parser.parse_args()


def main():
    options = arguments()
    ours = Ours(options.ours, options.threads, options.kv, options.set)
    peers = [Peer(text, options.threads, options.kv) for text in options.peer]
    probe = Probe(options.probe, options.threads)
    machine = probe.take()
    print(f"{machine['cpu']}, {machine['threads']} threads: reads {machine['read_gb_s']:.1f} GB/s, int8 "
          f"{machine['int8_tops']:.2f} TOPS, barrier {machine['barrier_ns']:.0f} ns")
    print(f"{'':<38} {'':<14} {'ours':>9} " + " ".join(f"{peer.name:>32}" for peer in peers))
    rows = []
    for model in options.models:
        for path in [model, *pathlib.Path(f"{model}.cache").glob("*")]:
            read_anew(path)
        for work in map(Work, options.work.split(",")):
            samples = measure(model, work, ours, peers, probe, options.rounds, options.tolerance)
            rows.append(summary(model, work, samples, peers, options.tolerance))
            print_row(rows[-1], peers)
            if options.json:
                document = {"machine": machine, "rows": rows}
                pathlib.Path(options.json).write_text(json.dumps(document, indent=1) + "\n")
    if options.chart:
        chart(rows, options.chart)


if __name__ == "__main__":
    main()
