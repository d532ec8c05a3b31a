"""The official OpenAI client for Python against the server."""

import os
import re
import unittest

from openai_client import needs_client, openai
from support import SOURCE, Server, main, needs_smollm2, smollm2_model, tiny_model

CAPITAL = [{"role": "user", "content": "What is the capital of Italy?"}]
ROME = "The capital of Italy is Rome."


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.make_server()
        cls.addClassCleanup(cls.server.stop)
        cls.client = openai.OpenAI(
            base_url=cls.server.url + "/v1", api_key="unused", max_retries=0, timeout=120
        )

    def streamed(self, **fields):
        stream = self.client.chat.completions.create(stream=True, **fields)
        return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)


@needs_client
class Tiny(ClientTest):
    @classmethod
    def make_server(cls):
        return Server(tiny_model())

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["tiny"])
        self.assertEqual(self.client.models.retrieve("tiny").object, "model")

    def test_chat(self):
        answer = self.client.chat.completions.create(model="tiny", messages=CAPITAL, max_tokens=32)
        self.assertEqual(answer.choices[0].message.content, ROME)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.usage.prompt_tokens, 17)
        self.assertEqual(answer.usage.prompt_tokens_details.cached_tokens, 0)

    def test_streamed_chat(self):
        self.assertEqual(self.streamed(model="tiny", messages=CAPITAL), ROME)
        chunks = list(
            self.client.chat.completions.create(
                model="tiny", messages=CAPITAL, stream=True, stream_options={"include_usage": True}
            )
        )
        self.assertEqual(chunks[-1].usage.completion_tokens, 13)

    def test_logprobs(self):
        answer = self.client.chat.completions.create(
            model="tiny", messages=CAPITAL, logprobs=True, top_logprobs=2
        )
        for token in answer.choices[0].logprobs.content:
            self.assertEqual(len(token.top_logprobs), 2)

    def test_completions(self):
        answer = self.client.completions.create(
            model="tiny", prompt="The capital of Spain is", max_tokens=16, logprobs=1
        )
        self.assertEqual(answer.choices[0].text, " Madrid.")
        self.assertEqual(len(answer.choices[0].logprobs.tokens), answer.usage.completion_tokens)
        stream = self.client.completions.create(
            model="tiny", prompt="The capital of Spain is", max_tokens=16, stream=True
        )
        self.assertEqual("".join(chunk.choices[0].text for chunk in stream), " Madrid.")

    def test_fields_of_local_engines(self):
        answer = self.client.chat.completions.create(
            model="tiny", messages=CAPITAL, extra_body={"top_k": 1, "return_token_ids": True}
        )
        self.assertEqual(answer.choices[0].message.content, ROME)

    def test_errors_are_the_clients_own(self):
        create = self.client.chat.completions.create
        with self.assertRaises(openai.NotFoundError) as caught:
            create(model="gpt-9", messages=CAPITAL)
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            create(model="tiny", messages=CAPITAL, temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            create(model="tiny", messages=[{"role": "user", "content": "a " * 2000}], stream=True)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.NotFoundError):
            self.client.embeddings.create(model="tiny", input="a")

    def test_a_stream_left_early(self):
        stream = self.client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "Count without stopping."}],
            max_tokens=900,
            stream=True,
        )
        next(iter(stream))
        stream.close()
        self.server.wait_idle(2)


@needs_client
class Keys(unittest.TestCase):
    def test_a_wrong_key(self):
        key_file = os.path.join(os.path.dirname(__file__), "README.md")  # any text
        keys = [{"key_file": key_file, "tenant": "a"}]
        with Server(tiny_model(), server={"api_keys": keys}) as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0)
            with self.assertRaises(openai.AuthenticationError):
                client.models.list()


@needs_client
@needs_smollm2
def shipped_value(key):
    """A plain value of configs/smollm2.yaml."""
    path = os.path.join(SOURCE, "configs", "smollm2.yaml")
    with open(path, encoding="utf-8") as file:
        return re.search(rf"^ +{key}: ([^#\n]*)", file.read(), re.M).group(1).strip()


class SmolLM2(ClientTest):
    """With the system message and the sampling of the shipped configuration."""

    @classmethod
    def make_server(cls):
        defaults = {key: float(shipped_value(key)) for key in ("temperature", "top_p")}
        return Server(
            smollm2_model()
            | {"sampler": {"defaults": defaults}, "chat": {"system": shipped_value("system")}}
        )

    def test_capital_of_italy(self):
        stream = self.client.chat.completions.create(
            model="smollm2", messages=CAPITAL, max_tokens=24, seed=1, stream=True
        )
        text = "".join(
            choice.delta.content or "" for chunk in stream for choice in chunk.choices
        )
        self.assertIn("Rome", text)


if __name__ == "__main__":
    main()
