"""Files and configurations that are wrong: one clear line each, exit 1, never a signal."""

import glob
import os
import random
import socket

from support import SOURCE, TINY, CommandTest, backplane, main


class MalformedModels(CommandTest):
    def commands(self, path):
        yield ["inspect", path]
        yield ["run", path, "--prompt", "Hi", "--max-tokens", 1]
        yield ["logits", path, "--tokens", "1"]
        yield ["tokenize", path]
        yield ["bench", path, "--prompt", 8, "--generate", 1, "--depth", "0"]

    def test_no_command_accepts_what_is_no_model(self):
        wrong = {
            "empty": b"",
            "short": b"GGUF",
            "text": b"This is a poem, not a model.\n" * 100,
            "zeros": bytes(65536),
            "noise": random.Random(1).randbytes(65536),
            "header-only": b"GGUF" + (3).to_bytes(4, "little") + bytes(16),
            "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        }
        for name, content in wrong.items():
            path = self.write(name + ".gguf", content)
            for command in self.commands(path):
                with self.subTest(file=name, command=command[0]):
                    self.assert_one_clear_line(backplane(*command), path)
        for command in self.commands(self.folder):
            with self.subTest(file="a folder", command=command[0]):
                self.assert_one_clear_line(backplane(*command), self.folder)

    def test_corpus_of_hostile_files(self):
        paths = glob.glob(os.path.join(SOURCE, "tests", "data", "gguf-corpus", "*.gguf"))
        self.assertGreater(len(paths), 10)
        for path in paths:
            with self.subTest(file=os.path.basename(path)):
                self.assert_one_clear_line(
                    backplane("logits", path, "--tokens", "1"), os.path.basename(path)
                )

    def test_a_truncated_model(self):
        with open(TINY, "rb") as file:
            whole = file.read()
        for n_bytes in [5, 23, 24, 1000, 20_000, len(whole) // 2, len(whole) - 1]:
            path = self.write("truncated.gguf", whole[:n_bytes])
            with self.subTest(n_bytes=n_bytes):
                self.assert_one_clear_line(backplane("run", path, "--prompt", "Hi"), path)

    def test_flipped_bytes_of_the_header_never_kill(self):
        with open(TINY, "rb") as file:
            whole = file.read()
        choice = random.Random(2)
        for round_ in range(60):
            damaged = bytearray(whole)
            for _ in range(choice.randint(1, 4)):
                damaged[choice.randrange(12_000)] = choice.randrange(256)
            path = self.write("damaged.gguf", bytes(damaged))
            with self.subTest(round=round_):
                done = backplane("run", path, "--prompt", "Hi", "--max-tokens", 2)
                if done.returncode != 0:
                    self.assert_one_clear_line(done)


class MalformedConfigurations(CommandTest):
    def check(self, text, *parts):
        path = self.write("serve.yaml", text)
        for command in [["serve", path], ["serve", path, "--check"]]:
            with self.subTest(text=text[:80], command=command[2:]):
                self.assert_one_clear_line(backplane(*command), "serve.yaml", *parts)

    def test_each_mistake_has_its_place(self):
        model = f"models: [{{id: tiny, source: {TINY}}}]\n"
        self.check("", "models")
        self.check("server: {}\n", "models")
        self.check("models: []\n", "models")
        self.check("models: [\n", "serve.yaml:2:1")
        self.check(f"models: [{{source: {TINY}}}]\n", "id")
        self.check("models: [{id: tiny}]\n", "source")
        self.check(model + "sever: {}\n", "serve.yaml:2:1", "sever", "server")
        self.check(model + "server:\n  lisen: 127.0.0.1:0\n", "serve.yaml:3:3", "lisen", "listen")
        self.check(model + "server: {listen: nowhere}\n", "serve.yaml:2", "listen")
        self.check(model + "server: {max_queue: many}\n", "serve.yaml:2", "max_queue")
        self.check(model + model, "models")
        self.check(
            f"models:\n  - id: tiny\n    source: {TINY}\n    backend: {{plugin: cpuu}}\n",
            "serve.yaml:4", "cpuu", "cpu",
        )  # fmt: skip
        self.check(
            f"models:\n  - id: tiny\n    source: {TINY}\n    backend: {{plugin: cpu, thread: 1}}\n",
            "serve.yaml:4", "thread", "threads",
        )  # fmt: skip
        self.check(
            f"models:\n  - id: tiny\n    source: {TINY}\n    sampler: {{chain: [top_kk]}}\n",
            "serve.yaml:4", "top_kk", "top_k",
        )  # fmt: skip
        self.check(
            f"models:\n  - id: tiny\n    source: {TINY}\n    sampler: {{defaults: {{top_p: 2}}}}\n",
            "serve.yaml:4", "top_p",
        )  # fmt: skip
        self.check("a: &a [*a, *a]\n")
        self.check("\x00\x01\x02")
        self.check("{" * 10_000)

    def test_a_sound_configuration_is_only_checked(self):
        path = self.write("serve.yaml", f"models: [{{id: tiny, source: {TINY}}}]\n")
        self.assert_done(backplane("serve", path, "--check"))

    def test_shipped_configurations_are_sound(self):
        for name in ["tiny.yaml", "smollm2.yaml"]:
            self.assert_done(
                backplane("serve", os.path.join(SOURCE, "configs", name), "--check")
            )
        self.assert_done(
            backplane(
                "serve", os.path.join(SOURCE, "configs", "own-model.yaml"), "--check",
                env={"MODEL": TINY},
            )
        )  # fmt: skip

    def test_an_address_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            path = self.write(
                "serve.yaml",
                f"server: {{listen: 127.0.0.1:{port}}}\nmodels: [{{id: t, source: {TINY}}}]\n",
            )
            done = backplane("serve", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(port), done.stderr.decode())


if __name__ == "__main__":
    main()
