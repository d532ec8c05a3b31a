#!/usr/bin/env python3
"""Logits of transformers on tiny models of each family, which tests make again from the names of their tensors.

  make_goldens.py [--llama-cpp DIR] [FAMILY ...]

Needs torch, transformers and safetensors, and for GGUF llama.cpp's source tree, whose converter says which tensors and
metadata a model becomes. Writes FAMILY.json beside this file: for each dialect the metadata, the tensors' shapes, and
for prompts of 1, 7, 33 and 100 tokens and 16 tokens decoded after the third prompt every 9th logit of the last row.
"""
import argparse
import copy
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import mxfp4
from families import FAMILIES, N_VOCAB

HERE = pathlib.Path(__file__).parent
TEXT = "config.text_config."
PROMPTS = (1, 7, 33, 100)
N_DECODED = 16
STRIDE = 9
MASK = (1 << 64) - 1


def name_hash(name):
    value = 0xCBF29CE484222325  # FNV-1a
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def random(name, n):
    """16 bits each."""
    with np.errstate(over="ignore"):
        z = np.uint64(name_hash(name)) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z >> np.uint64(48)


def values_of(name, shape):
    """Uniform on a grid of 2^-16, so that float32 arithmetic on it is exact in every language."""
    unit = random(name, int(np.prod(shape))).astype(np.float64) / 32768 - 1
    if name.endswith("ssm_a"):
        return (unit / 4 - 1).astype(np.float32).reshape(shape)
    if "norm" in name or ".ln_" in name:
        return (1 + unit / 4).astype(np.float32).reshape(shape)
    is_small = len(shape) == 1 or "bias" in name
    scale = 0.25 if is_small else 2.0 / 2 ** round(np.log2(shape[-1]) / 2)
    return (unit * scale).astype(np.float32).reshape(shape)


def tokens():
    return [(i * i * 7 + i * 31 + 5) % (N_VOCAB - 3) + 3 for i in range(PROMPTS[-1])]


def build(family):
    model_class, config_class, config, _ = FAMILIES[family]
    config = getattr(transformers, config_class)(**copy.deepcopy(config))
    config._attn_implementation = "eager"
    return getattr(transformers, model_class)(config).float().eval()


def expected(folder):
    # Eager attention would add Falcon's biases twice.
    config = json.loads((folder / "config.json").read_text())
    kind = "sdpa" if config.get("alibi") else "eager"
    model_class = getattr(transformers, config["architectures"][0])
    model = model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation=kind)
    ids = tokens()

    def row(logits):
        logits = logits[0, -1].double()
        return {"deviation": float(f"{logits.std(correction=0):.6g}"),
                "sample": [float(f"{x:.6g}") for x in logits[::STRIDE]]}

    with torch.inference_mode():
        prompts = [{"n": n, **row(model.eval()(torch.tensor([ids[:n]])).logits)} for n in PROMPTS]
        step = model(torch.tensor([ids[:PROMPTS[2]]]), use_cache=True)
        decoded = []
        for token in ids[PROMPTS[2]:PROMPTS[2] + N_DECODED]:
            step = model(torch.tensor([[token]]), past_key_values=step.past_key_values, use_cache=True)
            decoded.append(row(step.logits))
    return {"prompts": prompts, "decoded": decoded}


def flat(config, prefix="config."):
    for key, value in config.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        elif value != [] and not (key in ("transformers_version", "dtype", "torch_dtype")):
            yield prefix + key, value


def metadata_of(config):
    """As the readers of Hugging Face folders give it."""
    found = dict(flat(config))
    nulls = [key for key, value in found.items() if value is None]
    metadata = {key: value for key, value in found.items() if value is not None}
    return metadata | ({"huggingface.null_keys": nulls} if nulls else {})


