"""Requests that are refused: the status, the field at fault, OpenAI's envelope."""

from support import TINY, ServerTest, main


class Refusals(ServerTest):
    BODY = {"messages": [{"role": "user", "content": "Hi"}]}
    WRONG = [
        ({"temperature": -1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": 0.5}, "top_k"),
        ({"n": 0}, "n"),
        ({"n": 1_000_000}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["x"] * 1000}, "stop"),
        ({"stop": 5}, "stop"),
        ({"seed": "one"}, "seed"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 1000}, "top_logprobs"),
        ({"logit_bias": {"512": 1}}, "logit_bias"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 1000}}, "logit_bias"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"chat_template": "{{ 1 }}"}, "chat_template"),
        ({"grammar": "root ::= x"}, "grammar"),
        ({"temprature": 1}, "temprature"),
    ]

    def test_wrong_fields_are_named(self):
        for fields, param in self.WRONG:
            with self.subTest(fields=str(fields)[:80]):
                response = self.server.post("/v1/chat/completions", self.BODY | fields)
                error = self.assert_refused(response, 400, param=param)
                self.assertEqual(error["type"], "invalid_request_error")

    def test_streams_are_refused_by_a_status_line(self):
        for fields, param in self.WRONG[:3]:
            body = self.BODY | fields | {"stream": True}
            self.assert_refused(self.server.post("/v1/chat/completions", body), 400, param=param)

    def test_wrong_messages(self):
        for messages in [
            [5],
            [{}],
            [{"role": "user"}],
            [{"role": 5, "content": "Hi"}],
            [{"role": "user", "content": 5}],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        ]:
            with self.subTest(messages=messages):
                response = self.server.post("/v1/chat/completions", {"messages": messages})
                self.assertEqual(response.status, 400, response.body)
                self.assertTrue(response.error["param"].startswith("messages"))

    def test_wrong_prompts(self):
        for prompt in [5, {}, [], [[]], [512], [-1], [1.5], ["a", 5], [["a"]], None, ""]:
            with self.subTest(prompt=prompt):
                response = self.server.post("/v1/completions", {"prompt": prompt})
                self.assert_refused(response, 400, param="prompt")
        self.assert_refused(self.server.post("/v1/completions", {}), 400, param="prompt")

    def test_unknown_model(self):
        response = self.server.post("/v1/chat/completions", self.BODY | {"model": "gpt-9"})
        self.assert_refused(response, 404, param="model", code="model_not_found")
        self.assertEqual(self.server.get("/v1/models/gpt-9").status, 404)

    def test_a_prompt_longer_than_the_context(self):
        for stream in [False, True]:
            for path, body in [
                ("/v1/completions", {"prompt": [5] * 1024}),
                ("/v1/completions", {"prompt": "word " * 5000}),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a " * 1500}]}),
            ]:
                response = self.server.post(path, body | {"stream": stream})
                self.assertEqual(response.status, 400)
                self.assertEqual(response.error["code"], "context_length_exceeded")
        body = {"prompt": [5] * 1023, "max_tokens": 1}
        self.assertEqual(self.server.post("/v1/completions", body).status, 200)

    def test_errors_hold_no_path_of_the_host(self):
        for path, body in [("/v1/completions", {"prompt": 5}), ("/v1/nothing", {})]:
            self.assertNotIn(TINY, self.server.post(path, body).body.decode())

    def test_nothing_is_left_behind(self):
        self.server.wait_idle()

if __name__ == "__main__":
    main()
