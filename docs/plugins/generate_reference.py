#!/usr/bin/env python3
"""The pages under reference/, from the headers of the C ABI and the specs of the ops.

generate_reference.py            compares with the committed pages; fails on any difference
generate_reference.py --update   writes them

Every struct, field, macro, type and function must have a description: its comment, that of its group,
or what its name means everywhere (`struct_size`, `n_x` beside `x`).
"""
import difflib
import pathlib
import re
import sys

from header_items import THREADS, items_of

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INCLUDE = ROOT / "sdk/include/backplane"
OPS = ROOT / "sdk/ops"
PAGES = HERE / "reference"
GROWTH = re.compile(r"\b(Growable|Frozen)\.")
EVERYWHERE = {
    "struct_size": "sizeof this struct in the version of the side that fills it",
    "reserved": "0; nobody reads it",
    "reserved2": "0; nobody reads it",
    "required": "one bit for each field whose neglect would change a result; none is defined",
    "user": "passed back as the first argument",
}
ID = re.compile(r'"[a-z.\-]+/\d+"')


def escaped(text):
    """Prose inside a table or paragraph of Markdown; columns of the header's own tables keep theirs."""
    return re.sub(r"([*_<>\[\]|])", r"\\\1", text)


def in_cell(text):
    return escaped(" ".join(text.split()))


def code(text):
    return "`" + " ".join(text.split()).replace("|", "\\|") + "`"


def dtype_sizes(items):
    """{"BP_DTYPE_Q4_0": "`q4_0`: blocks of 32 values in 18 bytes"}"""
    text = next((i.text for i in items if i.name.startswith("BP_DTYPE_LIST")), "")
    for name, label, n, size in re.findall(r'X\((\w+), "(\w+)", (\d+), (\d+)\)', text):
        plural = "s" if size != "1" else ""
        packed = f"blocks of {n} values in {size} bytes" if n != "1" else f"{size} byte{plural}"
        yield f"BP_DTYPE_{name}", f"{label}: {packed}"


def spec_attributes(struct):
    """{field: what the spec of the op says} for bp_attr_OP."""
    path = OPS / (struct.removeprefix("bp_attr_") + ".yaml")
    if not struct.startswith("bp_attr_") or not path.is_file():
        return {}
    found = re.findall(r"^  - \{name: (\w+), (type: [^}]*)\}$", path.read_text(), re.M)
    return {name: re.sub(r"type: (\w+), values: \[(.*?)\]", r"\1 of \2", rest).replace("type: ", "")
            for name, rest in found}


def describe_fields(struct):
    """Fills what the names say; leaves the rest empty."""
    from_spec = spec_attributes(struct.name)
    for m in struct.members:
        general = EVERYWHERE.get(m.name) or from_spec.get(m.name)
        if not m.comment and not general and m.name.startswith("n_"):
            sized = [o.name for o in struct.members
                     if f"[{m.name}" in o.comment or (o.name == m.name[2:] and "*" in o.text)]
            general = f"entries of {', '.join(sized)}" if sized else None
        if general and not (m.own and m.comment):
            m.comment = general


def prepare(items):
    sizes = dict(dtype_sizes(items))
    for item in items:
        item.growth = ""
        if found := GROWTH.search(item.comment):
            item.growth = found.group(1).lower()
            if item.kind == "struct":
                item.comment = GROWTH.sub("", item.comment).replace("  ", " ").strip()
        if item.kind == "struct":
            describe_fields(item)
            if item.name.startswith("bp_attr_"):
                item.comment = item.comment or f"Attributes of {item.name.removeprefix('bp_attr_')}."
        elif not item.comment:
            is_id = item.kind == "macro" and ID.fullmatch(item.text)
            item.comment = sizes.get(item.name) or ("the id of this contract" if is_id else "")
    return items


def missing(header, items):
    """What nobody describes, and functions of factories without a thread tag."""
    for item in items:
        if not item.comment:
            yield f"{header}: {item.name} has no description"
        is_table = item.kind == "struct" and "factory" in item.comment.lower()
        for m in item.members:
            if not m.comment:
                yield f"{header}: {item.name}.{m.name} has no description"
            elif is_table and "(*" in m.text and not THREADS.search(m.comment):
                yield f"{header}: {item.name}.{m.name} has no thread tag"