def rewrite(folder, values):
    """The folder's tensors with other values, by name and old tensor."""
    path = folder / "model.safetensors"
    tensors = {name: values(name, tensor).contiguous() for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    return tensors


def hugging_face(folder):
    tensors = rewrite(folder, lambda name, old: torch.from_numpy(values_of(name, tuple(old.shape))))
    return {"metadata": metadata_of(json.loads((folder / "config.json").read_text())),
            "tensors": {name: list(tensor.shape) for name, tensor in sorted(tensors.items())},
            **expected(folder)}


def hugging_face_mxfp4(folder):
    """Like hugging_face, with the experts' weights in blocks."""
    form = hugging_face(folder)
    shapes, kept = form["tensors"], []

    def of_blocks(name, old):
        blocks_name = mxfp4.hugging_face_name(name)
        if blocks_name is None:
            return old
        n_experts, n_columns, n_rows = shapes.pop(name)
        shapes[blocks_name] = [n_experts, n_rows, n_columns]
        kept.append(blocks_name)
        return mxfp4.values(mxfp4.blocks_of(random, blocks_name, shapes[blocks_name]))

    rewrite(folder, of_blocks)
    metadata = form["metadata"] | {"config.quantization_config.quant_method": "mxfp4"}
    return {"metadata": metadata, "tensors": shapes, "mxfp4": kept, **expected(folder)}


def older_layers(metadata):
    """What said before layer_types which layers have attention."""
    attention = [i for i, kind in enumerate(metadata.get("config.layer_types", [])) if kind == "full_attention"]
    kind = metadata["config.model_type"]
    if kind == "qwen3_next":
        return {"config.full_attention_interval": attention[0] + 1}
    if kind.startswith("lfm2"):
        return {"config.full_attn_idxs": attention}
    return {}


def older_style(metadata):
    """The metadata as configurations had it before rope_parameters and layer_types."""
    inner = {key: value for key, value in metadata.items() if key.startswith(TEXT)}
    if inner:
        text = older_style({key.replace(TEXT, "config."): value for key, value in inner.items()})
        rest = {key: value for key, value in metadata.items() if key not in inner}
        return rest | {key.replace("config.", TEXT): value for key, value in text.items()}
    old = older_layers(metadata)
    for key, value in metadata.items():
        parts = key.split(".")
        if key == "config.layer_types":
            if metadata["config.model_type"] == "cohere2":
                old["config.sliding_window_pattern"] = value.index("full_attention") + 1
            continue
        if parts[1] != "rope_parameters":
            old[key] = value
        elif parts[-1] == "rope_theta":
            local = "sliding_attention" in parts and metadata["config.model_type"] != "olmo3"
            old["config.rope_local_base_freq" if local else "config.rope_theta"] = value
        elif "sliding_attention" in parts or value == "default":
            continue
        elif parts[-1] == "partial_rotary_factor":
            is_neox = metadata["config.model_type"] == "gpt_neox"
            old["config.rotary_pct" if is_neox else "config.partial_rotary_factor"] = value
        else:
            old["config.rope_scaling." + ("type" if parts[-1] == "rope_type" else parts[-1])] = value
    return old


def stack_head_norms(stablelm):
    """The converter loses the norms of StableLM's heads: what stacks them is a generator that nobody runs."""
    of_others = stablelm.modify_tensors

    def modify_tensors(self, data, name, layer):
        if "_layernorm.norms." not in name:
            yield from of_others(self, data, name, layer)
            return
        which = "q" if ".q_layernorm." in name else "k"
        n = self.hparams["num_attention_heads" if which == "q" else "num_key_value_heads"]
        norms = self.__dict__.setdefault("head_norms", {}).setdefault((which, layer), {})
        norms[name] = data
        if len(norms) == n:
            yield from self._stack_qk_norm(layer, n, norms, f"{which}_layernorm")

    stablelm.modify_tensors = modify_tensors


def convert(folder, out, **options):
    """llama.cpp's converter, without a tokenizer."""
    import conversion
    from conversion.base import ModelBase, ModelType, get_model_architecture, gguf
    (folder / "tokenizer.json").write_text(json.dumps(
        {"model": {"type": "BPE", "vocab": {f"t{i}": i for i in range(N_VOCAB)}, "merges": []}, "added_tokens": []}))
    load = ModelBase.__dict__["load_hparams"].__func__

    def load_hparams(path, is_mistral_format=False):
        """With the keys of the hub's configurations that transformers has renamed since."""
        params = load(path, is_mistral_format)
        kind = params["model_type"]
        if kind == "gpt_neox":
            params["rotary_pct"] = params["rope_parameters"]["partial_rotary_factor"]
            params.pop("num_key_value_heads", None)
        if kind == "gpt2":
            params["n_ctx"] = params["n_positions"]
        if kind == "falcon" and not params["new_decoder_architecture"] and params["multi_query"]:
            params["num_kv_heads"] = 1
        if kind == "cohere2":
            params["rotary_pct"] = 1.0
        if kind == "deepseek_v2":
            params["norm_topk_prob"] = False  # which transformers passes over
        if kind in ("deepseek_v3", "glm4_moe_lite"):
            params["scoring_func"] = "sigmoid"
        if kind == "glm4_moe_lite":
            params["first_k_dense_replace"] = params["mlp_layer_types"].index("sparse")
        return params

    ModelBase.load_hparams = staticmethod(load_hparams)
    try:
        kind = conversion.get_model_class(get_model_architecture(load_hparams(folder), ModelType.TEXT))
        kind.set_vocab = lambda self: None
        if kind.__name__ == "StableLMModel":
            stack_head_norms(kind)
        if hasattr(kind, "opt_num_mtp_layers"):  # wants layers that guess further tokens, which transformers drops
            kind.no_mtp = True
        kind(folder, gguf.LlamaFileType.ALL_F32, out, **options).write()
    finally:
        ModelBase.load_hparams = staticmethod(load)
    return gguf.GGUFReader(out)


def gguf_form(folder, **options):
    """Numbers each element, finds the numbers again after conversion, and so gives the elements the values that their
    places in the GGUF file are to have. Where the converter adds 1 to a weight, its number becomes odd; of decays it
    makes -e^x."""
    counted = 0

    def numbers(name, old):
        nonlocal counted
        first, counted = counted, counted + old.numel()
        numbered = (torch.arange(first, counted, dtype=torch.float32) * 2).reshape(old.shape)
        return numbered.log() if name.endswith("A_log") else numbered

    rewrite(folder, numbers)
    assert counted < 1 << (18 if any(name.endswith("A_log") for name in load_file(folder / "model.safetensors")) else 23)
    reader = convert(folder, folder / "model.gguf", **options)
    values = np.zeros(counted, dtype=np.float32)
    tensors, given = {}, {}
    for tensor in reader.tensors:
        shape = [int(n) for n in tensor.shape][::-1]
        if tensor.name.startswith("rope_"):  # from the configuration
            given[tensor.name] = [float(x) for x in tensor.data.flatten()]
        elif tensor.name.endswith("ssm_a"):
            found = np.rint(-tensor.data.reshape(-1).view(np.float32)).astype(np.int64)
            assert not (found % 2).any()
            values[found // 2] = np.log(-values_of(tensor.name, shape).reshape(-1))
        else:
            found = tensor.data.reshape(-1).view(np.float32).astype(np.int64)
            values[found // 2] = values_of(tensor.name, shape).reshape(-1) - found % 2
        tensors[tensor.name] = shape
    first = 0

    def back(_, old):
        nonlocal first
        piece = values[first:first + old.numel()]
        first += old.numel()
        return torch.from_numpy(piece.copy()).reshape(old.shape)

    rewrite(folder, back)
    metadata = {key: field.contents() for key, field in reader.fields.items()
                if key.partition(".")[0] not in ("GGUF", "tokenizer") and (
                    key == "general.architecture" or not key.startswith("general."))}
    return {"metadata": metadata, "tensors": tensors, "given": given, **expected(folder)}


def gguf_mxfp4(folder):
    """Like gguf_form, with the experts' weights in blocks."""
    form, kept = gguf_form(folder), []

    def of_blocks(name, old):
        names = mxfp4.gguf_names(name)
        if not names:
            return old
        parts = [mxfp4.blocks_of(random, each, form["tensors"][each]) for each in names]
        for part in parts:
            mxfp4.check_layout(part)
        kept.extend(names)
        return mxfp4.values(mxfp4.in_turn(parts))

    rewrite(folder, of_blocks)
    return form | {"mxfp4": kept} | expected(folder)


def make(family):
    golden = {"tokens": tokens(), "stride": STRIDE}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        torch.manual_seed(1)
        build(family).save_pretrained(folder)
        is_mxfp4 = family.endswith("mxfp4")
        golden["huggingface"] = (hugging_face_mxfp4 if is_mxfp4 else hugging_face)(folder)
        golden["older_metadata"] = older_style(golden["huggingface"]["metadata"])
        if "gguf" in FAMILIES[family][3]:
            has_experts = "num_experts" in FAMILIES[family][2]
            fused = {"fuse_gate_up_exps" if has_experts else "fuse_qkv": family.endswith("fused")}
            golden["gguf"] = gguf_mxfp4(folder) if is_mxfp4 else gguf_form(folder, **fused)
    text = json.dumps(golden, separators=(",", ":"))
    for key in ("huggingface", "older_metadata", "gguf", "tensors", "prompts", "decoded"):
        text = text.replace(f'"{key}":', f'\n"{key}":')
    (HERE / f"{family}.json").write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", help="its source tree")
    parser.add_argument("families", nargs="*", default=list(FAMILIES))
    arguments = parser.parse_args()
    if arguments.llama_cpp:
        sys.path[:0] = [arguments.llama_cpp, arguments.llama_cpp + "/gguf-py"]
    for family in arguments.families or FAMILIES:
        make(family)
        print(family, (HERE / f"{family}.json").stat().st_size)


if __name__ == "__main__":
    main()
