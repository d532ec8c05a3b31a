#!/usr/bin/env python3
"""Times decode and prefill of a Llama of 8B shape by transformers, in bf16 with random weights."""
import statistics
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, WARM_UP = 20, 3


def median_seconds(call):
    times = []
    for i in range(STEPS + WARM_UP):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        if i >= WARM_UP:
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


@torch.inference_mode()
def main():
    config = LlamaConfig(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                         num_attention_heads=32, num_key_value_heads=8, vocab_size=128256,
                         max_position_embeddings=8192, tie_word_embeddings=True)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    model.eval()
    for n in (512, 2048, 4096):
        ids = torch.randint(0, 128256, (1, n), device="cuda")
        seconds = median_seconds(lambda: model(ids, use_cache=True, logits_to_keep=1))
        print(f"torch prefill n {n}: median {seconds * 1e3:.3f} ms, {n / seconds:.1f} tokens/s")
    for n in (1, 16, 64, 256):
        prompt = torch.randint(0, 128256, (n, 512), device="cuda")
        cache = model(prompt, use_cache=True, logits_to_keep=1).past_key_values
        token = torch.randint(0, 128256, (n, 1), device="cuda")

        def step():
            model(token, past_key_values=cache, use_cache=True)

        seconds = median_seconds(step)
        print(f"torch decode n {n} depth 512: median {seconds * 1e3:.3f} ms, {n / seconds:.1f} tokens/s")


if __name__ == "__main__":
    main()
