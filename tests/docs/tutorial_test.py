#!/usr/bin/env python3
"""The tutorial for authors of backends, followed to the letter with nothing but an installed prefix.

Every fenced block counts. `sh` runs, all of them in one shell. A block after "Save as `NAME`:" becomes that
file. `text` is what the commands before it print: its lines in this order, `...` standing for anything.
Replaced are what a machine decides: the prefix, the port, and the model that comes from the network.

Usage: tutorial_test.py BUILD_DIR
"""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else os.environ["BACKPLANE_BUILD_DIR"])
PAGE = ROOT / "docs/plugins/tutorial.md"
BLOCK = re.compile(r"(?:Save as `(?P<file>[^`]+)`:\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
                   re.M | re.S)
MARK = "---- end of block {} ----"
TIMEOUT_S = 500


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def replaced(page, prefix):
    """The page for this machine; each replacement must have something to replace."""
    for pattern, new in ((r"PREFIX=/usr/local\b", f"PREFIX={prefix}"), (r"\b8080\b", str(free_port())),
                         (r"MODEL=\$\(python3 .*\)", "MODEL=$TINY")):
        page, n = re.subn(pattern, new, page)
        if n == 0:
            raise AssertionError(f"the tutorial has no {pattern}")
    return page


def script(blocks):
    """One shell script; files appear where the page says so."""
    lines = ["set -e"]
    for i, block in enumerate(blocks):
        if block["file"]:
            lines.append(f"cat > '{block['file']}' <<'END_OF_FILE'\n{block['text']}END_OF_FILE")
        elif block["language"] == "sh":
            lines.append(block["text"])
        lines.append(f"echo; echo '{MARK.format(i)}'")
    return "\n".join(lines)


class Tutorial(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="backplane-tutorial-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.prefix = cls.folder / "prefix"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True,
                       stdout=subprocess.DEVNULL)

    def test_does_what_it_says(self):
        home = self.folder / "home"
        home.mkdir()
        page = replaced(PAGE.read_text(encoding="utf-8"), self.prefix)
        blocks = [match.groupdict() for match in BLOCK.finditer(page)]
        self.assertEqual({b["language"] for b in blocks if not b["file"]}, {"sh", "text"})
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
        done = subprocess.run(["bash", "-c", script(blocks)], cwd=home, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stdout)
        printed, rest = "", done.stdout
        for i, block in enumerate(blocks):
            output, _, rest = rest.partition(MARK.format(i) + "\n")
            if block["language"] == "sh":
                printed = output
            elif block["language"] == "text":
                self.assert_printed(block["text"], printed)

    def assert_printed(self, promised, printed):
        parts = [re.escape(part) for part in re.split(r"\.\.\.|\n", promised.rstrip("\n"))]
        self.assertIsNotNone(re.search(".*?".join(parts), printed, re.S),
                             f"promised:\n{promised}\nprinted:\n{printed}")


if __name__ == "__main__":
    unittest.main()
