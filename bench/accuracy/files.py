#!/usr/bin/python3
"""Whether a peer computes from quantised files of ours what we do, as near as from files of its own.

  bench/accuracy/files.py --ours build/bin/backplane --quantizer PEER/llama-quantize --logits ./peer_logits
      [--types Q4_K_M,Q2_K] [--imatrix FILE] [--prompts 8] [--threads 2] [--json OUT.json] MODEL.gguf

For each type, of the file that `backplane quantize` wrote and of that which the peer wrote: how far logits lie from those
of our reference backend, which computes the same file in float32; rms over deviation behind the last position, mean over
the first prompts of prompts.txt. "peer, float32" is of the file's weights as the peer's quantiser writes them in float32,
so that nothing is rounded after they are read. What the peer's program is made of, accuracy.py says. Needs Debian's
python3-numpy.
"""
import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import tempfile

from accuracy import CommandFailed, errors, ours, output_of, peers, rows_of_tokens

TYPES = ("F16,BF16,Q8_0,Q6_K,Q5_K_M,Q5_K_S,Q5_1,Q5_0,Q4_K_M,Q4_K_S,Q4_1,Q4_0,IQ4_NL,IQ4_XS,Q3_K_L,Q3_K_M,Q3_K_S,IQ3_M,"
         "IQ3_S,IQ3_XS,IQ3_XXS,Q2_K,Q2_K_S,IQ2_M,IQ2_S,IQ2_XS,IQ2_XXS,IQ1_M,IQ1_S,MXFP4_MOE,MXFP4,NVFP4,TQ1_0,TQ2_0,"
         "Q1_0,Q2_0")


class Files:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, pathlib.Path(folder)
        self.imatrix = ["--imatrix", arguments.imatrix] if arguments.imatrix else []
        self.tokens = rows_of_tokens(arguments.ours, arguments.model)[: arguments.prompts]

    def ours(self, model, *options):
        return [ours(self.arguments.ours, model, row, self.arguments.threads, options) for row in self.tokens]

    def peers(self, model):
        return peers(self.arguments.logits, model, self.tokens, self.arguments.threads)

    def peer_writes(self, model, out, kind, *options):
        """Whether it knows the type."""
        command = [self.arguments.quantizer, "--allow-requantize", *options, model, out, kind, self.arguments.threads]
        return subprocess.run(list(map(str, command)), capture_output=True, check=False).returncode == 0

    def writes(self, who, kind, out):
        if who == "peer":
            return self.peer_writes(self.arguments.model, out, kind, *self.imatrix)
        output_of([self.arguments.ours, "quantize", self.arguments.model, out, "--type", kind, *self.imatrix])
        return True

    def measured(self, who, kind, out, whole):
        if not self.writes(who, kind, out):
            return {}
        exact = self.ours(out, "--backend", "reference")
        found = {"peer": self.peers(out), "backplane": self.ours(out)}
        if self.peer_writes(out, whole, "F32"):
            found["peer, float32"] = self.peers(whole)
        return {"bytes": out.stat().st_size} | {
            name: float(f"{statistics.mean(errors(logits, exact)):.3g}") for name, logits in found.items()}

    def row(self, who, kind):
        """Where a program fails, its message in place of figures."""
        out, whole = self.folder / f"{who}.gguf", self.folder / "float32.gguf"
        row = {"type": kind, "written by": who}
        try:
            row |= self.measured(who, kind, out, whole)
        except CommandFailed as failure:
            row["failure"] = str(failure)
        for path in (out, whole):
            path.unlink(missing_ok=True)
        print(row, flush=True)
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--quantizer", required=True)
    parser.add_argument("--logits", required=True)
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--imatrix")
    parser.add_argument("--writers", default="backplane,peer", help="whose files are computed")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("model")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = Files(arguments, folder)
        table = []
        for kind, who in itertools.product(arguments.types.split(","), arguments.writers.split(",")):
            table.append(files.row(who, kind))
            if arguments.json:
                pathlib.Path(arguments.json).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
