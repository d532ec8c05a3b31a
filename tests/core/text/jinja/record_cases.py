"""Records in language_cases.json what jinja2, set up as transformers sets it up, makes of each case, and
the names of its filters, tests and globals.

usage: record_cases.py     needs the jinja2 package; rewrites the file beside this script
Each case is [template, result]; the result is null where rendering fails. A bare string is a new case.
"""
import datetime
import json
import os

import jinja2
import jinja2.defaults
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "language_cases.json")


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def environment():
    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda form: datetime.datetime(2026, 1, 15, 12, 0, 0).strftime(form)
    return env


def record(env, source, variables):
    try:
        return env.from_string(source).render(**json.loads(json.dumps(variables)))
    except Exception:
        return None


def main():
    env = environment()
    with open(CASES, encoding="utf-8") as file:
        document = json.load(file)
    variables = document["variables"]
    builtins = {
        "filters": sorted(jinja2.defaults.DEFAULT_FILTERS),
        "tests": sorted(jinja2.defaults.DEFAULT_TESTS),
        "globals": sorted(jinja2.defaults.DEFAULT_NAMESPACE),
    }
    lines = ['{"variables": ' + json.dumps(variables, ensure_ascii=False) + ","]
    lines.append('"builtins": ' + json.dumps(builtins) + ',\n"cases": {')
    groups = []
    for name, cases in document["cases"].items():
        sources = [case if isinstance(case, str) else case[0] for case in cases]
        rows = [json.dumps([s, record(env, s, variables)], ensure_ascii=False) for s in sources]
        groups.append(json.dumps(name) + ": [\n" + ",\n".join(rows) + "]")
    lines.append(",\n".join(groups))
    with open(CASES, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n}}\n")


if __name__ == "__main__":
    main()
