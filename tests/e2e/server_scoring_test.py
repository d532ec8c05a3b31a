"""What evaluation tools and routers read: prompt logprobs, token endpoints, cache hits, metrics."""

import math
import threading

from support import TINY, ServerTest, logits, main, scaled, tiny_expected

CHATS = {case["name"]: case for case in tiny_expected()["chats"]}
TEXT = "The capital of Spain is Madrid."

METRICS = [
    "time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
    "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
    "request_prompt_tokens", "request_generation_tokens", "step_tokens", "step_seconds",
]  # fmt: skip
PLAIN_METRICS = [
    "backplane_prompt_tokens_total", "backplane_generation_tokens_total",
    "backplane_requests_total", "backplane_preemptions_total",
    "backplane_prefix_cache_queries_total", "backplane_prefix_cache_hits_total",
    "backplane_requests_running", "backplane_requests_waiting",
    "backplane_kv_cache_usage_ratio", "backplane_kv_blocks",
    "backplane_kv_swap_out_blocks_total", "backplane_kv_swap_in_blocks_total",
    "backplane_kv_swap_out_bytes_total", "backplane_kv_swap_in_bytes_total",
    "backplane_kv_swap_refused_total", "backplane_kv_swap_failures_total",
    "backplane_kv_swap_bytes",
]  # fmt: skip


def log_softmax(row, token):
    top = max(row)
    return row[token] - top - math.log(sum(math.exp(v - top) for v in row))


class PromptLogprobs(ServerTest):
    def scored(self, prompt, **fields):
        body = {"echo": True, "logprobs": 5, "max_tokens": 0} | fields
        return self.server.complete(prompt, **body)["choices"][0]

    def test_equal_to_the_logits_of_each_prefix(self):
        ids = self.server.post("/tokenize", {"prompt": TEXT}).json()["tokens"]
        choice = self.scored(TEXT)
        self.assertEqual(choice["text"], TEXT)
        found = choice["logprobs"]["token_logprobs"]
        self.assertEqual(len(found), len(ids))
        self.assertIsNone(found[0])
        for i in range(1, len(ids)):
            expected = log_softmax(logits(TINY, ids[:i], "--threads", "1"), ids[i])
            self.assertAlmostEqual(found[i], expected, delta=0.05 + abs(expected) * 0.02)

    def test_texts_offsets_and_alternatives(self):
        logprobs = self.scored(TEXT)["logprobs"]
        self.assertEqual("".join(logprobs["tokens"]), TEXT)
        for token, offset in zip(logprobs["tokens"], logprobs["text_offset"]):
            self.assertTrue(TEXT[offset:].startswith(token))
        for value, token, top in list(
            zip(logprobs["token_logprobs"], logprobs["tokens"], logprobs["top_logprobs"])
        )[1:]:
            self.assertIn(len(top), [5, 6])
            self.assertAlmostEqual(top[token], value)
            self.assertLessEqual(value, max(top.values()))

    def test_the_prefix_cache_changes_no_score(self):
        prompt = [10 + i % 300 for i in range(300)]
        first = self.scored(prompt)["logprobs"]["token_logprobs"]
        again = self.scored(prompt)["logprobs"]["token_logprobs"]
        self.assertEqual(len(first), 300)
        for a, b in zip(first[1:], again[1:]):
            self.assertAlmostEqual(a, b, places=4)

    def test_generated_tokens_follow_the_prompt(self):
        prompt = TEXT.removesuffix(" Madrid.")
        choice = self.scored(prompt, max_tokens=4, logprobs=1)
        self.assertTrue(TEXT.startswith(choice["text"]))
        self.assertGreater(len(choice["text"]), len(prompt))
        n = len(self.server.post("/tokenize", {"prompt": prompt}).json()["tokens"])
        self.assertEqual(len(choice["logprobs"]["tokens"]), n + 4)

    def test_a_continuation_is_scored_as_evaluation_tools_do(self):
        context, right, wrong = "The capital of Spain is", " Madrid.", " Oslo."
        n = len(self.server.post("/tokenize", {"prompt": context}).json()["tokens"])

        def score(continuation):
            logprobs = self.scored(context + continuation, logprobs=1)["logprobs"]
            return sum(logprobs["token_logprobs"][n:])

        self.assertGreater(score(right), score(wrong) + 5)


