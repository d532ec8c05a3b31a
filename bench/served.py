#!/usr/bin/env python3
"""Decode through the server against `backplane bench`, in turn on the same file.

  bench/served.py --ours build/bin/backplane [--generate 128] [--rounds 3] [--threads 2]
      [--sequences 1,4] [--sampler greedy,default] [--tolerance 0.05] MODEL.gguf [MODEL.gguf ...]

A served rate is that of N streams with a short prompt each, from the moment when all of them have had
their first token until the first of them ends; it holds sampling, detokenising, JSON and the sockets.
`bench` decodes as many tokens per sequence from the same depth.
The server is one that has run for a while: the cache holds what N streams take and all of it was used.
"""
import argparse
import http.client
import json
import pathlib
import re
import selectors
import socket
import statistics
import subprocess
import tempfile
import threading
import time

PROMPT = "Once upon a time"
PROMPT_ROOM = 64  # tokens, of any vocabulary
ROOM_OF_A_STREAM = 1 << 20  # bytes, more than a stream sends
SAMPLERS = {"greedy": {"temperature": 0}, "default": {"temperature": 0.8, "top_p": 0.95}}


class Server:
    """`backplane serve` of one model on a free port while the block runs, for n_sequences of at most so
    many tokens."""

    def __init__(self, program, model, threads, n_sequences, context):
        document = {
            "server": {"listen": "127.0.0.1:0"},
            "models": [{"id": "m", "source": str(pathlib.Path(model).resolve()), "context": context,
                        "scheduler": {"max_sequences": n_sequences},
                        "backend": {"plugin": "cpu", "threads": threads}}],
        }
        self.folder = tempfile.TemporaryDirectory()
        config = pathlib.Path(self.folder.name, "serve.yaml")
        config.write_text(json.dumps(document))
        self.process = subprocess.Popen([program, "serve", config], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise RuntimeError("the server does not listen")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        while not self.is_ready():
            time.sleep(0.1)

    def is_ready(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def n_prompt_tokens(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/v1/completions",
                           json.dumps({"model": "m", "prompt": PROMPT, "max_tokens": 1}),
                           {"Content-Type": "application/json"})
        return json.load(connection.getresponse())["usage"]["prompt_tokens"]

    def rate(self, n_sequences, n_tokens, fields):
        """Tokens a second of n streams, from when all have begun until the first of them ends.

        The client shares its cores with what it measures, and sleeps between these two moments: the
        sockets' low-water mark lies above what a stream sends, so that only a stream's end wakes it.
        """
        body = json.dumps({"model": "m", "prompt": PROMPT, "max_tokens": n_tokens, "ignore_eos": True,
                           "stream": True, "return_token_ids": True, **fields})
        request = (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                   f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}")
        streams = [Stream(self.port, request) for _ in range(n_sequences)]
        with selectors.DefaultSelector() as selector:
            for stream in streams:
                selector.register(stream.connection, selectors.EVENT_READ, stream)
            while not all(stream.n_tokens for stream in streams):
                for key, _ in selector.select():
                    key.data.take()
            begin = time.monotonic()
            had = tokens_so_far(streams)
            for stream in streams:
                stream.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, ROOM_OF_A_STREAM)
            selector.select()
            end = time.monotonic()
            have = tokens_so_far(streams)
        for stream in streams:
            stream.finish(n_tokens)
        return (have - had) / (end - begin)


class Stream:
    """One request and the tokens that have come for it."""

    def __init__(self, port, request):
        self.text = b""
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.sendall(request.encode())

    @property
    def n_tokens(self):
        return sum(len(ids.split(b",")) for ids in re.findall(rb'"token_ids":\[([\d,]+)\]', self.text))

    def take(self):
        """Takes what has come and does not wait; false where no more will come."""
        try:
            while data := self.connection.recv(ROOM_OF_A_STREAM, socket.MSG_DONTWAIT):
                self.text += data
            return False
        except BlockingIOError:
            return True

    def finish(self, n_tokens):
        """Waits for the stream's end; refuses one of any other length."""
        while self.take():
            time.sleep(0.001)
        self.connection.close()
        if self.n_tokens != n_tokens:
            raise RuntimeError(f"{self.n_tokens} tokens of {n_tokens} came: {self.text[:400].decode()}")


def tokens_so_far(streams):
    """What all have by the end of the step that has just been sent to one of them."""
    time.sleep(0.0005)
    for stream in streams:
        stream.take()
    return sum(stream.n_tokens for stream in streams)


def bench_rate(program, model, threads, n_sequences, n_tokens, depth):
    done = subprocess.run(
        [program, "bench", model, "--json", "--threads", str(threads), "--prompt", "0",
         "--depth", str(depth), "--generate", str(n_tokens), "--sequences", str(n_sequences)],
        capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["results"][0]["tokens_per_s"]


def compare(options, model, n_sequences, sampler):
    """Prints what is served beside what `bench` reached right before and after, of the rounds in which
    these two agree: the machine may have changed between others."""
    setup = (options.ours, model, options.threads, n_sequences)
    load = (n_sequences, options.generate, SAMPLERS[sampler])
    pairs = []
    with Server(*setup, options.generate + PROMPT_ROOM) as server:
        server.rate(*load)  # touches the cache for the first time
        depth = server.n_prompt_tokens()
        before = bench_rate(*setup, options.generate, depth)
        for _ in range(options.rounds):
            served = server.rate(*load)
            after = bench_rate(*setup, options.generate, depth)
            if abs(after / before - 1) <= options.tolerance:
                pairs.append((served, (before + after) / 2))
            before = after
    name = f"{pathlib.Path(model).name[:38]:<38} {n_sequences:>3} streams, {sampler:<8}"
    if not pairs:
        print(f"{name} no round of {options.rounds} was settled", flush=True)
        return
    served, inside = (statistics.median(rates) for rates in zip(*pairs))
    ratios = [a / b for a, b in pairs]
    print(f"{name} served {served:8.1f}, bench {inside:8.1f}, ratio {statistics.median(ratios):.3f} "
          f"({min(ratios):.3f} to {max(ratios):.3f}; {len(pairs)} of {options.rounds} rounds settled)",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--ours", default="build/bin/backplane")
    parser.add_argument("--generate", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=0.05,
                        help="by which rates of bench around a settled round may differ")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sequences", default="1,4")
    parser.add_argument("--sampler", default="greedy,default")
    options = parser.parse_args()
    for model in options.models:
        for n_sequences in map(int, options.sequences.split(",")):
            for sampler in options.sampler.split(","):
                compare(options, model, n_sequences, sampler)


if __name__ == "__main__":
    main()
