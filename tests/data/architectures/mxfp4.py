"""Experts' weights in MXFP4: blocks of 32 values in 17 bytes, as GGUF keeps them, made from the weights' names, and what
transformers makes of them."""
import numpy as np
import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

BLOCK = 32
FIRST_EXPONENT = 120  # of four that scales have: 2^-7 to 2^-4


def blocks_of(random, name, shape):
    """[experts, rows, blocks, 17] for weights [experts, rows, columns]."""
    blocks = random(name, int(np.prod(shape)) // BLOCK * 17).astype(np.uint8).reshape(*shape[:-1], -1, 17)
    blocks[..., 0] = FIRST_EXPONENT + blocks[..., 0] % 4
    return blocks


def in_pairs(blocks):
    """Elements j and j + 16 of a byte -> elements 2 j and 2 j + 1, as Hugging Face files have them."""
    elements = np.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], axis=-1)
    return elements[..., 0::2] | elements[..., 1::2] << 4


def values(blocks):
    """float32 [experts, columns, rows]."""
    return convert_moe_packed_tensors(torch.from_numpy(in_pairs(blocks)), torch.from_numpy(blocks[..., 0].copy()),
                                      dtype=torch.float32)


def hugging_face_name(name):
    return name + "_blocks" if name.endswith(("experts.gate_up_proj", "experts.down_proj")) else None


def gguf_names(name):
    """Of the weights in a tensor of Hugging Face's, whose rows come in turn."""
    parts = {"gate_up_proj": ("gate", "up"), "down_proj": ("down",)}.get(name.rpartition("experts.")[2], ())
    return [f"blk.{name.split('.')[2]}.ffn_{part}_exps.weight" for part in parts]


def in_turn(parts):
    """Rows of all parts, one of each after the other."""
    stacked = np.stack(parts, axis=2)
    return stacked.reshape(stacked.shape[0], -1, *stacked.shape[3:])


def check_layout(blocks):
    """The converter to GGUF makes GGUF's blocks of Hugging Face's."""
    from conversion.gpt_oss import GptOssModel
    turned = GptOssModel.transform_nibble_layout(None, torch.from_numpy(in_pairs(blocks)))
    assert np.array_equal(turned.numpy(), blocks[..., 1:])
