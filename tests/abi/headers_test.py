#!/usr/bin/env python3
"""Every header of the SDK compiles alone, the C ABI's as C11 and as C++17 (rule A1)."""
import pathlib
import re
import subprocess
import unittest

import compilers

ROOT = pathlib.Path(__file__).resolve().parents[2]
ABI = ROOT / "sdk/include"
LAYER = ROOT / "sdk/cpp"
REFERENCE = ROOT / "sdk/reference/include"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
MAX_LINES = {"ops.h": 345}  # one catalogue of all ops


def headers(folder, suffix):
    return sorted(path.relative_to(folder) for path in folder.rglob("*" + suffix))


def errors(compiler, language, standard, header, folders):
    """What the compiler says of a file that includes the header twice and nothing else."""
    source = f'#include "{header}"\n#include "{header}"\n'
    includes = [f"-I{folder}" for folder in folders]
    command = [compiler, "-x", language, f"-std={standard}", *WARNINGS, *includes, "-"]
    done = subprocess.run(command, input=source, text=True, capture_output=True)
    return done.stderr if done.returncode else ""


class AbiHeaders(unittest.TestCase):
    def setUp(self):
        self.headers = headers(ABI, ".h")
        self.assertGreaterEqual(len(self.headers), 12)

    def test_compile_alone_as_c11_and_cpp17(self):
        for c, cxx in compilers.installed():
            for header in self.headers:
                self.assertEqual(errors(c, "c", "c11", header, [ABI]), "")
                self.assertEqual(errors(cxx, "c++", "c++17", header, [ABI]), "")

    def test_begin_with_numbered_conventions(self):
        for header in self.headers:
            text = (ABI / header).read_text()
            first = text[: text.index("*/")]
            self.assertTrue(first.startswith(f"/* {header}: "), f"first line of {header}")
            numbers = [int(n) for n in re.findall(r"^ \* {1,2}(\d+)\. ", first, re.M)]
            self.assertGreaterEqual(len(numbers), 3, header)
            self.assertEqual(numbers, list(range(1, len(numbers) + 1)), header)

    def test_are_short(self):
        for header in self.headers:
            n_lines = len((ABI / header).read_text().splitlines())
            self.assertLessEqual(n_lines, MAX_LINES.get(header.name, 150), header)

    def test_use_no_type_whose_size_varies(self):
        forbidden = re.compile(r"\b(bool|_Bool|enum|long|short|unsigned|wchar_t|va_list)\b|\.\.\.")
        for header in self.headers:
            code = re.sub(r"/\*.*?\*/", "", (ABI / header).read_text(), flags=re.S)
            self.assertIsNone(forbidden.search(code), header)
            n_size_t = len(re.findall(r"\bsize_t\b", code))
            self.assertEqual(n_size_t, 1 if header.name == "plugin.h" else 0, header)


class CppHeaders(unittest.TestCase):
    def test_compile_alone_as_cpp20(self):
        _, cxx = compilers.installed()[-1]
        for folder in (LAYER, REFERENCE):
            found = headers(folder, ".hpp")
            self.assertGreaterEqual(len(found), 10)
            for header in found:
                self.assertEqual(errors(cxx, "c++", "c++20", header, [ABI, LAYER, REFERENCE]), "")


class KeptSources(unittest.TestCase):
    """Plugins in plain C, which are compiled once for each version (kept/make_kept.py)."""

    def test_compile_with_these_headers(self):
        sources = sorted((ROOT / "tests/abi/kept").glob("*.c"))
        self.assertEqual(len(sources), 5)
        for c, _ in compilers.installed():
            command = [c, "-std=c11", *WARNINGS, f"-I{ABI}", *map(str, sources)]
            done = subprocess.run(command, text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
