"""The tiny model in numpy, in float64, on the weights exactly as stored: the oracle."""

import numpy as np

import bpe


class Reference:
    def __init__(self, reader):
        def hyper(key):
            return reader.metadata["llama." + key]

        self.weights = {name: values.astype(np.float64) for name, values in reader.tensors.items()}
        self.n_layer, self.n_head = hyper("block_count"), hyper("attention.head_count")
        self.n_head_kv, self.head_dim = hyper("attention.head_count_kv"), hyper(
            "attention.key_length"
        )
        self.eps = hyper("attention.layer_norm_rms_epsilon")
        self.freq = hyper("rope.freq_base") ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
        self.reset()

    def reset(self):
        empty = np.zeros((0, self.n_head_kv, self.head_dim))
        self.cache = [(empty, empty) for _ in range(self.n_layer)]

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weights[name]

    def rotate(self, x, pos):
        """x: [tokens, heads, head_dim]; adjacent elements are a pair."""
        angle = pos[:, None, None] * self.freq
        pair = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
        return np.stack((pair.real, pair.imag), -1).reshape(x.shape)

    def attention(self, layer, h, pos):
        def project(name):
            return (h @ self.weights[f"blk.{layer}.attn_{name}.weight"].T).reshape(
                len(h), -1, self.head_dim
            )

        past_k, past_v = self.cache[layer]
        k = np.concatenate([past_k, self.rotate(project("k"), pos)])
        v = np.concatenate([past_v, project("v")])
        self.cache[layer] = k, v
        group = self.n_head // self.n_head_kv
        q = self.rotate(project("q"), pos).reshape(len(h), self.n_head_kv, group, self.head_dim)
        score = np.einsum("tkgd,skd->kgts", q, k) / np.sqrt(self.head_dim)
        score[..., np.arange(len(k)) > pos[:, None]] = -np.inf
        weight = np.exp(score - score.max(-1, keepdims=True))
        weight /= weight.sum(-1, keepdims=True)
        out = np.einsum("kgts,skd->tkgd", weight, v).reshape(len(h), -1)
        return out @ self.weights[f"blk.{layer}.attn_output.weight"].T

    def ffn(self, layer, h):
        gate, up, down = (
            self.weights[f"blk.{layer}.ffn_{n}.weight"] for n in ("gate", "up", "down")
        )
        g = h @ gate.T
        return (g / (1 + np.exp(-g)) * (h @ up.T)) @ down.T

    def forward(self, ids):
        """Appends ids to the sequence; logits [tokens, n_vocab]."""
        n_past = len(self.cache[0][0])
        pos = np.arange(n_past, n_past + len(ids))
        x = self.weights["token_embd.weight"][ids]
        for layer in range(self.n_layer):
            x = x + self.attention(layer, self.norm(x, f"blk.{layer}.attn_norm.weight"), pos)
            x = x + self.ffn(layer, self.norm(x, f"blk.{layer}.ffn_norm.weight"))
        return self.norm(x, "output_norm.weight") @ self.weights["token_embd.weight"].T

    def greedy(self, ids, n_max):
        """Greedy ids (the end token included), the margin of each, and the logits behind each."""
        self.reset()
        logits = self.forward(ids)[-1]
        out, margins, rows = [], [], []
        while len(out) < n_max:
            second, first = np.sort(logits)[-2:]
            out.append(int(logits.argmax()))
            margins.append(float(first - second))
            rows.append(logits)
            if out[-1] in (bpe.IM_END, bpe.END_OF_TEXT):
                break
            logits = self.forward(out[-1:])[-1]
        return out, margins, rows
