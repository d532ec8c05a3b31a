#!/usr/bin/env python3
"""The type that llama.cpp's quantiser chooses for each matrix of models of several kinds: mixtures.json.

  make_mixtures.py LLAMA_QUANTIZE

A letter for each tensor; two texts where an importance matrix makes a difference. Files of zeros (sparse, with the metadata and tensors of the goldens in ../architectures, rows of 256, more layers) go through
its --dry-run. Shared experts are left out: it counts their matrices as layers.
"""
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
GOLDENS = HERE.parent / "architectures"
WIDTH = 256
# Name: golden, layers, (heads, KV heads), experts, whether embeddings serve as output.
MODELS = {
    "llama": ("llama", 16, (6, 2), 0, False),
    "llama, 4 heads to a KV head": ("llama", 12, (8, 2), 0, False),
    "llama, one KV head, tied": ("llama", 17, (8, 1), 0, True),
    "llama, 80 layers": ("llama", 80, (64, 8), 0, False),
    "qwen2, 80 layers": ("qwen2-full", 80, (64, 8), 0, False),
    "mixtral, 8 experts": ("mixtral", 16, (6, 2), 8, False),
    "mixtral, 8 experts, 4 heads to a KV head": ("mixtral", 16, (8, 2), 8, False),
    "qwen3moe, 6 experts": ("qwen3moe", 16, (6, 2), 6, False),
    "falcon": ("falcon-40b", 32, None, 0, False),
    "phi3": ("phi3", 16, None, 0, False),
    "gemma3": ("gemma3", 18, None, 0, False),
    "lfm2": ("lfm2-plain", 16, None, 0, False),
    "deepseek2": ("deepseek2", 27, None, 0, False),
}
TYPES = ("F16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ1_S IQ1_M IQ2_XXS "
         "IQ2_XS IQ2_S IQ2_M IQ3_XXS IQ3_XS IQ3_S IQ3_M IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4_MOE Q2_0").split()
LARGE_TYPES = "Q2_K Q3_K_S Q3_K_M Q4_K_S Q4_K_M Q5_K_S IQ2_M IQ3_S".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def encoded(value):
    """(GGUF type, bytes)."""
    if isinstance(value, bool):
        return 7, struct.pack("<B", value)
    if isinstance(value, int):
        return (4, struct.pack("<I", value)) if value >= 0 else (5, struct.pack("<i", value))
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, text(value)
    return 9, struct.pack("<IQ", encoded(value[0])[0], len(value)) + b"".join(encoded(each)[1] for each in value)


def write_zeros(path, metadata, tensors):
    head, at = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)), 0
    for key, value in metadata.items():
        kind, data = encoded(value)
        head += text(key) + struct.pack("<I", kind) + data
    for name, dims in tensors.items():
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims[::-1], 0, at)
        n_bytes = 4
        for dim in dims:
            n_bytes *= dim
        at += (n_bytes + 31) // 32 * 32
    head += bytes(-len(head) % 32)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + at)


def model(golden, n_layers, heads, n_experts, is_tied):
    form = json.loads((GOLDENS / f"{golden}.json").read_text())["gguf"]
    metadata = dict(form["metadata"])
    arch = metadata["general.architecture"]
    had = metadata[f"{arch}.block_count"]
    for key, value in metadata.items():
        if isinstance(value, list) and len(value) == had:
            metadata[key] = [value[i % had] for i in range(n_layers)]
    metadata[f"{arch}.block_count"] = n_layers
    if heads:
        metadata[f"{arch}.attention.head_count"], metadata[f"{arch}.attention.head_count_kv"] = heads
        turned = metadata.get(f"{arch}.rope.dimension_count", WIDTH // heads[0])
        metadata |= {f"{arch}.attention.{kind}_length": turned for kind in ("key", "value")}
    if n_experts:
        metadata[f"{arch}.expert_count"] = n_experts
    tensors = {}
    names = [(name, dims) for name, dims in form["tensors"].items() if not name.startswith("blk.")]
    for i in range(n_layers):
        names += [(f"blk.{i}.{match[1]}", dims) for name, dims in form["tensors"].items()
                  if (match := re.match(rf"blk\.{i % had}\.(.*)", name))]
    for name, dims in names:
        is_matrix = len(dims) > 1 and "conv" not in name
        is_left_out = (is_tied and name == "output.weight") or name.endswith("bias") or "shexp" in name
        if not is_left_out:
            tensors[name] = dims[:-1] + [WIDTH] if is_matrix else dims
    return metadata, tensors


def vocabulary(n):
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe",
            "tokenizer.ggml.tokens": [f"t{i}" for i in range(n)], "tokenizer.ggml.token_type": [1] * n,
            "tokenizer.ggml.merges": ["t 1"]}


def chosen(program, path, kind, *options):
    done = subprocess.run([program, "--dry-run", *options, path, "unused", kind], capture_output=True, text=True)
    types = {}
    for line in (done.stdout + done.stderr).splitlines():
        if match := re.match(r"\[ *\d+/ *\d+\] (\S+) .* type = +(\w+), size =", line):
            becomes = re.search(r"-> +\S+ MiB \((\w+)\)", line)
            types[match[1]] = becomes[1] if becomes else match[2]
    if not types:
        sys.exit(f"{kind}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return types


def main():
    program, out, letters = sys.argv[1], {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path, matrix = pathlib.Path(folder) / "model.gguf", pathlib.Path(folder) / "imatrix.gguf"
        for name, (golden, *size) in MODELS.items():
            metadata, tensors = model(golden, *size)
            write_zeros(path, metadata | vocabulary(67), tensors)
            sums = {}
            for tensor, dims in tensors.items():
                if len(dims) > 1:
                    n_matrices = dims[0] if len(dims) > 2 else 1
                    sums |= {tensor + ".in_sum2": [n_matrices, dims[-1]], tensor + ".counts": [n_matrices, 1]}
            write_zeros(matrix, {"general.type": "imatrix", "imatrix.datasets": ["none"], "imatrix.chunk_count": 1,
                                 "imatrix.chunk_size": 1}, sums)
            kinds = {}
            for kind in LARGE_TYPES if "80" in name else TYPES:
                plain, weighted = (
                    "".join(letters.setdefault(types[tensor], LETTERS[len(letters)]) for tensor in tensors)
                    for types in (chosen(program, path, kind, *options) for options in ([], ["--imatrix", matrix])))
                kinds[kind] = plain if plain == weighted else [plain, weighted]
            out[name] = {"metadata": metadata, "tensors": list(tensors.items()), "types": kinds}
    lines = json.dumps({"letters": letters, "models": out}, separators=(",", ":"))
    for key in ("metadata", "tensors", "types", *TYPES):
        lines = lines.replace(f'"{key}":', f'\n"{key}":')
    (HERE / "mixtures.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
