"""Hugging Face folders: every command gives what it gives for the same model as GGUF."""

import json
import os
import pickle
import subprocess
import zipfile

from huggingface_folder import change_json, write_folder
from support import (
    BINARY,
    SOURCE,
    TINY,
    CommandTest,
    Server,
    backplane,
    data,
    logits,
    main,
    needs_data,
    scaled,
    tiny_expected,
    tiny_model,
)

TEXTS = [b"Hello there, how are you?", b"  12345 \n\n don't", "naïve \u00e9\u4e2d".encode(), b""]


class Folder(CommandTest):
    def setUp(self):
        super().setUp()
        self.model = os.path.join(self.folder, "tiny")
        os.mkdir(self.model)

    def assert_same(self, *command, stdin=b""):
        answers = [
            self.assert_done(backplane(command[0], model, *command[1:], stdin=stdin))
            for model in (self.model, TINY)
        ]
        self.assertEqual(*answers)

    def test_text_is_that_of_the_gguf_file(self):
        write_folder(self.model, shards=3)
        for text in TEXTS:
            self.assert_same("tokenize", stdin=text)
        chat = tiny_expected()["chats"][0]
        request = {"messages": chat["messages"], "add_generation_prompt": True}
        self.assert_same("render", stdin=json.dumps(request).encode())
        self.assert_same("run", "--prompt", "What is the capital of Italy?", "--temperature", "0")

    def test_logits_are_those_of_the_gguf_file(self):
        write_folder(self.model, shards=3)
        tokens = tiny_expected()["chats"][0]["ids"][:20]
        for backend in ["reference", "cpu"]:
            ours, theirs = (
                logits(model, tokens, "--backend", backend) for model in (self.model, TINY)
            )
            # The reference computes the same numbers; the cpu rounds activations for Q8_0 alone.
            bound = 1e-4 if backend == "reference" else 0.2
            self.assertLess(max(abs(a - b) for a, b in zip(ours, theirs)), bound)

    def test_torch_is_the_same_model(self):
        write_folder(self.model, shards=3, torch=True)
        found = json.loads(self.assert_done(backplane("inspect", self.model, "--json")))
        self.assertEqual(found["format"], "pytorch")
        self.assertEqual(found["architecture"], "LlamaForCausalLM")
        self.assert_same("tokenize", stdin=TEXTS[0])
        self.assert_same("run", "--prompt", "What is the capital of Italy?", "--temperature", "0")
        tokens = tiny_expected()["chats"][0]["ids"][:20]
        ours, theirs = (
            logits(model, tokens, "--backend", "reference") for model in (self.model, TINY)
        )
        self.assertLess(max(abs(a - b) for a, b in zip(ours, theirs)), 1e-4)

    def test_a_bare_pickle_is_refused_with_a_remedy(self):
        write_folder(self.model, torch=True)
        weights = os.path.join(self.model, "pytorch_model.bin")
        with open(weights, "wb") as file:
            pickle.dump({"w": 1}, file)
        self.assert_one_clear_line(backplane("inspect", self.model), "convert it to safetensors")
        with zipfile.ZipFile(weights, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(os.system, protocol=2))
        self.assert_one_clear_line(backplane("inspect", self.model), "none of a state dict")

    def test_both_forms_are_served_and_scored(self):
        text = self.write("text", "What is the capital of Italy? It is Rome. " * 20)
        answers, scores = [], []
        for torch in [None, False, True]:
            source = TINY
            if torch is not None:
                source = os.path.join(self.folder, f"torch-{torch}")
                os.mkdir(source)
                write_folder(source, torch=torch)
            with Server(tiny_model(source=source)) as server:
                answers.append(server.chat("What is the capital of Italy?")["choices"][0]["message"])
            options = ("--json", "--context", "64", "--backend", "reference")
            done = backplane("perplexity", source, text, *options)
            scores.append(json.loads(self.assert_done(done))["perplexity"])
        self.assertTrue(answers[0]["content"])
        self.assertEqual(answers, [answers[0]] * 3)
        for score in scores[1:]:
            self.assertAlmostEqual(score / scores[0], 1, places=4)

    def test_the_configuration_for_own_models_takes_files_and_folders(self):
        write_folder(self.model, shards=3)
        with open(os.path.join(SOURCE, "configs", "own-model.yaml"), encoding="utf-8") as file:
            yaml = file.read().replace("127.0.0.1:8080", "127.0.0.1:0")
        answers = []
        for source in [TINY, self.model]:
            with Server(yaml=yaml, env={"MODEL": source}) as server:
                answers.append(server.chat("What is the capital of Italy?", temperature=0)["choices"])
        self.assertTrue(answers[0][0]["message"]["content"])
        self.assertEqual(answers[1], answers[0])

    def test_their_plugins_conform(self):
        programs = os.path.dirname(BINARY)
        plugins = os.path.join(os.path.dirname(programs), "lib", "backplane")
        for plugin, weights in [("safetensors", "model.safetensors"), ("pytorch", "pytorch_model.bin")]:
            write_folder(self.model, torch=plugin == "pytorch")
            done = subprocess.run(
                [
                    os.path.join(programs, "backplane-conform"),
                    os.path.join(plugins, plugin + ".plugin.yaml"),
                    *("--level", "formats", "--json"),
                    *("--model", os.path.join(self.model, weights)),
                ],
                capture_output=True,
                timeout=scaled(60),
                check=False,
            )
            tests = json.loads(done.stdout)["tests"]
            self.assertEqual([test for test in tests if test["status"] == "fail"], [])
            self.assertGreater(len([test for test in tests if test["status"] == "pass"]), 8)

    def test_what_cannot_run_is_one_clear_line(self):
        write_folder(self.model)
        change_json(self.model, "config.json", architectures=["LlamaForCasualLM"])
        self.assert_one_clear_line(
            backplane("inspect", self.model), "'LlamaForCasualLM' is unknown; nearest: LlamaForCausalLM"
        )
        config = os.path.join(self.model, "config.json")
        os.rename(config, os.path.join(self.model, "params.json"))
        self.assert_one_clear_line(
            backplane("inspect", self.model), "holds params.json and no config.json"
        )

    def test_a_model_that_runs_within_its_first_context_is_described(self):
        write_folder(self.model)
        rope = {"llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 64}
        change_json(self.model, "config.json", rope_parameters=rope)
        found = json.loads(self.assert_done(backplane("inspect", self.model, "--json")))
        self.assertEqual(found["hyperparameters"]["context_limit"], 64)
        run = ("run", self.model, "--prompt", "Hello", "--max-tokens", "4")
        self.assert_one_clear_line(backplane(*run), self.model, "set `context` to at most 64")
        self.assert_done(backplane(*run, "--context", "64"))

    def test_a_quantisation_that_is_unknown(self):
        write_folder(self.model)
        change_json(self.model, "config.json", quantization_config={"quant_method": "aqlm", "bits": 2})
        self.assert_one_clear_line(backplane("inspect", self.model), "quant_method", "aqlm", "gptq")

    def test_gptq_is_the_weights_it_stands_for(self):
        write_folder(self.model, quantise="gptq")
        exact = os.path.join(self.folder, "exact")
        os.mkdir(exact)
        write_folder(exact, quantise="exact")
        tokens = [1, 50, 99, 200]
        packed, floats = (
            logits(model, tokens, "--backend", "reference") for model in (self.model, exact)
        )
        self.assertLess(max(abs(a - b) for a, b in zip(packed, floats)), 1e-4)
        found = json.loads(self.assert_done(backplane("inspect", self.model, "--json")))
        types = {t["dtype"] for t in found["tensors"] if t["name"].endswith("_proj.weight")}
        self.assertEqual(types, {"q4_0"})

    def test_one_file_brings_the_files_beside_it(self):
        write_folder(self.model)
        found = json.loads(
            self.assert_done(
                backplane("inspect", os.path.join(self.model, "model.safetensors"), "--json")
            )
        )
        self.assertEqual(found["format"], "safetensors")
        self.assertEqual(found["architecture"], "LlamaForCausalLM")
        self.assertEqual(found["tokenizer"]["n_vocab"], 512)
        self.assertIs(found["tokenizer"]["chat_template"], True)

    def test_a_folder_with_only_a_vocabulary_tokenizes(self):
        write_folder(self.model)
        os.remove(os.path.join(self.model, "model.safetensors"))
        self.assert_same("tokenize", stdin=TEXTS[0])

    def test_a_damaged_folder_is_one_clear_line(self):
        write_folder(self.model, shards=2)
        shard = os.path.join(self.model, "model-00002-of-00002.safetensors")
        with open(shard, "r+b") as file:
            file.truncate(os.path.getsize(shard) - 1)
        self.assert_one_clear_line(
            backplane("inspect", self.model), "model-00002-of-00002.safetensors"
        )
        os.remove(shard)
        self.assert_one_clear_line(
            backplane("run", self.model, "--prompt", "x"), "model-00002-of-00002.safetensors"
        )
        os.remove(os.path.join(self.model, "config.json"))
        self.assert_one_clear_line(backplane("inspect", self.model), self.model)


@needs_data
class Stories(CommandTest):
    def test_greedy_text(self):
        with open(data("stories260k", "greedy-f32.txt"), "rb") as file:
            text = file.read()
        prompt = b"Once upon a time"
        done = backplane(
            "run",
            data("stories260k", "stories260k-hf"),
            *("--prompt", prompt.decode(), "--max-tokens", "200", "--temperature", "0"),
        )
        self.assertEqual(prompt + self.assert_done(done), text)

    def test_text_there_and_back(self):
        for text in [b"Hello there", b"  two  spaces\n", "\u00e9\u4e2d".encode()]:
            ids = [
                self.assert_done(backplane("tokenize", data("stories260k", model), stdin=text))
                for model in ("stories260k-hf", "stories260k-f32.gguf")
            ]
            self.assertEqual(*ids)
            decoded = backplane(
                "tokenize", data("stories260k", "stories260k-hf"), "--decode", stdin=ids[0]
            )
            self.assertEqual(self.assert_done(decoded), b"<s>" + text)


if __name__ == "__main__":
    main()
