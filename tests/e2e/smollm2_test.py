"""The default model against transformers: token ids, logits, greedy continuations, and its chat."""

import json
import math
import unittest

from support import (
    DATA,
    SMOLLM2,
    Server,
    ServerTest,
    backplane,
    data,
    logits,
    main,
    needs_data,
    needs_smollm2,
    read_json,
    rms,
    smollm2_model,
)

CASES = read_json(data("smollm2", "expected.json"))["cases"] if DATA else []
SURE = 0.5  # a margin that rounding cannot overturn


@needs_data
@needs_smollm2
class Commands(unittest.TestCase):
    def test_token_ids(self):
        for case in CASES:
            done = backplane("tokenize", SMOLLM2, stdin=case["prompt"].encode())
            self.assertEqual(json.loads(done.stdout), case["ids"])

    def test_default_chat_template(self):
        for case in CASES:
            if case["kind"] != "chat":
                continue
            request = {
                "messages": [{"role": "user", "content": case["text"]}],
                "add_generation_prompt": True,
            }
            done = backplane("render", SMOLLM2, stdin=json.dumps(request).encode())
            self.assertEqual(done.stdout.decode(), case["prompt"])

    def check_logits(self, case, backend, bound):
        found = logits(SMOLLM2, case["ids"], "--backend", backend, timeout=300)
        self.assertEqual(len(found), case["n_vocab"])
        sample = found[:: case["stride"]]
        error = rms([a - b for a, b in zip(sample, case["sample"])]) / case["std"]
        self.assertLess(error, bound, case["text"])

    def test_logits_by_cpu(self):
        for case in CASES:
            self.check_logits(case, "cpu", 0.12)

    def test_logits_by_the_reference(self):
        self.check_logits(min(CASES, key=lambda case: len(case["ids"])), "reference", 0.001)


@needs_data
@needs_smollm2
class Served(ServerTest):
    @classmethod
    def make_server(cls):
        return Server(smollm2_model())

    def sure_steps(self, case):
        """Greedy ids before the first step that rounding may overturn."""
        for step, margin in enumerate(case["margins"]):
            if margin < SURE:
                return case["greedy"][:step]
        return case["greedy"]

    def test_greedy_ids(self):
        for case in CASES:
            found = self.server.complete(
                case["ids"], max_tokens=len(case["greedy"]), return_token_ids=True
            )["choices"][0]["token_ids"]
            sure = self.sure_steps(case)
            self.assertEqual(found[: len(sure)], sure, case["text"])

    def test_prompts_as_text_and_as_chat(self):
        for case in CASES:
            answer = self.server.complete(case["prompt"], max_tokens=1)
            self.assertEqual(answer["usage"]["prompt_tokens"], len(case["ids"]))
            if case["kind"] == "chat":
                answer = self.server.chat(case["text"], max_tokens=1)
                self.assertEqual(answer["usage"]["prompt_tokens"], len(case["ids"]))

    def test_capital_of_italy_after_an_example(self):
        # Without one the model wavers between Italian and English, whatever the arithmetic.
        messages = [
            {"role": "user", "content": "What is the capital of France?"},
            {"role": "assistant", "content": "The capital of France is Paris."},
            {"role": "user", "content": "What is the capital of Italy?"},
        ]
        answer = self.server.chat(messages, max_tokens=40)
        self.assertEqual(
            answer["choices"][0]["message"]["content"], "The capital of Italy is Rome."
        )

    def test_prompt_logprobs_are_those_of_the_logits(self):
        case = min(CASES, key=lambda c: len(c["ids"]))
        ids = case["ids"] + case["greedy"][:1]
        scored = self.server.complete(ids, echo=True, logprobs=0, max_tokens=0)
        found = scored["choices"][0]["logprobs"]["token_logprobs"][-1]
        row = logits(SMOLLM2, case["ids"])
        top = max(row)
        expected = row[ids[-1]] - top - math.log(sum(math.exp(v - top) for v in row))
        self.assertAlmostEqual(found, expected, delta=0.1)

    def test_many_chats_at_once_say_what_one_says(self):
        case = CASES[-1]
        body = {"messages": [{"role": "user", "content": case["text"]}], "max_tokens": 24}
        alone = self.server.post("/v1/chat/completions", body).json()["choices"]
        together = self.server.post("/v1/chat/completions", body | {"n": 4}).json()["choices"]
        for choice in together:
            self.assertEqual(choice["message"], alone[0]["message"])


if __name__ == "__main__":
    main()