def fields_table(struct):
    yield "| field | type | |"
    yield "|---|---|---|"
    for m in struct.members:
        if "(*" in m.text:
            continue
        kind = re.sub(rf"\b{m.name}\b", "", m.text.rstrip(";"), count=1)
        yield f"| {code(m.name)} | {code(kind)} | {in_cell(m.comment)} |"


def page_of_struct(struct):
    yield f"## {struct.name}\n"
    yield (f"{struct.growth.capitalize()}. " if struct.growth else "") + escaped(struct.comment) + "\n"
    if any("(*" not in m.text for m in struct.members):
        yield from fields_table(struct)
        yield ""
    for m in struct.members:
        if "(*" in m.text:
            yield f"### {struct.name}.{m.name}\n\n```c\n{m.text}\n```\n\n{escaped(m.comment)}\n"


def page_of_run(run):
    """Macros, types or functions that stand together."""
    if run[0].kind in ("type", "function"):
        for item in run:
            yield f"## {item.name}\n\n```c\n{item.text}\n```\n\n{escaped(item.comment)}\n"
        return
    yield "| macro | value | |"
    yield "|---|---|---|"
    for item in run:
        value = "(a list)" if "\n" in item.text else code(item.text)
        yield f"| {code(item.name)} | {value} | {in_cell(item.comment)} |"
    yield ""


def runs(items):
    """Neighbours of one kind; each struct and note alone."""
    run = []
    for item in items:
        if run and (item.kind != run[0].kind or item.kind in ("struct", "note")):
            yield run
            run = []
        run.append(item)
    if run:
        yield run


def page(header, conventions, items):
    first, _, rest = conventions.partition("\n")
    name, _, summary = first.partition(": ")
    yield f"# {name}\n"
    yield "<!-- Written by generate_reference.py from the header; do not edit. -->\n"
    yield summary[:1].upper() + summary[1:] + "\n"
    yield escaped(re.sub(r"^ +(?=\d)", "", rest.strip("\n"), flags=re.M)) + "\n"
    for run in runs(items):
        if run[0].kind == "note":
            yield f"```text\n{run[0].comment.strip('- ')}\n```\n"
        elif run[0].kind == "struct":
            yield from page_of_struct(run[0])
        else:
            yield from page_of_run(run)


def index(pages):
    yield "# Reference of the C ABI\n"
    yield "<!-- Written by generate_reference.py; do not edit. -->\n"
    yield "One page per header of `include/backplane`, generated from its comments.\n"
    yield "| header | |"
    yield "|---|---|"
    for name, (title, summary) in pages.items():
        yield f"| [{title}]({name}) | {summary} |"


def generate():
    """{file name: text}, and what lacks a description."""
    out, wrong, pages = {}, [], {}
    for header in sorted(INCLUDE.rglob("*.h")):
        conventions, items = items_of(header.read_text(encoding="utf-8"))
        prepare(items)
        wrong += missing(header.relative_to(INCLUDE), items)
        name = "-".join(header.relative_to(INCLUDE).with_suffix(".md").parts)
        out[name] = "\n".join(page(header, conventions, items)).rstrip() + "\n"
        title, _, summary = conventions.partition("\n")[0].partition(": ")
        pages[name] = title, summary
    out["README.md"] = "\n".join(index(pages)) + "\n"
    return out, wrong


def difference(name, text):
    path = PAGES / name
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    return list(difflib.unified_diff(old.splitlines(), text.splitlines(), name, "headers", "", n=1))


def main():
    pages, wrong = generate()
    if wrong:
        sys.exit("\n".join(wrong))
    stray = {path.name for path in PAGES.glob("*")} - set(pages)
    if sys.argv[1:] == ["--update"]:
        for name in stray:
            (PAGES / name).unlink()
        for name, text in pages.items():
            (PAGES / name).write_text(text, encoding="utf-8")
        return
    changed = [line for name, text in pages.items() for line in difference(name, text)]
    changed += [f"{name} belongs to no header" for name in sorted(stray)]
    if changed:
        sys.exit("\n".join(changed) + "\nThe headers changed: generate_reference.py --update.")
    print(f"{len(pages)} pages agree with the headers")


if __name__ == "__main__":
    main()
