#!/usr/bin/python3
"""How far quantised files lie from their source: ours and those of a peer's quantiser.

  bench/accuracy/mixtures.py --ours build/bin/backplane --quantizer PEER/llama-quantize --logits ./peer_logits
      [--types Q4_K_M,Q2_K] [--imatrix FILE] [--threads 2] [--json OUT.json] MODEL.gguf

For each type, over the prompts of prompts.txt: the difference from the source's logits behind the
last position, rms over their deviation, and the mean Kullback-Leibler divergence from the source's
distribution. All files are computed by one program, made of peer_logits.cpp as accuracy.py says, and
from weights in float32, so that quantisation alone differs. Needs Debian's python3-numpy.
"""
import argparse
import json
import pathlib
import tempfile

import numpy

from accuracy import errors, output_of, peers, rows_of_tokens


def log_softmax(logits):
    shifted = logits.astype(numpy.float64) - logits.max()
    return shifted - numpy.log(numpy.exp(shifted).sum())


def divergence(logits, exact):
    pairs = [(log_softmax(a), log_softmax(b)) for a, b in zip(logits, exact, strict=True)]
    return float(numpy.mean([(numpy.exp(p) * (p - q)).sum() for q, p in pairs]))


class Measure:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, pathlib.Path(folder)
        self.rows = rows_of_tokens(arguments.ours, arguments.model)
        self.exact = self.logits_of(arguments.model)

    def logits_of(self, model):
        whole = self.folder / "float32.gguf"
        output_of([self.arguments.ours, "quantize", model, whole, "--type", "F32"])
        return peers(self.arguments.logits, whole, self.rows, self.arguments.threads)

    def ours(self, out, kind, imatrix):
        output_of([self.arguments.ours, "quantize", self.arguments.model, out, "--type", kind, *imatrix])

    def theirs(self, out, kind, imatrix):
        output_of([self.arguments.quantizer, "--allow-requantize", *imatrix, self.arguments.model, out,
                   kind, self.arguments.threads])

    def row(self, kind, who, quantise):
        imatrix = ["--imatrix", self.arguments.imatrix] if self.arguments.imatrix else []
        out = self.folder / f"{who}.gguf"
        quantise(out, kind, imatrix)
        logits = self.logits_of(out)
        row = {"type": kind, "who": who, "bytes": out.stat().st_size,
               "rms": float(numpy.mean(errors(logits, self.exact))),
               "divergence": divergence(logits, self.exact)}
        out.unlink()
        print("{type:8} {who:7} {bytes:12} bytes, rms {rms:.4f}, divergence {divergence:.5f}".format(**row),
              flush=True)
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--quantizer", required=True)
    parser.add_argument("--logits", required=True)
    parser.add_argument("--types", default="Q4_0,Q4_K_M,Q3_K_M,Q2_K,IQ4_XS,IQ3_XXS")
    parser.add_argument("--imatrix")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("model")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure = Measure(arguments, folder)
        table = [measure.row(kind, who, quantise) for kind in arguments.types.split(",")
                 for who, quantise in (("ours", measure.ours), ("theirs", measure.theirs))]
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
