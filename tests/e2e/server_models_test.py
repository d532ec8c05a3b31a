"""Several models in one server, API keys, full queues, and configurations that models need."""

import os
import re
import tempfile
import threading
import unittest

from support import TINY, Server, ServerTest, data, main, needs_data, scaled, tiny_model

CAPITAL = [{"role": "user", "content": "What is the capital of Italy?"}]
ROME = "The capital of Italy is Rome."


@needs_data
class SeveralModels(ServerTest):
    @classmethod
    def make_server(cls):
        stories = {
            "id": "stories",
            "source": data("stories260k", "stories260k-f32.gguf"),
            "backend": {"plugin": "reference"},
            "sampler": {"defaults": {"temperature": 0}},
        }
        return Server(tiny_model(), tiny_model(id="second", prefix_cache=False), stories)

    def test_each_answers_by_its_name(self):
        listed = self.server.get("/v1/models").json()
        self.assertEqual(listed["object"], "list")
        self.assertEqual([m["id"] for m in listed["data"]], ["tiny", "second", "stories"])
        for name in ["tiny", "second"]:
            answer = self.server.chat(CAPITAL, model=name)
            self.assertEqual(answer["model"], name)
            self.assertEqual(answer["choices"][0]["message"]["content"], ROME)
            self.assertEqual(self.server.get(f"/v1/models/{name}").json()["id"], name)
        with open(data("stories260k", "greedy-f32.txt"), encoding="utf-8") as file:
            expected = file.read()
        prompt = "Once upon a time"
        answer = self.server.complete(prompt, model="stories", max_tokens=40)
        self.assertTrue(expected.startswith(prompt + answer["choices"][0]["text"]))

    def test_a_model_must_be_named(self):
        response = self.server.post("/v1/chat/completions", {"messages": CAPITAL})
        self.assert_refused(response, 400, param="model")

    def test_chat_without_a_template_is_refused(self):
        body = {"messages": CAPITAL, "model": "stories"}
        self.assertEqual(self.server.post("/v1/chat/completions", body).status, 400)

    def test_all_at_once(self):
        failures = []

        def ask(name):
            for _ in range(5):
                answer = self.server.chat(CAPITAL, model=name)
                if answer["choices"][0]["message"]["content"] != ROME:
                    failures.append(answer)

        threads = [threading.Thread(target=ask, args=(n,)) for n in ["tiny", "second"] * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(scaled(60))
        self.assertEqual(failures, [])


class ApiKeys(ServerTest):
    @classmethod
    def make_server(cls):
        cls.keys = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.keys.cleanup)
        entries = []
        for tenant in ["a", "b"]:
            path = os.path.join(cls.keys.name, tenant)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"sk-secret-{tenant}\n")
            entries.append({"key_file": path, "tenant": tenant, "priority": 0})
        return Server(tiny_model(), server={"api_keys": entries})

    def ask(self, path="/v1/chat/completions", body=None, **headers):
        return self.server.post(path, body or {"messages": CAPITAL}, **headers)

    def test_only_with_a_key(self):
        for header in [None, "Bearer", "Bearer ", "Bearer wrong", "Basic sk-secret-a",
                       "Bearer sk-secret-", "Bearer sk-secret-ab", "sk-secret-a"]:  # fmt: skip
            headers = {} if header is None else {"Authorization": header}
            self.assert_refused(self.ask(**headers), 401, code="invalid_api_key")
        for key in ["sk-secret-a", "sk-secret-b"]:
            self.assertEqual(self.ask(Authorization=f"Bearer {key}").status, 200)
        self.assertEqual(self.server.get("/v1/models").status, 401)
        for path in ["/health", "/ready"]:
            self.assertEqual(self.server.get(path).status, 200)

    def test_tenants_share_no_prompt(self):
        body = {"prompt": [7] * 300, "max_tokens": 1}

        def cached(key):
            response = self.ask("/v1/completions", body, Authorization=f"Bearer {key}")
            return response.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

        self.assertEqual(cached("sk-secret-a"), 0)
        self.assertEqual(cached("sk-secret-b"), 0)
        self.assertGreater(cached("sk-secret-a"), 0)

    def test_keys_stay_out_of_the_log(self):
        self.ask(Authorization="Bearer sk-secret-a")
        self.ask(Authorization="Bearer guessed-key")
        self.assertNotIn("sk-secret", self.server.log_text())
        self.assertNotIn("guessed-key", self.server.log_text())


