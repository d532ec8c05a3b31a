#!/usr/bin/env python3
"""Checks the layer rule over the include directives of the tree.

sdk includes nothing of ours but sdk; core may include sdk and core, never a plugin; a plugin includes
sdk and itself, never core or another plugin, and of its own kind what is marked as common: a static
library that is no plugin and itself includes sdk alone. The C ABI headers include <stddef.h> and
<stdint.h> only, templates what an installed SDK has, the standard library and files of their own folder.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
SUFFIXES = {".h", ".hpp", ".cpp", ".inl", ".inc", ".c", ".cu", ".cuh"}
PLUGIN_FOLDERS = ("formats", "backends", "plugins")
SDK_INCLUDES = ("sdk/include", "sdk/cpp", "sdk/reference/include")
COMMON = ("formats/huggingface",)
TOPS = ("core", "sdk", "tests", "bench") + PLUGIN_FOLDERS


def layer(parts):
    """core, sdk, or the plugin's own folder (two levels)."""
    return "/".join(parts[:2]) if parts[0] in PLUGIN_FOLDERS else parts[0]


def is_known_outside(path, target, directive):
    """Whether a plugin author's compiler finds it: in the SDK, its own folder or the C and C++ library."""
    if target.startswith("backplane/"):
        return any((ROOT / folder / target).is_file() for folder in SDK_INCLUDES)
    if '"' in directive:
        return (path.parent / target).is_file()
    return re.fullmatch(r"[a-z0-9_]+(\.h)?", target) is not None


def violations(path):
    parts = path.relative_to(ROOT).parts
    own = layer(parts)
    is_abi = parts[:3] == ("sdk", "include", "backplane")
    is_template = parts[:2] == ("sdk", "template")
    for match in INCLUDE.finditer(path.read_text(encoding="utf-8")):
        target = match.group(1)
        line = path.read_text(encoding="utf-8")[: match.start()].count("\n") + 1
        where = f"{path.relative_to(ROOT)}:{line}"
        if is_abi and not target.startswith("backplane/") and target not in ("stddef.h", "stdint.h"):
            yield f"{where}: an ABI header includes <{target}>"
        if is_template and not is_known_outside(path, target, match.group(0)):
            yield f"{where}: a template includes {target}, which is not of the SDK"
        if target.startswith(".."):
            yield f"{where}: include by a relative path upwards: {target}"
        pieces = target.split("/")
        if pieces[0] not in TOPS or len(pieces) < 2:
            continue
        goal = layer(pieces)
        is_common = goal in COMMON and goal.split("/")[0] == own.split("/")[0]
        if goal != own and not is_common:
            yield f"{where}: {own} must not include {goal} ({target})"


def main():
    wrong, n_files = [], 0
    for top in ("core", "sdk") + PLUGIN_FOLDERS:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                n_files += 1
                wrong += violations(path)
    wrong += [f"{folder} is common to plugins, and has one" for folder in COMMON
              if any((ROOT / folder).glob("*.plugin.yaml"))]
    if n_files == 0:
        sys.exit("no source file was found: the check is broken")
    if wrong:
        sys.exit("\n".join(wrong + [f"{len(wrong)} violations of the layer rule"]))
    print(f"layer rule: {n_files} files, no violation")


if __name__ == "__main__":
    main()
