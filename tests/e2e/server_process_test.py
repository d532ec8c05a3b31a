"""Clients that go away, signals, and a model file that is cut under the server."""

import json
import os
import random
import shutil
import signal
import tempfile
import threading
import time
import unittest

from support import (
    TINY,
    Server,
    ServerTest,
    main,
    needs_smollm2,
    scaled,
    smollm2_model,
    tiny_expected,
    tiny_model,
)

CAPITAL = "What is the capital of Italy?"
ROME = "The capital of Italy is Rome."
CHATS = {case["name"]: case for case in tiny_expected()["chats"]}
ENDLESS = {"messages": CHATS["endless"]["messages"], "max_tokens": 900, "ignore_eos": True}


class Cancellation(ServerTest):
    def abandoned(self, body, path="/v1/chat/completions"):
        return self.server.send(path, body)

    def wait_running(self, n=1):
        self.server.wait_until(
            lambda: self.server.metric("backplane_requests_running") >= n, 10, "runs nothing"
        )

    def test_blocks_of_a_stream_are_free_within_two_seconds(self):
        stream = self.server.stream("/v1/chat/completions", ENDLESS)
        next(iter(stream))
        self.assertGreater(self.server.metric("backplane_kv_cache_usage_ratio"), 0)
        stream.close()
        self.server.wait_idle(2)

    def test_of_a_whole_answer_too(self):
        connection = self.abandoned(ENDLESS)
        self.wait_running()
        connection.close()
        self.server.wait_idle(2)

    def test_and_of_all_choices(self):
        connection = self.abandoned(ENDLESS | {"n": 8})
        self.wait_running(8)
        connection.close()
        self.server.wait_idle(2)

    def test_and_of_all_prompts(self):
        body = {"prompt": [[5] * 500] * 8, "max_tokens": 500, "ignore_eos": True}
        connection = self.abandoned(body, "/v1/completions")
        self.wait_running()
        connection.close()
        self.server.wait_idle(2)

    def test_others_go_on_undisturbed(self):
        case = CHATS["count_60"]
        answers = []
        thread = threading.Thread(
            target=lambda: answers.append(self.server.chat(case["messages"], max_tokens=256))
        )
        streams = [self.server.stream("/v1/chat/completions", ENDLESS) for _ in range(4)]
        thread.start()
        for stream in streams:
            next(iter(stream))
            stream.close()
        thread.join(scaled(60))
        self.assertEqual(answers[0]["choices"][0]["message"]["content"], case["greedy_text"])

    def test_two_hundred_at_random_moments(self):
        choice = random.Random(3)
        before = self.server.chat(CHATS["song"]["messages"], max_tokens=320)["choices"]

        def come_and_go(seed):
            own = random.Random(seed)
            for _ in range(25):
                prompt = [own.randrange(3, 500) for _ in range(own.choice([1, 60, 200, 600]))]
                body = {
                    "prompt": prompt, "max_tokens": 300, "ignore_eos": True,
                    "n": own.choice([1, 1, 2]), "stream": own.random() < 0.5,
                }  # fmt: skip
                connection = self.abandoned(body, "/v1/completions")
                time.sleep(own.random() * 0.15)
                connection.close()

        threads = [
            threading.Thread(target=come_and_go, args=(choice.random(),)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(scaled(120))
        self.server.wait_idle(2)
        after = self.server.chat(CHATS["song"]["messages"], max_tokens=320)["choices"]
        self.assertEqual(after, before)
        self.assertGreater(
            self.server.metric("backplane_requests_total", finish_reason="cancelled"), 50
        )


class Signals(unittest.TestCase):
    # Slow enough that a signal finds it at work: several sequences of 900 tokens.
    BUSY = ENDLESS | {"n": 4}

    # So slow that none of those answers is finished within seconds.
    SLOW = tiny_model(backend={"plugin": "reference"})

    def running(self, model=None, **server):
        running = Server(model or tiny_model(), server=server)
        self.addCleanup(lambda: running.process.poll() is None and running.stop(signal.SIGKILL))
        return running

    def test_an_idle_server_ends_with_0(self):
        for how in [signal.SIGTERM, signal.SIGINT]:
            server = self.running()
            self.assertEqual(server.chat(CAPITAL)["choices"][0]["message"]["content"], ROME)
            start = time.monotonic()
            self.assertEqual(server.stop(how), 0)
            self.assertLess(time.monotonic() - start, scaled(5))

    def test_a_stream_finishes_first(self):
        server = self.running()
        stream = server.stream("/v1/chat/completions", self.BUSY)
        events = iter(stream)
        first = next(events)
        server.process.send_signal(signal.SIGTERM)
        rest = list(events)
        self.assertEqual(rest[-1], "[DONE]")
        ended = [
            choice["finish_reason"]
            for event in [first, *rest[:-1]]
            for choice in json.loads(event)["choices"]
            if choice["finish_reason"]
        ]
        self.assertEqual(ended, ["length"] * 4)
        stream.close()
        self.assertEqual(server.process.wait(scaled(10)), 0)
        server.stop()

    def test_nothing_new_is_taken_meanwhile(self):
        server = self.running()
        kept = server.connect()  # from before the signal
        kept.request("GET", "/ready")
        self.assertEqual(self.status(kept), 200)
        stream = server.stream("/v1/chat/completions", self.BUSY | {"n": 16})
        next(iter(stream))
        server.process.send_signal(signal.SIGTERM)
        server.wait_until(lambda: self.refuses(server), 5, "still takes connections")
        self.assertIsNone(server.process.poll(), "the server left its stream")
        kept.close()
        stream.close()
        self.assertEqual(server.process.wait(scaled(10)), 0)
        server.stop()

    def status(self, connection):
        response = connection.getresponse()
        response.read()
        return response.status

    def refuses(self, server):
        """No connection, or one on which nothing is ready."""
        try:
            return server.get("/ready").status == 503
        except OSError:
            return True

    def begin_answers(self, server):
        """A stream that has begun, and the connection of an answer in one piece."""
        stream = server.stream("/v1/chat/completions", self.BUSY)
        whole = server.send("/v1/chat/completions", self.BUSY)
        next(iter(stream))
        server.wait_until(
            lambda: server.metric("backplane_requests_running") >= 8, 10, "runs too few"
        )
        return stream, whole

    def check_cut(self, server, stream, whole):
        """Both end with an error, and that is said in the log."""
        *_, last = stream.chunks()
        self.assertIn("shutting down", last["error"]["message"])
        response = whole.getresponse()
        self.assertEqual(response.status, 503)
        self.assertEqual(json.loads(response.read())["error"]["type"], "server_error")
        whole.close()
        self.assertEqual(server.process.wait(scaled(10)), 0)
        server.stop()
        self.assertIn("2 unfinished request", server.log_text())

    def test_the_grace_is_bounded(self):
        server = self.running(self.SLOW, grace_s=1)
        answers = self.begin_answers(server)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.check_cut(server, *answers)
        self.assertLess(time.monotonic() - start, scaled(5))

    def test_a_second_signal_ends_it(self):
        server = self.running(self.SLOW)
        answers = self.begin_answers(server)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.check_cut(server, *answers)
        self.assertLess(time.monotonic() - start, scaled(2))

    @needs_smollm2
    def test_what_is_being_quantised_ends_too(self):
        server = Server(smollm2_model(quantize="IQ2_M"), ready=False)
        time.sleep(1)
        start = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - start, scaled(5))


class CutModel(unittest.TestCase):
    def test_ends_with_a_message(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cut.gguf")
            shutil.copyfile(TINY, path)
            server = Server(tiny_model(source=path, backend={"plugin": "reference"}))
            self.assertEqual(server.chat(CAPITAL)["choices"][0]["message"]["content"], ROME)
            os.truncate(path, 4096)
            try:
                server.chat(CAPITAL)
            except (OSError, AssertionError):
                pass  # the connection ends with the server
            code = server.process.wait(scaled(20))
            server.stop()
            self.assertNotIn(code, [0, -signal.SIGBUS, -signal.SIGSEGV], server.log_text())
            self.assertIn("cut.gguf", server.log_text())


if __name__ == "__main__":
    main()
