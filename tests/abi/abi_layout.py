#!/usr/bin/env python3
"""Size and offsets of every struct of the C ABI (rule A10), compared with the committed file.

abi_layout.py            compares; fails on any difference, and on a struct that breaks rule A5 or A6
abi_layout.py --update   writes layout-MAJOR.MINOR.txt
abi_layout.py --release  adds the file to released.txt, after which it can never change

From 1.0 on every line of the major's released files must still hold: a struct only grows at its end.
"""
import dataclasses
import difflib
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

import compilers

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "sdk/include"
STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\n\} \1;", re.S)
COMMENT = re.compile(r"/\*.*?\*/", re.S)


@dataclasses.dataclass
class Struct:
    name: str
    growable: bool
    members: list  # of names
    declarations: list  # of texts, e.g. "uint32_t n_values, n_ops"


def members_of(declaration):
    """Names that one declaration introduces: "uint32_t a, b", "float x[4]", "void (*f)(int)"."""
    function = re.search(r"\(\*(\w+)\)", declaration)
    if function:
        return [function.group(1)]
    return [re.search(r"(\w+)\s*(\[\w+\])?\s*$", part).group(1) for part in declaration.split(",")]


def is_growable(name, comments):
    """What the comments since the struct before say; ops.h says it of its attributes as a whole."""
    if name.startswith("bp_attr_"):
        return True
    words = re.findall(r"\b(Growable|Frozen)\.", comments)
    if len(words) != 1:
        sys.exit(f"{name}: its comment must say Growable. or Frozen., once")
    return words[0] == "Growable"


def structs_of(header):
    text = header.read_text(encoding="utf-8")
    end = 0
    for match in STRUCT.finditer(text):
        name = match.group(1)
        body = COMMENT.sub("", match.group(2))
        declarations = [" ".join(d.split()) for d in body.split(";") if d.strip()]
        members = [member for d in declarations for member in members_of(d)]
        growable = is_growable(name, text[end : match.start()])
        end = match.end()
        yield Struct(name, growable, members, declarations)


def program(headers):
    """C source that prints one line for each struct and member, and the macros of the version."""
    lines = ["#include <stdio.h>"]
    lines += [f'#include "{header.relative_to(INCLUDE)}"' for header in headers]
    lines += ["int main(void) {"]
    for struct in (s for header in headers for s in structs_of(header)):
        kind = "growable" if struct.growable else "frozen"
        lines.append(f'printf("{struct.name} {kind} size %zu\\n", sizeof({struct.name}));')
        lines += [
            f'printf("{struct.name}.{m} offset %zu size %zu\\n", offsetof({struct.name}, {m}), '
            f"sizeof((({struct.name}*)0)->{m}));"
            for m in struct.members
        ]
    return "\n".join(lines + ["return 0;", "}", ""])


def measure(source, compiler, language):
    with tempfile.TemporaryDirectory() as folder:
        binary = pathlib.Path(folder) / "layout"
        subprocess.run([compiler, "-x", language, f"-I{INCLUDE}", "-o", binary, "-"], input=source,
                       text=True, check=True)
        return subprocess.run([binary], text=True, check=True, capture_output=True).stdout


def sizes_in(layout):
    """{"bp_op": (0, size), "bp_op.kind": (offset, size)}"""
    out = {}
    for line in layout.splitlines():
        words = line.split()
        offset = int(words[2]) if words[1] == "offset" else 0
        out[words[0]] = (offset, int(words[-1]))
    return out


def violations(structs, sizes):
    """Rules A5 and A6."""
    growable = {s.name for s in structs if s.growable}
    for struct in structs:
        for declaration in struct.declarations:
            first = declaration.removeprefix("const ").split()[0]
            by_value = "*" not in declaration and "(" not in declaration
            if by_value and first in growable:
                yield f"{struct.name}: contains the growable {first}"
        if not struct.growable:
            continue
        if sizes[f"{struct.name}.{struct.members[0]}"] != (0, 4) or (
            struct.members[0] != "struct_size"
        ):
            yield f"{struct.name}: does not begin with uint32_t struct_size"
        offset, size = sizes[f"{struct.name}.{struct.members[-1]}"]
        if offset + size != sizes[struct.name][1]:
            yield f"{struct.name}: has tail padding after {struct.members[-1]}"


def abi_version():
    text = (INCLUDE / "backplane/plugin.h").read_text(encoding="utf-8")
    return ".".join(re.search(rf"BP_ABI_{part} (\d+)u", text).group(1) for part in ("MAJOR", "MINOR"))


def released(folder):
    """{name: sha256} of the layout files that never change again."""
    lines = (folder / "released.txt").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def changed_releases(folder):
    for name, digest in released(folder).items():
        path = folder / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            yield f"{name} is released and was changed or removed: restore it"


def broken_lines(old, new):
    """Lines of a released layout that a later one of the same major does not keep."""
    now = {line.split()[0]: line for line in new.splitlines()}
    for line in old.splitlines():
        name, kind, *_, size = line.split()
        found = now.get(name, f"{name} is gone")
        has_grown = kind == "growable" and found.split()[1] == "growable" and (
            int(found.split()[-1]) >= int(size))
        if found != line and not has_grown:
            yield f"released: {line}; now: {found}"


def broken_releases(folder, version, layout):
    major, minor = (int(part) for part in version.split("."))
    for name in released(folder):
        old_major, old_minor = (int(part) for part in re.findall(r"\d+", name))
        if old_major == major > 0 and old_minor < minor:
            yield from (f"{name}: {line}" for line in broken_lines((folder / name).read_text(), layout))


def release(folder, path):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with open(folder / "released.txt", "a") as file:
        file.write(f"{digest}  {path.name}\n")


def main():
    headers = sorted(INCLUDE.rglob("*.h"))
    structs = [s for header in headers for s in structs_of(header)]
    n_written = sum(len(re.findall(r"typedef struct \w+ \{", h.read_text())) for h in headers)
    if not structs or len(structs) != n_written:
        sys.exit(f"{len(structs)} of {n_written} structs were understood: the generator is broken")
    source = program(headers)
    layouts = {measure(source, c, "c") for c, _ in compilers.installed()}
    layouts |= {measure(source, cxx, "c++") for _, cxx in compilers.installed()}
    if len(layouts) != 1:
        sys.exit("compilers or languages disagree about the layout")
    layout = layouts.pop()
    if wrong := list(violations(structs, sizes_in(layout))):
        sys.exit("\n".join(wrong))
    path = HERE / f"layout-{abi_version()}.txt"
    wrong = [*changed_releases(HERE), *broken_releases(HERE, abi_version(), layout)]
    if wrong:
        sys.exit("\n".join(wrong))
    if sys.argv[1:] == ["--update"]:
        if path.name in released(HERE):
            sys.exit(f"{path.name} is released: raise the minor of the ABI first")
        path.write_text(layout)
        return
    if layout != (old := path.read_text()):
        diff = difflib.unified_diff(old.splitlines(), layout.splitlines(), path.name, "headers", "")
        sys.exit("\n".join(diff) + "\nThe ABI changed: raise its minor, then --update.")
    if sys.argv[1:] == ["--release"]:
        release(HERE, path)
    print(f"{path.name}: {len(structs)} structs, {len(layout.splitlines())} lines agree")


if __name__ == "__main__":
    main()
