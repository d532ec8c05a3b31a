"""Completions on the tests' model: prompts, stops, lengths, choices, sampling."""

from support import Server, ServerTest, main, tiny_expected, tiny_model

CHATS = {case["name"]: case for case in tiny_expected()["chats"]}
PLAIN = {case["name"]: case for case in tiny_expected()["completions"]}


class Completions(ServerTest):
    def text(self, prompt, **fields):
        return self.server.complete(prompt, **fields)["choices"][0]["text"]

    def test_prompts_in_every_form(self):
        robot, capital = PLAIN["robot"], PLAIN["capital_plain"]
        n = 16
        expected = [self.text(case["prompt"], max_tokens=n) for case in (robot, capital)]
        self.assertTrue(robot["greedy_text"].startswith(expected[0]))
        self.assertEqual(expected[1], capital["greedy_text"])
        self.assertEqual(self.text(robot["ids"], max_tokens=n), expected[0])
        for prompts in [
            [robot["prompt"], capital["prompt"]],
            [robot["ids"], capital["ids"]],
        ]:
            answer = self.server.complete(prompts, max_tokens=n)
            self.assertEqual([c["text"] for c in answer["choices"]], expected)
            self.assertEqual([c["index"] for c in answer["choices"]], [0, 1])
            self.assertEqual(
                answer["usage"]["prompt_tokens"], len(robot["ids"]) + len(capital["ids"])
            )

    def test_whole_texts(self):
        for case in PLAIN.values():
            answer = self.server.complete(
                case["prompt"], max_tokens=case["max_tokens"], return_token_ids=True
            )
            [choice] = answer["choices"]
            self.assertEqual(choice["token_ids"], case["greedy"])
            self.assertEqual(choice["text"], case["greedy_text"])
            self.assertEqual(choice["finish_reason"], case["finish_reason"])

    def test_streamed(self):
        case = PLAIN["robot"]
        body = {"prompt": case["prompt"], "max_tokens": case["max_tokens"]}
        chunks = self.server.stream("/v1/completions", body).chunks()
        self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), case["greedy_text"])
        self.assertEqual({c["object"] for c in chunks}, {"text_completion"})

    def test_special_tokens_of_a_prompt_become_ids(self):
        case = CHATS["capital"]
        answer = self.server.complete(case["prompt"], max_tokens=32)
        self.assertEqual(answer["usage"]["prompt_tokens"], len(case["ids"]))
        self.assertEqual(answer["choices"][0]["text"], case["greedy_text"])

    def test_echo(self):
        prompt = PLAIN["capital_plain"]["prompt"]
        self.assertEqual(self.text(prompt, echo=True, max_tokens=16), prompt + " Madrid.")

    def test_stop_strings_across_tokens(self):
        whole = CHATS["count_12"]["greedy_text"]
        prompt = CHATS["count_12"]["prompt"]
        for stop in ["5, 6", " 11", ", 1", "12.", "4, 5, 6, 7, 8", "1", "2, 3, 4,"]:
            expected = whole[: whole.index(stop)]
            body = {"prompt": prompt, "max_tokens": 64, "stop": ["never", stop]}
            choice = self.server.complete(**body)["choices"][0]
            self.assertEqual(choice["text"], expected, stop)
            self.assertEqual(choice["finish_reason"], "stop")
            chunks = self.server.stream("/v1/completions", body).chunks()
            self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), expected, stop)

    def test_a_stop_string_that_only_begins_is_given_out(self):
        whole = CHATS["capital"]["greedy_text"]
        self.assertEqual(
            self.text(CHATS["capital"]["prompt"], max_tokens=64, stop="Rome!"), whole
        )

    def test_lengths(self):
        prompt = CHATS["endless"]["prompt"]
        for n in [1, 2, 63, 64, 65, 130]:
            answer = self.server.complete(prompt, max_tokens=n)
            self.assertEqual(answer["usage"]["completion_tokens"], n)
            self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        context = self.server.get("/v1/models").json()["data"][0]["max_model_len"]
        answer = self.server.complete(prompt, max_tokens=1_000_000, ignore_eos=True)
        self.assertEqual(answer["usage"]["total_tokens"], context)

    def test_ends(self):
        case = CHATS["capital"]
        stopped = self.server.complete(
            case["prompt"], max_tokens=32, stop_token_ids=[case["greedy"][3]], return_token_ids=True
        )
        self.assertEqual(stopped["choices"][0]["token_ids"], case["greedy"][:4])
        self.assertEqual(stopped["choices"][0]["finish_reason"], "stop")
        on = self.server.complete(case["prompt"], max_tokens=32, ignore_eos=True)
        self.assertEqual(on["usage"]["completion_tokens"], 32)
        least = self.server.complete(case["prompt"], max_tokens=32, min_tokens=20)
        self.assertGreaterEqual(least["usage"]["completion_tokens"], 20)

    def test_several_choices(self):
        body = {"prompt": CHATS["story"]["prompt"], "max_tokens": 24, "temperature": 3, "seed": 5}
        whole = self.server.complete(**body, n=4)
        texts = [choice["text"] for choice in whole["choices"]]
        self.assertEqual([choice["index"] for choice in whole["choices"]], [0, 1, 2, 3])
        self.assertGreater(len(set(texts)), 1)
        self.assertEqual(whole["usage"]["prompt_tokens"], len(CHATS["story"]["ids"]))
        self.assertEqual(self.server.complete(**body, n=4)["choices"], whole["choices"])
        chunks = self.server.stream("/v1/completions", body | {"n": 4}).chunks()
        streamed = [
            "".join(c["text"] for chunk in chunks for c in chunk["choices"] if c["index"] == i)
            for i in range(4)
        ]
        self.assertEqual(streamed, texts)

    def test_logit_bias(self):
        case = CHATS["capital"]
        first = case["greedy"][0]
        banned = self.server.complete(
            case["prompt"], max_tokens=1, logit_bias={str(first): -100}, return_token_ids=True
        )
        self.assertNotEqual(banned["choices"][0]["token_ids"], [first])
        forced = self.server.complete(
            case["prompt"], max_tokens=3, logit_bias={"100": 100}, return_token_ids=True
        )
        self.assertEqual(forced["choices"][0]["token_ids"], [100, 100, 100])


