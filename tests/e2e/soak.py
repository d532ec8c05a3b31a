#!/usr/bin/env python3
"""Mixed requests for a while, then: no growth of memory, no block held, a clean exit.

Meant for a build under AddressSanitizer (.ci/soak.sh); a short run is one of the tests.
"""

import argparse
import contextlib
import os
import random
import sys
import threading
import time

from support import Server, scaled, tiny_expected, tiny_model

N_CLIENTS = 6
ROME = "The capital of Italy is Rome."
CAPITAL = [{"role": "user", "content": "What is the capital of Italy?"}]
MESSAGES = [case["messages"] for case in tiny_expected()["chats"]]
SETTLED = 0.3  # part of the run after which memory should stay as it is
MOST_GROWTH = 0.03  # of the memory at that time, besides:
SLACK_BYTES = 12 << 20  # allocators' arenas, and blocks of a cache not touched before


def rss_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Client(threading.Thread):
    """One client that does all kinds of things, right ones and wrong ones."""

    def __init__(self, server, seed, deadline):
        super().__init__(daemon=True)
        self.server, self.random, self.deadline = server, random.Random(seed), deadline
        self.n_requests, self.failures = 0, []

    def run(self):
        kinds = [self.chat, self.stream, self.complete, self.score, self.abandon, self.wrong,
                 self.tokens, self.look]  # fmt: skip
        while time.monotonic() < self.deadline:
            try:
                self.random.choice(kinds)()
            except Exception as error:  # any failure is the finding
                self.failures.append(repr(error))
            self.n_requests += 1

    def expect(self, status, *allowed):
        if status not in allowed:
            self.failures.append(f"status {status}, not {allowed}")

    def fields(self):
        draw = self.random
        return {
            "max_tokens": draw.randint(1, 120),
            "temperature": draw.choice([0, 0.7, 2]),
            "top_k": draw.choice([0, 5]),
            "seed": draw.randrange(1000),
            "n": draw.choice([1, 1, 1, 3]),
            "stop": draw.choice([None, ["7, 8"], [" and"]]),
            "repeat_penalty": draw.choice([1, 1.2]),
        }

    def prompt(self, most=600):
        # A few fixed beginnings, so that the prefix cache finds some.
        start = [3 + self.random.randrange(8)] * 128
        own = [self.random.randrange(3, 500) for _ in range(self.random.randrange(1, most))]
        return start + own

    def chat(self):
        body = {"messages": self.random.choice(MESSAGES)} | self.fields()
        self.expect(self.server.post("/v1/chat/completions", body).status, 200, 429)
        answer = self.server.post("/v1/chat/completions", {"messages": CAPITAL})
        self.expect(answer.status, 200, 429)
        if answer.status == 200:
            text = answer.json()["choices"][0]["message"]["content"]
            if text != ROME:
                self.failures.append(f"answered {text!r}")

    def stream(self):
        body = {"messages": self.random.choice(MESSAGES), "logprobs": True} | self.fields()
        with contextlib.closing(self.server.stream("/v1/chat/completions", body)) as stream:
            self.expect(stream.status, 200, 429)
            if stream.status == 200:
                stream.chunks()

    def complete(self):
        body = {"prompt": [self.prompt(), self.prompt()], "ignore_eos": True} | self.fields()
        self.expect(self.server.post("/v1/completions", body).status, 200, 429)

    def score(self):
        body = {"prompt": self.prompt(), "echo": True, "logprobs": 3, "max_tokens": 0}
        self.expect(self.server.post("/v1/completions", body).status, 200, 429)

    def abandon(self):
        body = {"prompt": self.prompt(), "ignore_eos": True} | self.fields()
        body |= {"max_tokens": 300, "stream": self.random.random() < 0.5}
        with contextlib.closing(self.server.send("/v1/completions", body)):
            time.sleep(self.random.random() * 0.2)

    def wrong(self):
        path, body, status = self.random.choice(
            [
                ("/v1/chat/completions", {"messages": CAPITAL, "temperature": -1}, 400),
                ("/v1/completions", {"prompt": [5] * 5000}, 400),
                ("/v1/completions", {"prompt": "a", "model": "nobody"}, 404),
                ("/v1/embeddings", {"input": "a"}, 404),
                ("/v1/completions", "[" * 1000, 400),
            ]
        )
        self.expect(self.server.post(path, body).status, status)

    def tokens(self):
        text = "é" * self.random.randrange(2000)
        response = self.server.post("/tokenize", {"prompt": text})
        self.expect(response.status, 200)
        back = self.server.post("/detokenize", {"tokens": response.json()["tokens"]})
        if back.json()["prompt"] != text:
            self.failures.append("detokenize did not give the text back")

    def look(self):
        for path in ["/health", "/ready", "/metrics", "/v1/models"]:
            self.expect(self.server.get(path).status, 200)


def watch_memory(server, seconds):
    """RSS samples over the run."""
    samples, deadline = [], time.monotonic() + seconds
    while time.monotonic() < deadline and server.process.poll() is None:
        samples.append(rss_bytes(server.process.pid))
        time.sleep(0.5)
    return samples


def growth_problem(samples):
    settled = samples[int(len(samples) * SETTLED) :]
    quarter = max(1, len(settled) // 4)
    first, last = max(settled[:quarter]), max(settled[-quarter:])
    print(f"memory: {first / 1e6:.1f} MB settled, {last / 1e6:.1f} MB at the end", flush=True)
    if last > first * (1 + MOST_GROWTH) + SLACK_BYTES:
        return [f"memory grew from {first} to {last} bytes"]
    return []


def soak(seconds):
    """Everything that went wrong."""
    # Few blocks: sequences are preempted, and the cache is soon full.
    model = tiny_model(
        backend={"plugin": "cpu", "threads": 1, "kv": {"memory": "6MB"}},
        scheduler={"plugin": "fcfs", "max_sequences": 12},
    )
    problems = []
    with Server(model, server={"max_queue": 24}) as server:
        deadline = time.monotonic() + seconds
        clients = [Client(server, seed, deadline) for seed in range(N_CLIENTS)]
        for client in clients:
            client.start()
        samples = watch_memory(server, seconds)
        for client in clients:
            client.join(scaled(120))
            problems += client.failures
        print(f"{sum(c.n_requests for c in clients)} requests in {seconds:.0f} s", flush=True)
        problems += growth_problem(samples)
        server.wait_idle()
        preemptions = server.metric("backplane_preemptions_total")
        hits = server.metric("backplane_prefix_cache_hits_total")
        print(f"{preemptions:.0f} preemptions, {hits:.0f} tokens from the cache", flush=True)
    for line in server.log_text().splitlines():
        if "Sanitizer" in line or "runtime error" in line:
            problems.append(line)
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=1800)
    problems = soak(parser.parse_args().seconds)
    for problem in problems[:20]:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
