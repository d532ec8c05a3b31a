#!/usr/bin/env python3
"""docs/architectures.md lists every architecture with the lines that it has, and each of them has logits of its
family's own implementation to be held to."""
import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architectures.md"
ARCHITECTURES = ROOT / "configs" / "architectures"
GOLDENS = ROOT / "tests" / "data" / "architectures"


def rows():
    """The table's rows: (files, lines)."""
    for row in re.findall(r"^\| (`[^|]*\.yaml`[^|]*) \|([^|]*)\|", PAGE.read_text(encoding="utf-8"), flags=re.M):
        yield re.findall(r"`([^`]+)`", row[0]), [int(n) for n in re.findall(r"\d+", row[1])]


def names_of(architecture):
    """What Hugging Face's configurations call it."""
    text = architecture.read_text(encoding="utf-8")
    names = re.search(r"^  huggingface:((?: \[[^\]]*\])|(?:\n    - .*)+)", text, flags=re.M)
    return set(re.findall(r"[\w.-]*\w", names[1]))


class Architectures(unittest.TestCase):
    def test_are_listed_with_their_lines(self):
        listed = {}
        for files, lines in rows():
            if lines:
                listed |= dict(zip(files, lines, strict=True))
        found = {
            file.name: len(file.read_text(encoding="utf-8").splitlines())
            for file in ARCHITECTURES.glob("*.yaml")
        }
        self.assertEqual(listed, found)

    def test_includes_are_listed(self):
        listed = [pattern for files, lines in rows() if not lines for pattern in files]
        for file in ARCHITECTURES.glob("include/**/*.yaml"):
            path = file.relative_to(ARCHITECTURES)
            self.assertTrue(any(path.match(pattern) for pattern in listed), path)

    def test_have_logits_of_their_families(self):
        kinds = {
            json.loads(golden.read_text(encoding="utf-8"))["huggingface"]["metadata"]["config.model_type"]
            for golden in GOLDENS.glob("*.json")
        }
        for file in ARCHITECTURES.glob("*.yaml"):
            self.assertTrue(names_of(file) & kinds, file.name)


if __name__ == "__main__":
    unittest.main()
