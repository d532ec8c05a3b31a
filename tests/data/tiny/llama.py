"""The tiny model in PyTorch, and its training. Developer-only."""

import math
import random
import time

import torch
import torch.nn.functional as F

import corpus


class Layer(torch.nn.Module):
    def __init__(self, p):
        super().__init__()
        q, kv = p.n_head * p.head_dim, p.n_head_kv * p.head_dim

        def linear(n_in, n_out):
            return torch.nn.Linear(n_in, n_out, bias=False)

        self.attn_norm, self.ffn_norm = (
            torch.nn.RMSNorm(p.n_embd, eps=p.norm_eps) for _ in range(2)
        )
        self.attn_q, self.attn_k = linear(p.n_embd, q), linear(p.n_embd, kv)
        self.attn_v, self.attn_output = linear(p.n_embd, kv), linear(q, p.n_embd)
        self.ffn_gate, self.ffn_up = linear(p.n_embd, p.n_ff), linear(p.n_embd, p.n_ff)
        self.ffn_down = linear(p.n_ff, p.n_embd)
        self.p = p

    def attend(self, x, rotation, mask):
        batch, length, _ = x.shape
        q, k, v = (
            proj(x).view(batch, length, -1, self.p.head_dim).transpose(1, 2)
            for proj in (self.attn_q, self.attn_k, self.attn_v)
        )
        q, k = rotate(q, rotation), rotate(k, rotation)
        k, v = (t.repeat_interleave(self.p.n_head // self.p.n_head_kv, dim=1) for t in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.attn_output(out.transpose(1, 2).reshape(batch, length, -1))

    def forward(self, x, rotation, mask):
        x = x + self.attend(self.attn_norm(x), rotation, mask)
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


def rotate(x, rotation):
    """Turns each adjacent pair of elements by its angle; x: [batch, heads, tokens, head_dim]."""
    cos, sin = rotation
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class Llama(torch.nn.Module):
    """Submodules carry the tensor names of GGUF; the output head shares token_embd."""

    def __init__(self, p):
        super().__init__()
        self.p = p
        self.token_embd = torch.nn.Embedding(p.n_vocab, p.n_embd)
        self.blk = torch.nn.ModuleList(Layer(p) for _ in range(p.n_layer))
        self.output_norm = torch.nn.RMSNorm(p.n_embd, eps=p.norm_eps)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                scale = 1 / math.sqrt(2 * p.n_layer) if "output" in name or "down" in name else 1.0
                torch.nn.init.normal_(weight, std=scale / math.sqrt(p.n_embd))

    def forward(self, ids, mask):
        """ids: [batch, tokens]; mask: [batch, 1, tokens, tokens], True where a token may look."""
        p = self.p
        freq = p.rope_base ** (-torch.arange(0, p.head_dim, 2) / p.head_dim)
        angle = torch.arange(ids.shape[1])[:, None] * freq
        x = self.token_embd(ids)
        for layer in self.blk:
            x = layer(x, (angle.cos(), angle.sin()), mask)
        return self.output_norm(x) @ self.token_embd.weight.T


def causal_mask(length):
    return torch.ones(length, length, dtype=torch.bool).tril()[None, None]


def pack_row(tokenizer, rng, length, long):
    """Documents side by side: ids, whether each is learned, document number; length + 1 each."""
    ids, learned, owner = [], [], []
    while len(ids) <= length:
        number = owner[-1] + 1 if owner else 0
        for text, count_it in corpus.document(rng, long):
            piece = tokenizer.encode(text)
            ids += piece
            learned += [count_it] * len(piece)
            owner += [number] * len(piece)
    return ids[: length + 1], learned[: length + 1], owner[: length + 1]


def pack_batch(tokenizer, rng, rows, length, long):
    packed = [pack_row(tokenizer, rng, length, long) for _ in range(rows)]
    ids, learned, owner = (torch.tensor([row[i] for row in packed]) for i in range(3))
    same = (owner[:, :-1, None] == owner[:, None, :-1])[:, None]
    targets = torch.where(learned[:, 1:].bool() & (owner[:, 1:] == owner[:, :-1]), ids[:, 1:], -100)
    return ids[:, :-1], targets, same & causal_mask(length)


def train(p, tokenizer, seed, steps, long_from=0.75, rate=3e-3, tokens_per_step=4096):
    """long_from: the share of the steps after which rows have 1024 tokens instead of 256."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = random.Random(seed)
    model = Llama(p)
    matrices = [w for w in model.parameters() if w.dim() == 2]
    gains = [w for w in model.parameters() if w.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.05}, {"params": gains, "weight_decay": 0.0}],
        lr=rate,
        betas=(0.9, 0.98),
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps, pct_start=0.06, final_div_factor=100
    )
    start = time.time()
    for step in range(steps):
        long = step >= long_from * steps
        length = 1024 if long else 256
        ids, targets, mask = pack_batch(tokenizer, rng, tokens_per_step // length, length, long)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids, mask)
        loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 20 == 0 or step + 1 == steps:
            print(
                f"step {step:5} of {steps}  loss {loss.item():.4f}  {time.time() - start:.0f} s",
                flush=True,
            )
    return model.eval()
