"""The tiny model as a Hugging Face folder, of any number of shards, in 32-bit floats or as GPTQ keeps it."""

import json
import os
import struct
import sys

import numpy as np
import torch_file
from support import SOURCE, TINY, read_json

sys.path.insert(0, os.path.join(SOURCE, "tests", "data", "tiny"))
import gguf  # noqa: E402

NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
DTYPES = {"<f4": "F32", "<f2": "F16", "<i4": "I32"}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
CONTROL = 3


def huggingface_name(name):
    parts = name.split(".")
    if parts[0] in TOP_NAMES:
        return TOP_NAMES[parts[0]] + ".weight"
    return f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight"


def halves(rows, head_dim):
    """GGUF keeps rotary pairs side by side, Hugging Face half a head apart."""
    return rows.reshape(-1, head_dim // 2, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def write_torch(path, tensors):
    """Query weights lie transposed in their storages, as torch saves a transposed view."""
    turned = {
        name: np.ascontiguousarray(values.T).T if "q_proj" in name else values.copy()
        for name, values in tensors.items()
    }
    torch_file.save(path, turned)


def write_shard(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, values in tensors.items():
        raw = values.tobytes()
        header[name] = {
            "dtype": DTYPES[values.dtype.str],
            "shape": values.shape,
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def change_json(folder, name, **members):
    write_json(folder, name, read_json(os.path.join(folder, name)) | members)


def tokenizer(meta):
    texts = meta["tokenizer.ggml.tokens"]
    special = {i for i, kind in enumerate(meta["tokenizer.ggml.token_type"]) if kind == CONTROL}
    return {
        "added_tokens": [
            {"id": i, "content": texts[i], "special": True, "normalized": False} for i in special
        ],
        "pre_tokenizer": BYTE_LEVEL,
        "decoder": BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "vocab": {text: i for i, text in enumerate(texts) if i not in special},
            "merges": meta["tokenizer.ggml.merges"],
        },
    }


def gptq(weight):
    """Four bits and a scale for 32 columns; the parts, and the weight that they stand for."""
    rows, columns = weight.shape
    groups = weight.reshape(rows, -1, 32)
    scales = (np.abs(groups).max(2) / 7 + 1e-8).astype(np.float16)
    steps = np.clip(np.rint(groups / scales[:, :, None].astype(np.float32)), -8, 7)
    exact = (steps * scales[:, :, None].astype(np.float32)).reshape(rows, columns)
    quants = (steps.reshape(rows, columns // 8, 8) + 8).astype(np.uint32)
    words = (quants << np.arange(0, 32, 4, dtype=np.uint32)).sum(2, dtype=np.uint32)
    zeros = np.full((columns // 32, rows // 8), 0x77777777, np.int32)
    parts = {
        "qweight": np.ascontiguousarray(words.T).view(np.int32),
        "qzeros": zeros,
        "scales": np.ascontiguousarray(scales.T),
        "g_idx": (np.arange(columns, dtype=np.int32) // 32),
    }
    return parts, exact.astype(np.float32)


def write_folder(folder, shards=1, quantise=None, torch=False):
    """quantise: None, "gptq", or "exact" for the floats that GPTQ's parts stand for."""
    reader = gguf.Reader(TINY)
    meta = reader.metadata
    arch = {key[6:]: value for key, value in meta.items() if key.startswith("llama.")}
    tensors = {}
    for name, values in reader.tensors.items():
        if ".attn_q." in name or ".attn_k." in name:
            values = halves(values, arch["attention.key_length"])
        full = huggingface_name(name)
        values = np.ascontiguousarray(values, np.float32)
        if quantise is None or "_proj" not in full:
            tensors[full] = values
            continue
        parts, exact = gptq(values)
        if quantise == "exact":
            tensors[full] = exact
        else:
            tensors |= {full[: -len("weight")] + part: value for part, value in parts.items()}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": arch["embedding_length"],
        "intermediate_size": arch["feed_forward_length"],
        "num_hidden_layers": arch["block_count"],
        "num_attention_heads": arch["attention.head_count"],
        "num_key_value_heads": arch["attention.head_count_kv"],
        "head_dim": arch["attention.key_length"],
        "vocab_size": len(meta["tokenizer.ggml.tokens"]),
        "max_position_embeddings": arch["context_length"],
        "rms_norm_eps": arch["attention.layer_norm_rms_epsilon"],
        "rope_theta": arch["rope.freq_base"],
        "torch_dtype": "float32",
    }
    if quantise == "gptq":
        config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    texts = meta["tokenizer.ggml.tokens"]
    write_json(folder, "config.json", config)
    write_json(folder, "generation_config.json", {"eos_token_id": meta["tokenizer.ggml.eos_token_id"]})
    write_json(folder, "tokenizer.json", tokenizer(meta))
    beside = {"eos_token": texts[meta["tokenizer.ggml.eos_token_id"]]}
    if "tokenizer.ggml.bos_token_id" in meta:
        beside["bos_token"] = texts[meta["tokenizer.ggml.bos_token_id"]]
    write_json(folder, "tokenizer_config.json", beside)
    with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as file:
        file.write(meta["tokenizer.chat_template"])
    whole, extension, write = "model", "safetensors", write_shard
    if torch:
        whole, extension, write = "pytorch_model", "bin", write_torch
    if shards == 1:
        write(os.path.join(folder, f"{whole}.{extension}"), tensors)
        return
    weight_map = {}
    for i in range(shards):
        file = f"{whole}-{i + 1:05}-of-{shards:05}.{extension}"
        part = {name: tensors[name] for name in list(tensors)[i::shards]}
        write(os.path.join(folder, file), part)
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    write_json(folder, f"{whole}.{extension}.index.json", index)
