#!/usr/bin/env python3
"""Builds the kept plugins of the SDK's ABI version into tests/abi/data/MAJOR.MINOR (x86-64).

Run before a version is released; what is committed then never changes. --abi MAJOR.MINOR builds them
as if this SDK had that version: data/0.0 was made by `make_kept.py --abi 0.0 scheduler`.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SDK = HERE.parents[2] / "sdk"
DATA = HERE.parent / "data"
KINDS = {
    "backend": "bp.backend/1",
    "format": "bp.format/1",
    "kernels": "bp.op-kernels/1",
    "sampler": "bp.sampler/1",
    "scheduler": "bp.scheduler/1",
}
MORE = {"sampler": "stages: [{name: only_last, help: Keeps the last token of the vocabulary.}]\n"}
# Small, and the same from every checkout.
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Os", "-fPIC", "-shared", "-s",
         "-fvisibility=hidden", "-fno-asynchronous-unwind-tables", "-fno-ident", "-nostartfiles",
         "-Wl,-z,defs", "-Wl,-z,noseparate-code", "-Wl,--build-id=none", "-Wl,--hash-style=gnu"]


def headers_of(version, folder):
    """A copy of the C headers that claims to be of this version."""
    copy = folder / "include"
    shutil.copytree(SDK / "include", copy)
    header = copy / "backplane/plugin.h"
    text = header.read_text()
    for part, number in zip(("MAJOR", "MINOR"), version.split(".")):
        text = re.sub(rf"(#define BP_ABI_{part}) \d+u", rf"\1 {number}u", text)
    header.write_text(text)
    return copy


def version_of_sdk():
    text = (SDK / "include/backplane/plugin.h").read_text()
    return ".".join(re.search(rf"BP_ABI_{p} (\d+)u", text).group(1) for p in ("MAJOR", "MINOR"))


def build(name, version, include, out):
    subprocess.run(["gcc", *FLAGS, f"-I{include}", f"-I{HERE}", HERE / f"{name}.c",
                    f"-Wl,--version-script={SDK / 'cmake/plugin.map'}",
                    "-o", out / f"kept-{name}.so"], check=True)
    (out / f"kept-{name}.plugin.yaml").write_text(
        f'schema: 1\nid: kept-{name}\nversion: 1.0.0\nabi: "{version}"\nkinds: [{KINDS[name]}]\n'
        f"description: A {name} plugin as it was compiled for ABI {version}.\n" + MORE.get(name, ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--abi", default=version_of_sdk())
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="default: every one of "
                        + ", ".join(KINDS))
    arguments = parser.parse_args()
    version = arguments.abi
    out = DATA / version
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        include = headers_of(version, pathlib.Path(folder))
        for name in arguments.kinds or KINDS:
            build(name, version, include, out)
    print(f"{out}: {', '.join(sorted(p.name for p in out.glob('*.so')))}")


if __name__ == "__main__":
    main()
