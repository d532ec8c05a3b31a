"""Preempted requests whose keys and values wait in host memory: the same answers, nothing lost."""

import concurrent.futures
import unittest

from support import Server, main, tiny_model

PROMPTS = [f"Count from {i} on: " + " ".join(str(i + k) for k in range(30)) for i in range(12)]
N_TOKENS = 120


def serve(**kv):
    return Server(tiny_model(context=256, backend={"plugin": "cpu", "threads": 1, "kv": kv}))


def answers(server):
    fields = {"max_tokens": N_TOKENS, "ignore_eos": True, "temperature": 1}

    def answer(prompt, seed):
        return server.complete(prompt, seed=seed, **fields)["choices"][0]["text"]

    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        return list(pool.map(answer, PROMPTS, range(len(PROMPTS))))


class Swap(unittest.TestCase):
    def test_changes_no_answer(self):
        with serve() as server:
            expected = answers(server)
            self.assertEqual(server.metric("backplane_preemptions_total"), 0)
        self.assertGreater(len(set(expected)), len(PROMPTS) // 2)
        # Room for three of the twelve.
        with serve(memory="1MiB", block=32, swap="64MiB") as server:
            self.assertEqual(answers(server), expected)
            self.assertGreater(server.metric("backplane_preemptions_total"), 0)
            self.assertGreater(server.metric("backplane_kv_swap_in_blocks_total"), 0)
            self.assertEqual(server.metric("backplane_kv_swap_failures_total"), 0)
            server.wait_idle()
            self.assertEqual(server.metric("backplane_kv_swap_bytes"), 0)


if __name__ == "__main__":
    main()
