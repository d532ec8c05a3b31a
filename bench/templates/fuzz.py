#!/usr/bin/env python3
"""Compares what random templates render to with jinja2, set up as transformers sets it up.

  python3 bench/templates/fuzz.py [--templates N] [--seed S]

Needs the package jinja2 and of the build the target bench_templates. Where jinja2 fails, failing is right.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "core", "text", "jinja"))
from record_cases import environment  # noqa: E402

PROGRAM = os.path.join(ROOT, "build", "bin", "bench_templates")
WORDS = ["user", "assistant", "system", "Hello World", "héllo 中😀 Straße", "", " two  words ", "it's \"q\"", "a-b c--d", "<b>&",
         "line\nnext\n\nlast", "tool_call", "0", "12", "3.5", "x"]  # fmt: skip
STRINGS = ["s", "u", "e", "words", "q", "m[0].role", "m[0]['content']", "loop_s", "d.name"]
NUMBERS = ["n", "f", "neg", "b", "big", "d.a", "m|length", "l[0]", "loop_n"]
LISTS = ["l", "ls", "emptyl", "mixed", "m", "d.b.c", "s.split()", "d.keys()|list", "range(4)", "loop_l"]
DICTS = ["d", "m[0]", "d.b", "{}", "dict(a=1, b='x')"]


class Writer:
    """Writes templates whose values mostly have the kind that is asked for."""

    def __init__(self, rng):
        self.rng = rng
        self.depth = 0

    def pick(self, *choices):
        choice = self.rng.choice(choices)
        return choice() if callable(choice) else choice

    def deep(self, make, shallow):
        if self.depth > 3:
            return shallow()
        self.depth += 1
        text = make()
        self.depth -= 1
        return text

    def literal(self):
        text = self.rng.choice(WORDS)
        # Escapes of surrogates give texts that are no UTF-8, which are refused.
        is_escaped = all(ord(c) < 0x10000 for c in text) and self.rng.random() < 0.3
        return json.dumps(text, ensure_ascii=is_escaped)

    def number_literal(self):
        return str(self.rng.choice([0, 1, 2, 3, 7, -1, 10, 1.5, 0.1, 1e3, 100]))

    def value(self):
        kind = self.rng.random()
        if kind < 0.4:
            return self.string()
        if kind < 0.6:
            return self.number()
        if kind < 0.8:
            return self.list()
        return self.dict() if kind < 0.9 else self.pick(self.boolean, "nothing", "undefinedx", "none", "true")

    def string(self):
        def make():
            s = self.string
            n = self.small
            return self.pick(
                lambda: f"{s()}|{self.text_filter()}",
                lambda: f"{s()}|{self.text_filter()}",
                lambda: f"{s()} ~ {self.value()}",
                lambda: f"({s()} + {s()})",
                lambda: f"({s()}){self.text_method()}",
                lambda: f"({s()}){self.text_method()}",
                lambda: f"({s()})[{n()}:]",
                lambda: f"({s()})[:{n()}]",
                lambda: f"({s()})[{n()}]",
                lambda: f"({s()})[::{self.pick('-1', '2', '-2')}]",
                lambda: f"({s()} if {self.boolean()} else {s()})",
                lambda: f"{self.list()}|join({self.literal()})",
                lambda: f"{self.list()}|join",
                lambda: f"{self.value()}|tojson",
                lambda: f"{self.value()}|tojson(indent={n()})",
                lambda: f"{self.value()}|string",
                lambda: f"'%s/%s' % ({self.value()}, {self.value()})",
                lambda: "'{} {:>6}'.format(" + f"{self.value()}, {s()})",
                lambda: f"{self.value()}|default({s()})",
                lambda: f"{self.value()}|default({s()}, true)",
                lambda: f"({s()} or {s()})",
                lambda: f"{self.dict()}|xmlattr",
                lambda: f"{self.dict()}.get({self.literal()}, {s()})",
            )

        return self.deep(make, lambda: self.pick(self.literal, lambda: self.rng.choice(STRINGS)))

    def small(self):
        return str(self.rng.randint(-4, 6))

    def text_filter(self):
        n = self.small
        return self.pick(
            "upper", "lower", "title", "capitalize", "trim", "e", "escape", "safe", "striptags", "urlencode", "reverse", "list|join",
            "wordcount", "length", "string", "forceescape", "first", "last", "indent", "center(20)", "int", "float", "wordwrap(7)",
            "replace('o', '0')", "replace('', '.')",
            lambda: f"trim({self.literal()})",
            lambda: f"truncate({self.rng.randint(3, 12)})",
            lambda: f"truncate({self.rng.randint(3, 12)}, true, '…', {self.rng.randint(0, 3)})",
            lambda: f"indent({n()}, {self.pick('true', 'false')}, {self.pick('true', 'false')})",
            lambda: f"wordwrap({self.rng.randint(1, 15)}, {self.pick('true', 'false')}, {self.pick('none', repr('|'))}, {self.pick('true', 'false')})",
            lambda: f"replace({self.literal()}, {self.literal()}, {n()})",
            lambda: f"center({self.rng.randint(0, 30)})",
        )  # fmt: skip

    def text_method(self):
        n = self.small
        return self.pick(
            ".upper()", ".lower()", ".title()", ".capitalize()", ".strip()", ".lstrip()", ".rstrip()", ".swapcase()", ".casefold()",
            ".split()[0]", ".split('o')|list", ".splitlines()", ".isdigit()", ".isalpha()", ".isspace()", ".istitle()", ".isupper()",
            ".startswith('H')", ".endswith(('d', 'e'))", ".find('l')", ".rfind('l')", ".count('l')", ".partition(' ')",
            ".rpartition(' ')", ".expandtabs()", ".isidentifier()",
            lambda: f".strip({self.literal()})",
            lambda: f".replace({self.literal()}, {self.literal()})",
            lambda: f".split({self.literal()}, {n()})",
            lambda: f".rsplit(none, {n()})",
            lambda: f".center({self.rng.randint(0, 24)}, '*')",
            lambda: f".ljust({self.rng.randint(0, 24)})",
            lambda: f".zfill({self.rng.randint(0, 12)})",
            lambda: f".startswith({self.literal()}, {n()})",
            lambda: f".join({self.list()}|map('string'))",
            lambda: f".removeprefix({self.literal()})",
        )  # fmt: skip

    def number(self):
        def make():
            n = self.number
            return self.pick(
                lambda: f"({n()} {self.pick('+', '-', '*', '//', '%', '/')} {n()})",
                lambda: f"{self.pick('n', 'f', 'neg', '7')} ** {self.pick('2', '3', '0')}",
                lambda: f"-{n()}",
                lambda: f"{n()}|{self.pick('abs', 'int', 'float', 'round', 'round(1)', 'filesizeformat')}",
                lambda: f"{n()}|round({self.small()}, {self.pick(repr('floor'), repr('ceil'), repr('common'))})",
                lambda: f"{self.list()}|length",
                lambda: f"{self.list()}|{self.pick('sum', 'max', 'min', 'first', 'last', 'count')}",
                lambda: f"{self.string()}|int({n()})",
                lambda: f"({n()} if {self.boolean()})",
                lambda: f"{self.list()}[{self.small()}]",
            )

        return self.deep(make, lambda: self.pick(self.number_literal, lambda: self.rng.choice(NUMBERS)))

    def boolean(self):
        def make():
            v = self.value
            return self.pick(
                lambda: f"{v()} {self.pick('==', '!=')} {v()}",
                lambda: f"{self.number()} {self.pick('<', '<=', '>', '>=')} {self.number()}",
                lambda: f"{self.string()} {self.pick('<', 'in', 'not in')} {self.string()}",
                lambda: f"{v()} {self.pick('in', 'not in')} {self.list()}",
                lambda: f"{self.boolean()} {self.pick('and', 'or')} {self.boolean()}",
                lambda: f"not {self.boolean()}",
                lambda: f"{v()} is {self.test()}",
                lambda: f"{v()} is not {self.test()}",
            )

        return self.deep(make, lambda: self.pick("b", "true", "false", "n", "e", "emptyl", "nothing", "undefinedx"))

    def test(self):
        return self.pick(
            "defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence", "integer", "float", "boolean", "true",
            "false", "odd", "even", "lower", "upper", "callable", "escaped", "filter", "test", "divisibleby 3", "in l", "eq 5",
            "sameas none", "gt 2", "ne 'x'", lambda: f"equalto({self.value()})",
        )  # fmt: skip

    def list(self):
        def make():
            x = self.list
            return self.pick(
                lambda: f"[{self.value()}, {self.value()}]",
                lambda: f"({self.value()}, {self.value()})",
                lambda: f"{x()}|list",
                lambda: f"{x()}|{self.pick('sort', 'unique|list', 'reverse|list', 'batch(2)|list', 'slice(2)|list', 'sort(reverse=true)')}",
                lambda: f"({x()})[{self.small()}:]",
                lambda: f"({x()})[::-1]",
                lambda: f"({x()} + {x()})",
                lambda: f"{x()}|map({self.pick(*map(repr, ['upper', 'string', 'length', 'int', 'trim', 'tojson']))})|list",
                lambda: f"m|map(attribute={self.pick(*map(repr, ['role', 'n', 'content', 'zz']))})|list",
                lambda: f"m|selectattr({self.pick(*map(repr, ['role', 'n', 'content']))}, 'equalto', {self.value()})|list",
                lambda: f"m|rejectattr({self.pick(*map(repr, ['role', 'content']))})|map(attribute='n')|list",
                lambda: f"{x()}|select({self.pick(*map(repr, ['string', 'number', 'defined', 'none', 'odd']))})|list",
                lambda: f"{x()}|reject({self.pick(*map(repr, ['string', 'number', 'none']))})|list",
                lambda: f"{self.dict()}.items()|list",
                lambda: f"{self.dict()}|dictsort",
                lambda: f"{self.dict()}|items|list",
                lambda: f"m|groupby({self.pick(repr('role'), repr('n'))})",
                lambda: f"{self.string()}.split({self.pick('', repr(' '), repr('o'))})",
                lambda: f"range({self.rng.randint(0, 5)}, {self.rng.randint(0, 9)})|list",
            )

        return self.deep(make, lambda: self.rng.choice(LISTS))

    def dict(self):
        def make():
            return self.pick(
                lambda: "{" + f"{self.literal()}: {self.value()}, 'k': {self.value()}" + "}",
                lambda: f"dict({self.dict()}, z={self.value()})",
                lambda: f"m[{self.rng.randint(0, 2)}]",
            )

        return self.deep(make, lambda: self.rng.choice(DICTS))

    def data(self):
        return self.pick("text", " ", "\n", "\n  ", "  ", "a\n\n", "\t", "- ", "{", "}", "%", "# ", "\r\n", "<|im_start|>", "é中")

    def tag(self, inside):
        left = self.pick("", "", "", "-", "+")
        right = self.pick("", "", "", "-", "+")
        return "{%" + left + " " + inside + " " + right + "%}"

    def print(self):
        left, right = self.pick("", "", "-"), self.pick("", "", "-")
        return "{{" + left + " " + self.value() + " " + right + "}}"

    def block(self, n=None):
        n = n or self.rng.randint(1, 4)
        return "".join(self.deep(self.statement, self.print) if self.rng.random() < 0.7 else self.data() for _ in range(n))

    def loop(self):
        loop_value = self.pick(
            "loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.depth", "loop.previtem",
            "loop.nextitem", "loop.cycle('a', 'b')", "loop.changed(x)",
        )  # fmt: skip
        head = self.pick(
            lambda: f"for x in {self.list()}",
            lambda: f"for x in {self.list()} if {self.pick('x', 'x is string', 'x is number', 'loop_n')}",
            lambda: f"for k, v in {self.dict()}.items()",
            lambda: f"for x in {self.list()} recursive",
        )
        inside = self.pick("{{ x }}", "{{ k }}={{ v|tojson }}", "{{ " + loop_value + " }}", "{{ x.role }}", self.block)
        stop = self.pick("", "", "", self.tag("break"), self.tag("if loop.index > 1") + self.tag("continue") + self.tag("endif"))
        tail = self.pick("", "", self.tag("else") + self.data())
        return self.tag(head) + self.data() + inside + stop + self.block(1) + tail + self.tag("endfor")

    def statement(self):
        # Names of their own: where a scope sets an outer one's name further down, jinja2 has it undefined above.
        name = self.pick("x", "y", "w")
        return self.pick(
            self.print,
            self.print,
            self.print,
            self.loop,
            lambda: self.tag(f"if {self.boolean()}") + self.block() + self.tag("else") + self.block() + self.tag("endif"),
            lambda: self.tag(f"if {self.boolean()}") + self.block() + self.tag(f"elif {self.boolean()}") + self.block() + self.tag("endif"),
            lambda: self.tag(f"set {name} = {self.value()}") + "{{ " + name + " }}",
            lambda: self.tag(f"set {name}") + self.block() + self.tag("endset") + "[{{ " + name + " }}]",
            lambda: self.tag(f"set {name} | upper") + self.block() + self.tag("endset") + "[{{ " + name + "|length }}]",
            lambda: self.tag("set ns = namespace(a=0, t='')")
            + self.tag(f"for i in {self.list()}")
            + self.tag("set ns.a = ns.a + 1")
            + self.tag("set ns.t = ns.t ~ i")
            + self.tag("endfor")
            + "{{ ns.a }}{{ ns.t }}",
            lambda: self.tag(f"macro g(x, y={self.value()})")
            + self.block()
            + "{{ x }}{{ y }}{{ varargs }}"
            + self.tag("endmacro")
            + "{{ "
            + self.pick(f"g({self.value()})", f"g({self.value()}, y={self.value()})", "g()", "g(1, 2, 3)|upper")
            + " }}",
            lambda: self.tag("macro h(x)") + "[{{ caller(x) }}]" + self.tag("endmacro") + self.tag("call(z) h(" + self.value() + ")")
            + "{{ z }}" + self.block(1) + self.tag("endcall"),
            lambda: self.tag(f"filter {self.text_filter()}") + self.block() + self.tag("endfilter"),
            lambda: self.tag(f"with x = {self.value()}, y = {self.value()}") + self.block() + "{{ x }}{{ y }}" + self.tag("endwith"),
            lambda: self.tag("generation") + self.block() + self.tag("endgeneration"),
            lambda: self.tag("raw") + " {{ x }} {% y %} " + self.tag("endraw"),
            lambda: "{#" + self.pick("", "-") + " {{ no }} " + self.pick("", "-", "+") + "#}",
        )  # fmt: skip


def variables(rng):
    messages = [
        {"role": rng.choice(["user", "assistant"]), "content": rng.choice([*WORDS, None]), "n": i} for i in range(3)
    ]
    return {
        "s": "Hello World", "u": "héllo 中😀 Straße", "e": "", "words": "  two  words here ", "q": "it's \"q\" \\ <b>&\n\t",
        "n": 5, "f": 2.5, "neg": -7, "b": True, "big": 18446744073709551615, "nothing": None,
        "l": [3, 1, 2], "ls": ["b", "A", "c"], "emptyl": [], "mixed": [1, "a", None, True, 2.5, [1], {"k": "v"}], "m": messages,
        "d": {"a": 1, "b": {"c": [1, 2, {"x": "y"}]}, "name": "héllo"}, "loop_s": "ls", "loop_n": 2, "loop_l": [1.5, "z"],
    }  # fmt: skip


def expected(env, source, data):
    try:
        return re.sub(r" at 0x[0-9a-f]+>", ">", env.from_string(source).render(**json.loads(json.dumps(data))))
    except Exception as error:  # noqa: BLE001: whatever a template does wrong
        return error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--templates", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    cases = [(Writer(rng).block(), variables(rng)) for _ in range(options.templates)]
    stdin = "".join(json.dumps(case) + "\n" for case in cases).encode()
    found = subprocess.run([PROGRAM], input=stdin, capture_output=True, check=True).stdout.splitlines()
    env = environment()
    n_rendered, wrong = 0, []
    for (source, data), line in zip(cases, found, strict=True):
        theirs, ours = expected(env, source, data), json.loads(line)
        fails = isinstance(theirs, Exception)
        n_rendered += not fails
        # jinja2 folds slices of constants that have none to an undefined value, and fails on others.
        is_known = isinstance(ours, dict) and "cannot be sliced" in ours["error"]
        # Filters are looked for when they are reached, not before.
        is_known = is_known or "No filter named" in str(theirs)
        if not is_known and (isinstance(ours, dict) != fails or (not fails and ours != theirs)):
            wrong.append((len(source), source, repr(theirs), ours))
    for _, source, theirs, ours in sorted(wrong, key=lambda case: case[0])[: options.show]:
        print(f"{source!r}\n  jinja2 {theirs}\n  ours   {ours!r}")
    print(f"{len(cases)} templates, of which jinja2 renders {n_rendered}; {len(wrong)} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
