#!/usr/bin/env python3
"""Every link from one page of the repository to a file leads somewhere."""
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def pages():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, text=True, capture_output=True)
    if listed.returncode == 0 and listed.stdout:
        return [ROOT / name for name in listed.stdout.split()]
    return [page for page in ROOT.rglob("*.md") if "build" not in page.relative_to(ROOT).parts]


def links_of(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target) and not target.startswith("#"):
            yield target.partition("#")[0]


class Links(unittest.TestCase):
    def test_lead_to_files(self):
        checked = 0
        for page in pages():
            for target in links_of(page):
                with self.subTest(page=str(page.relative_to(ROOT)), link=target):
                    self.assertTrue((page.parent / target).exists(), "leads nowhere")
                checked += 1
        self.assertGreater(checked, 20)


if __name__ == "__main__":
    unittest.main()