class FullQueue(ServerTest):
    @classmethod
    def make_server(cls):
        # The interpreter is slow enough for a queue to be seen.
        model = tiny_model(
            backend={"plugin": "reference"}, scheduler={"plugin": "fcfs", "max_sequences": 1}
        )
        return Server(model, server={"max_queue": 2})

    def wait_for(self, state, n, seconds=10):
        name = f"backplane_requests_{state}"
        self.server.wait_until(lambda: self.server.metric(name) == n, seconds, f"keeps none {state}")

    def test_too_many_are_told_to_come_back(self):
        endless = {"prompt": "a", "max_tokens": 900, "ignore_eos": True}
        running = self.server.send("/v1/completions", endless)
        self.wait_for("running", 1)
        waiting = [self.server.send("/v1/completions", endless) for _ in range(2)]
        try:
            self.wait_for("waiting", 2)
            response = self.server.post("/v1/completions", endless)
            self.assert_refused(response, 429)
            self.assertGreaterEqual(int(response.headers["Retry-After"]), 1)
            waiting[1].close()  # one that waits goes: there is room again
            self.wait_for("waiting", 1, seconds=2)
            self.assertEqual(self.server.metric("backplane_requests_running"), 1)
        finally:
            for connection in [running, *waiting]:
                connection.close()
        self.server.wait_idle()
        self.assertEqual(self.server.chat(CAPITAL)["choices"][0]["message"]["content"], ROME)


class LittleMemory(ServerTest):
    """Fewer KV blocks than the sequences want: some are preempted, none fails, no text changes."""

    @classmethod
    def make_server(cls):
        # 1024 tokens of context need 16 blocks of 64; a block is 2 layers x 64 x 512 x 2 bytes.
        kv = {"memory": "2300KB", "block": 64}
        return Server(tiny_model(backend={"plugin": "cpu", "threads": 1, "kv": kv}))

    def test_answers_are_those_of_a_sequence_alone(self):
        body = {"max_tokens": 500, "ignore_eos": True, "temperature": 1.5}
        prompts = [[20 + i] * 30 for i in range(5)]
        alone = [
            self.server.complete(prompt, seed=i, **body)["choices"][0]["text"]
            for i, prompt in enumerate(prompts)
        ]
        found = [None] * len(prompts)

        def ask(i):
            found[i] = self.server.complete(prompts[i], seed=i, **body)["choices"][0]["text"]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(scaled(120))
        self.assertEqual(found, alone)
        self.assertGreater(self.server.metric("backplane_preemptions_total"), 0)
        self.server.wait_idle()


class StepsOfFewTokens(unittest.TestCase):
    def test_serve_all_the_same(self):
        answers = []
        for n in [1, 3, 64]:
            with Server(tiny_model(scheduler={"max_step_tokens": n})) as server:
                answer = server.complete("Once upon a time", max_tokens=8)
                answers.append(answer["choices"][0]["text"])
        self.assertEqual(answers, answers[:1] * 3)


def yaml_of_tiny(context=1024, block="auto"):
    return f"""\
server: {{listen: 127.0.0.1:0}}
models:
  - id: tiny
    source: {TINY}
    context: {context}
    backend:
      plugin: cpu
      threads: 1
      kv:
        block: {block}
"""


class BlockSizes(unittest.TestCase):
    def test_one_that_the_backend_does_not_keep_is_named(self):
        for asked, kept in [(20, 64), (96, 96)]:
            with Server(yaml=yaml_of_tiny(block=asked)) as server:
                server.wait_logged(f"KV blocks of {kept} tokens")
                if kept != asked:
                    server.wait_logged(
                        rf"warning.* {re.escape(server.config)}:10: `kv: block` {asked} has no "
                        rf"effect: backend 'cpu' keeps no blocks of {asked} tokens, those of model "
                        rf"'tiny' have {kept}; leave the key out"
                    )
                self.assertTrue(server.chat(CAPITAL)["choices"][0]["message"]["content"])
                named = "keeps no blocks of" in server.log_text()
                self.assertEqual(named, kept != asked)


class Contexts(unittest.TestCase):
    def test_one_beyond_the_models_is_named(self):
        for asked, is_named in [(1024, False), (1025, True)]:
            with Server(yaml=yaml_of_tiny(context=asked)) as server:
                self.assertTrue(server.chat(CAPITAL)["choices"][0]["message"]["content"])
                warning = (rf"warning.* {re.escape(server.config)}:5: a context of {asked} tokens, "
                           r"but model 'tiny' was trained for 1024, .*; set at most 1024")
                self.assertEqual(bool(re.search(warning, server.log_text())), is_named)


class RequestTemplates(unittest.TestCase):
    def test_only_where_the_configuration_allows(self):
        body = {"messages": CAPITAL, "chat_template": "{{ messages[0].content | upper }}"}
        with Server(tiny_model(), server={"request_templates": True}) as server:
            rendered = server.post("/v1/chat/completions/render", body).json()
            self.assertEqual(rendered["prompt"], CAPITAL[0]["content"].upper())
            loop = "{% for a in range(99999) %}"
            endless = loop + loop + "x{% endfor %}{% endfor %}"
            response = server.post(
                "/v1/chat/completions", {"messages": CAPITAL, "chat_template": endless}
            )
            self.assertEqual(response.status, 400)


if __name__ == "__main__":
    main()
