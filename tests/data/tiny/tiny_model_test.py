"""The model and its expectations belong together, and keep what other tests rely on."""

import hashlib
import json
import pathlib
import struct
import unittest

HERE = pathlib.Path(__file__).resolve().parent
MODEL = (HERE / "tiny-chat.gguf").read_bytes()
EXPECTED = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
CASES = EXPECTED["chats"] + EXPECTED["completions"]
IM_END, UINT32 = 2, 4


def hyperparameter(name):
    at = (
        MODEL.index(b"llama." + name.encode() + struct.pack("<I", UINT32))
        + len("llama.")
        + len(name)
    )
    return struct.unpack_from("<I", MODEL, at + 4)[0]


class TinyModel(unittest.TestCase):
    def test_expectations_are_of_this_file(self):
        self.assertEqual(hashlib.sha256(MODEL).hexdigest(), EXPECTED["sha256"])

    def test_is_at_most_two_megabytes(self):
        self.assertLessEqual(len(MODEL), 2_000_000)

    def test_every_width_fits_every_block_type(self):
        head = hyperparameter("attention.key_length")
        widths = [
            hyperparameter("embedding_length"),
            hyperparameter("feed_forward_length"),
            hyperparameter("attention.head_count") * head,
            hyperparameter("attention.head_count_kv") * head,
        ]
        self.assertEqual([width % 256 for width in widths], [0, 0, 0, 0])

    def test_margins_are_wide(self):
        for case in CASES:
            self.assertEqual(len(case["margins"]), len(case["greedy"]))
            self.assertGreaterEqual(min(case["margins"]), 1.0, case["name"])

    def test_greedy_ids_follow_from_the_logits(self):
        for case in CASES:
            for logits, token in ((case["first_logits"], 0), (case["last_logits"], -1)):
                self.assertEqual(len(logits), 512)
                self.assertEqual(logits.index(max(logits)), case["greedy"][token], case["name"])

    def test_answers_end_and_one_does_not(self):
        stopped = [chat["name"] for chat in EXPECTED["chats"] if chat["greedy"][-1] == IM_END]
        self.assertGreaterEqual(len(stopped), 12)
        [endless] = [chat for chat in EXPECTED["chats"] if chat["name"] not in stopped]
        self.assertEqual((endless["finish_reason"], len(endless["greedy"])), ("length", 800))


if __name__ == "__main__":
    unittest.main()
