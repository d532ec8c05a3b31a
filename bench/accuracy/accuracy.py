#!/usr/bin/python3
"""How far logits lie from float32: ours and a peer's, over the same prompts.

  bench/accuracy/accuracy.py --ours build/bin/backplane [--peer llama.cpp=./peer_logits]
      [--options "--kv f16" ...] [--threads 2] [--json OUT.json] MODEL.gguf [MODEL.gguf ...]

For each prompt of prompts.txt: the root of the mean squared difference from the float32 logits of
the last position, over the standard deviation of these. The float32 ones are the reference
backend's, which agree with transformers' (tests/e2e and the reference's own tests); they are kept
beside the model as MODEL.accuracy.npz, since the reference takes its time.

A peer's program is made of peer_logits.cpp with the peer's headers and library:
  g++ -O2 -std=c++17 -I PEER/include -I PEER/ggml/include peer_logits.cpp -L PEER/build/bin -lllama
      -Wl,-rpath,PEER/build/bin -o peer_logits
Needs Debian's python3-numpy.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy

PROMPTS = pathlib.Path(__file__).with_name("prompts.txt")


class CommandFailed(SystemExit):
    """Ends the program with a message where nobody catches it."""


def output_of(command, text=None):
    done = subprocess.run([str(part) for part in command], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise CommandFailed(f"{pathlib.Path(sys.argv[0]).name}: {' '.join(map(str, command))}: {done.stderr[-1000:]}")
    return done.stdout


def prompts():
    lines = PROMPTS.read_text(encoding="utf-8").splitlines()
    return [line.replace("\\n", "\n") for line in lines if line]


def rows_of_tokens(program, model):
    return [json.loads(output_of([program, "tokenize", model], text)) for text in prompts()]


def ours(program, model, tokens, threads, options):
    printed = output_of([program, "logits", model, "--tokens", ",".join(map(str, tokens)),
                         "--threads", threads, *options])
    return numpy.array(json.loads(printed)["logits"], dtype=numpy.float32)


def oracle(program, model, rows, threads):
    kept = pathlib.Path(str(model) + ".accuracy.npz")
    if kept.exists():
        stored = numpy.load(kept)
        if stored["tokens"].item() == json.dumps(rows):
            return list(stored["logits"])
    logits = [ours(program, model, row, threads, ["--backend", "reference"]) for row in rows]
    numpy.savez(kept, tokens=json.dumps(rows), logits=numpy.stack(logits))
    return logits


def peers(program, model, rows, threads):
    with tempfile.NamedTemporaryFile() as out:
        lines = "".join(",".join(map(str, row)) + "\n" for row in rows)
        output_of([program, model, threads, out.name], lines)
        logits = numpy.fromfile(out.name, dtype=numpy.float32).reshape(len(rows), -1)
    return list(logits)


def errors(logits, exact):
    return [float(numpy.sqrt(numpy.mean((a - b) ** 2)) / numpy.std(b))
            for a, b in zip(logits, exact, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PROGRAM")
    parser.add_argument("--options", action="append", default=[],
                        help="further options of `backplane logits`; a row of the table each")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()

    table = []
    for model in arguments.models:
        rows = rows_of_tokens(arguments.ours, model)
        exact = oracle(arguments.ours, model, rows, arguments.threads)
        runs = [(" ".join(["backplane", options]).strip(),
                 [ours(arguments.ours, model, row, arguments.threads, options.split())
                  for row in rows]) for options in ["", *arguments.options]]
        for peer in arguments.peer:
            name, _, program = peer.partition("=")
            runs.append((name, peers(program, model, rows, arguments.threads)))
        for name, logits in runs:
            found = errors(logits, exact)
            table.append({"model": pathlib.Path(model).name, "runtime": name,
                          "prompts": len(found), "mean": statistics.mean(found),
                          "median": statistics.median(found), "highest": max(found)})
            print("{model:44} {runtime:28} {prompts:3} prompts: mean {mean:.4f}, "
                  "median {median:.4f}, highest {highest:.4f}".format(**table[-1]), flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
