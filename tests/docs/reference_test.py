#!/usr/bin/env python3
"""The reference pages are those of the headers, hold every public name, and describe it."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "docs/plugins"
INCLUDE = ROOT / "sdk/include/backplane"
sys.path.insert(0, str(PLUGINS))

import generate_reference  # noqa: E402
import header_items  # noqa: E402

COMMENT = re.compile(r"/\*.*?\*/", re.S)
UNDESCRIBED = """/* backplane/x.h: y.
 *
 *  1. z.
 */
#define BP_X 1u

/* A thing. Growable. */
typedef struct bp_thing {
  uint32_t struct_size;
  uint32_t weight;
} bp_thing;

/* The factory. */
typedef struct bp_maker {
  /* Makes. */
  bp_status (*make)(void);
} bp_maker;
"""


def public_names(text):
    """Names that a header declares, found without the generator's parser."""
    code = COMMENT.sub("", text)
    names = set(re.findall(r"^#define (BP_\w+)[ (]", code, re.M))
    names |= set(re.findall(r"^typedef (?:struct|u?int32_t) (?:bp_\w+ )?(bp_\w+)[; {]", code, re.M))
    names |= set(re.findall(r"\(\*(\w+)\)", code))
    for body in re.findall(r"^typedef struct \w+ \{(.*?)^\}", code, re.M | re.S):
        fields = re.sub(r"\([^;]*", "", body)
        names |= set(re.findall(r"(\w+)(?:\[\w+\])?\s*[;,]", fields))
    return names - {"BP_EXPORT"}


class Reference(unittest.TestCase):
    def test_is_what_the_headers_give(self):
        done = subprocess.run([sys.executable, PLUGINS / "generate_reference.py"], text=True,
                              capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_holds_every_public_name(self):
        n_names = 0
        for header in sorted(INCLUDE.rglob("*.h")):
            name = "-".join(header.relative_to(INCLUDE).with_suffix(".md").parts)
            page = (PLUGINS / "reference" / name).read_text(encoding="utf-8")
            for public in public_names(header.read_text(encoding="utf-8")):
                n_names += 1
                self.assertRegex(page, rf"\b{public}\b", name)
        self.assertGreater(n_names, 400)

    def test_misses_what_nobody_describes(self):
        _, items = header_items.items_of(UNDESCRIBED)
        found = list(generate_reference.missing("x.h", generate_reference.prepare(items)))
        self.assertEqual(found, ["x.h: BP_X has no description",
                                 "x.h: bp_thing.weight has no description",
                                 "x.h: bp_maker.make has no thread tag"])


if __name__ == "__main__":
    unittest.main()
