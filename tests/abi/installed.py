"""Plugins built outside the tree against an installed SDK, and the installed programs."""
import json
import re
import signal
import subprocess
import urllib.request

READY_S = 60


def run(*command, **more):
    """Standard output; a failure shows both outputs."""
    command = [str(part) for part in command]
    done = subprocess.run(command, text=True, capture_output=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def build_outside(prefix, source, build, c, cxx, *options):
    run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_C_COMPILER={c}", f"-DCMAKE_CXX_COMPILER={cxx}",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror", *options)
    run("cmake", "--build", build)


class Server:
    """`backplane serve` until the end of a with block."""

    def __init__(self, program, config):
        self.process = subprocess.Popen([program, "serve", config], stderr=subprocess.PIPE, text=True)
        self.lines = []

    def __enter__(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"listening on (http://\S+)", line):
                self.url = found.group(1)
            if line.rstrip().endswith("ready"):
                return self
        raise AssertionError("the server ended:\n" + "".join(self.lines))

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        _, self.rest = self.process.communicate(timeout=READY_S)

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=READY_S) as answer:
            return answer.read().decode()