class Sampling(ServerTest):
    @classmethod
    def make_server(cls):
        return Server(tiny_model(sampler={"defaults": {"temperature": 2.5}}))

    def story(self, **fields):
        body = {"max_tokens": 32, "return_token_ids": True} | fields
        return self.server.complete(CHATS["story"]["prompt"], **body)["choices"][0]["token_ids"]

    def test_without_a_seed_answers_differ(self):
        self.assertGreater(len({tuple(self.story()) for _ in range(5)}), 1)

    def test_a_seed_repeats_the_answer(self):
        self.assertEqual(self.story(seed=1), self.story(seed=1))
        self.assertNotEqual(self.story(seed=1), self.story(seed=2))

    def test_stages_cut(self):
        greedy = self.story(temperature=0)
        for cut in [{"top_k": 1}, {"top_p": 0}, {"min_p": 1}, {"temperature": 0.0}]:
            self.assertEqual(self.story(**cut), greedy, cut)
        self.assertNotEqual(self.story(seed=3, top_k=50), greedy)

    def test_the_chain_can_be_chosen(self):
        self.assertEqual(self.story(samplers=["top_k"], top_k=1), self.story(temperature=0))
        # Without a stage for it in the chain, a field has nothing to act on.
        response = self.server.post("/v1/completions", {"prompt": "a", "samplers": ["top_kk"]})
        self.assert_refused(response, 400, param="samplers")

    def test_penalties_change_the_text(self):
        prompt = CHATS["song"]["prompt"]
        plain = self.server.complete(prompt, max_tokens=120, temperature=0)
        changed = self.server.complete(
            prompt, max_tokens=120, temperature=0, repeat_penalty=1.5, repeat_last_n=-1,
            frequency_penalty=2,
        )  # fmt: skip
        self.assertNotEqual(plain["choices"][0]["text"], changed["choices"][0]["text"])

if __name__ == "__main__":
    main()