class TokenEndpoints(ServerTest):
    def test_there_and_back(self):
        for case in tiny_expected()["tokenize"]:
            answer = self.server.post("/tokenize", {"prompt": case["text"]}).json()
            self.assertEqual(answer["tokens"], case["ids"])
            self.assertEqual(answer["count"], len(case["ids"]))
            self.assertEqual(answer["max_model_len"], 1024)
            back = self.server.post("/detokenize", {"tokens": case["ids"]}).json()
            self.assertEqual(back, {"prompt": case["text"]})

    def test_messages_and_rendering(self):
        case = CHATS["capital_system"]
        body = {"messages": case["messages"]}
        self.assertEqual(self.server.post("/tokenize", body).json()["tokens"], case["ids"])
        rendered = self.server.post("/v1/chat/completions/render", body).json()
        self.assertEqual(rendered["prompt"], case["prompt"])

    def test_refusals(self):
        self.assert_refused(self.server.post("/tokenize", {}), 400, param="prompt")
        self.assert_refused(self.server.post("/detokenize", {}), 400, param="tokens")
        for tokens in [5, [512], [-1], ["a"]]:
            response = self.server.post("/detokenize", {"tokens": tokens})
            self.assert_refused(response, 400, param="tokens")


class PrefixCache(ServerTest):
    def cached(self, answer):
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_hits_are_reported_and_change_nothing(self):
        prompt = CHATS["story"]["ids"] * 12  # several blocks
        first = self.server.complete(prompt, max_tokens=16)
        self.assertEqual(self.cached(first), 0)
        hits = self.server.metric("backplane_prefix_cache_hits_total")
        again = self.server.complete(prompt, max_tokens=16)
        self.assertEqual(again["choices"], first["choices"])
        self.assertGreaterEqual(self.cached(again), 64)
        self.assertLess(self.cached(again), len(prompt))
        self.assertGreater(self.server.metric("backplane_prefix_cache_hits_total"), hits)

    def test_a_salt_keeps_prompts_apart(self):
        prompt = CHATS["name"]["ids"] * 8
        self.server.complete(prompt, max_tokens=1, cache_salt="a")
        self.assertEqual(self.cached(self.server.complete(prompt, max_tokens=1)), 0)
        other = self.server.complete(prompt, max_tokens=1, cache_salt="b")
        self.assertEqual(self.cached(other), 0)
        same = self.server.complete(prompt, max_tokens=1, cache_salt="a")
        self.assertGreater(self.cached(same), 0)

    def test_several_choices_share_their_prompt(self):
        prompt = CHATS["repeat"]["ids"] * 10
        whole = self.server.complete(prompt, max_tokens=8, n=3)
        self.assertEqual(len({choice["text"] for choice in whole["choices"]}), 1)
        self.server.wait_idle()


class Batches(ServerTest):
    """What stands beside a sequence in a batch must not change it."""

    def sampled(self, **fields):
        body = {"max_tokens": 60, "temperature": 2, "seed": 11, "return_token_ids": True} | fields
        return self.server.complete(CHATS["story"]["prompt"], **body)["choices"][0]

    def test_alone_and_among_others(self):
        alone = self.sampled()
        greedy = self.server.complete(CHATS["song"]["prompt"], max_tokens=100)["choices"]
        stop = threading.Event()

        def noise(seed):
            while not stop.is_set():
                self.server.complete(
                    [seed + i % 200 for i in range(10 + 37 * seed % 200)],
                    max_tokens=20 + seed, temperature=1, seed=seed, n=1 + seed % 3,
                )  # fmt: skip

        threads = [threading.Thread(target=noise, args=(seed,)) for seed in range(1, 7)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                self.assertEqual(self.sampled(), alone)
                beside = self.server.complete(CHATS["song"]["prompt"], max_tokens=100)
                self.assertEqual(beside["choices"], greedy)
        finally:
            stop.set()
            for thread in threads:
                thread.join(scaled(60))
        self.server.wait_idle()


class Metrics(ServerTest):
    def test_all_names_are_there(self):
        self.server.chat("What is the capital of Italy?")
        for name in METRICS:
            count = self.server.metric(f"backplane_{name}_count", model="tiny")
            self.assertGreater(count, 0, name)
            self.assertEqual(
                count, self.server.metric(f"backplane_{name}_bucket", model="tiny", le="+Inf"), name
            )
        for name in PLAIN_METRICS:
            self.server.metric(name, model="tiny")
        for name in ["vllm:num_requests_waiting", "vllm:num_requests_running",
                     "vllm:kv_cache_usage_perc", "vllm:cache_config_info"]:  # fmt: skip
            self.server.metric(name, model_name="tiny")
        self.assertGreater(self.server.metric("backplane_kv_blocks"), 0)

    def test_they_count(self):
        prompts = self.server.metric("backplane_prompt_tokens_total")
        answers = self.server.metric("backplane_generation_tokens_total")
        ended = self.server.metric("backplane_requests_total", finish_reason="length")
        usage = self.server.complete("Once upon", max_tokens=5)["usage"]
        self.assertEqual(
            self.server.metric("backplane_prompt_tokens_total") - prompts, usage["prompt_tokens"]
        )
        self.assertEqual(self.server.metric("backplane_generation_tokens_total") - answers, 5)
        self.assertEqual(
            self.server.metric("backplane_requests_total", finish_reason="length") - ended, 1
        )


if __name__ == "__main__":
    main()
