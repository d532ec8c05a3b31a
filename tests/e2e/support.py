"""What the process-level tests share: the binary under test, a server on a free port, plain HTTP.

Enters by environment: BACKPLANE_BINARY, BACKPLANE_SOURCE_DIR, BACKPLANE_TEST_DATA (published test
data, optional), BACKPLANE_TIME_SCALE (how much slower than a release build this one may be),
BACKPLANE_SANITIZED (the sanitizer that the build has, if any).
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("BACKPLANE_SOURCE_DIR", os.path.dirname(os.path.dirname(HERE)))
BINARY = os.environ.get("BACKPLANE_BINARY", os.path.join(SOURCE, "build", "bin", "backplane"))
DATA = os.environ.get("BACKPLANE_TEST_DATA")
TIME_SCALE = float(os.environ.get("BACKPLANE_TIME_SCALE", "1"))

TINY = os.path.join(SOURCE, "tests", "data", "tiny", "tiny-chat.gguf")
SMOLLM2 = os.path.join(SOURCE, "models", "smollm2-135m-instruct-q4_1.gguf")

needs_data = unittest.skipUnless(DATA, "BACKPLANE_TEST_DATA is not set")
needs_smollm2 = unittest.skipUnless(
    os.path.isfile(SMOLLM2), "the default model is missing: run configs/fetch_model.py"
)

needs_own_allocator = unittest.skipIf(
    os.environ.get("BACKPLANE_SANITIZED"), "a sanitizer's own memory is anonymous too"
)


def data(*parts):
    return os.path.join(DATA or "", *parts)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def tiny_expected():
    return read_json(os.path.join(os.path.dirname(TINY), "expected.json"))


def scaled(seconds):
    return seconds * TIME_SCALE


def backplane(*arguments, stdin=b"", timeout=60, env=None):
    """Runs one command; stdout and stderr are bytes."""
    return subprocess.run(
        [BINARY, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=scaled(timeout),
        env=os.environ | (env or {}),
        check=False,
    )


def rms(values):
    return (sum(v * v for v in values) / len(values)) ** 0.5


def deviation(values):
    mean = sum(values) / len(values)
    return rms([v - mean for v in values])


def logits(model, tokens, *options, timeout=120):
    done = backplane(
        "logits", model, "--tokens", ",".join(map(str, tokens)), *options, timeout=timeout
    )
    if done.returncode != 0:
        raise AssertionError(f"logits failed: {done.stderr.decode()}")
    return json.loads(done.stdout)["logits"]


class CommandTest(unittest.TestCase):
    """Commands, and files for them that go when the test ends."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="backplane-e2e-")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def assert_done(self, done):
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout

    def assert_one_clear_line(self, done, *parts):
        """Exit 1, nothing on stdout, and one line that says why."""
        message = done.stderr.decode()
        self.assertEqual(done.returncode, 1, message)
        self.assertEqual(done.stdout, b"")
        self.assertRegex(message, r"\Abackplane: [^\n]+\n\Z")
        for part in parts:
            self.assertIn(part, message)


def tiny_model(**changes):
    model = {
        "id": "tiny",
        "source": TINY,
        "context": 1024,
        "backend": {"plugin": "cpu", "threads": 1},
        "sampler": {"defaults": {"temperature": 0}},
    }
    return model | changes


def smollm2_model(**changes):
    model = {
        "id": "smollm2",
        "source": SMOLLM2,
        "context": 2048,
        "sampler": {"defaults": {"temperature": 0}},
    }
    return model | changes


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json()["error"]


class EventStream:
    """The events of a streamed answer, each as the text behind `data: `. Checks the framing."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response
        self.status = response.status
        self.content_type = response.getheader("Content-Type")

    def __iter__(self):
        while line := self.response.readline():
            text = line.decode("utf-8")  # every line is valid UTF-8 by itself
            if text == "\n":
                continue
            if not text.startswith("data: "):
                raise AssertionError(f"no event: {text!r}")
            yield text[len("data: ") : -1]

    def chunks(self):
        """The JSON of all events, to the end; the last one must be [DONE]."""
        with contextlib.closing(self):
            events = list(self)
        if not events or events[-1] != "[DONE]":
            raise AssertionError(f"the stream ends without [DONE]: {events[-1:]}")
        return [json.loads(event) for event in events[:-1]]

    def close(self):
        # The response holds a second reference to the socket.
        self.response.close()
        self.connection.close()


class Server:
    """`backplane serve` on a free port, ready to answer; a context manager that stops it.

    Serves the models, or what a whole configuration (`yaml`) says."""

    def __init__(self, *models, server=None, ready=True, yaml=None, env=None):
        self.folder = tempfile.mkdtemp(prefix="backplane-serve-")
        config = {"server": {"listen": "127.0.0.1:0"} | (server or {}), "models": list(models)}
        self.config = os.path.join(self.folder, "serve.yaml")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(yaml or json.dumps(config))  # JSON is YAML
        self.log, self.listening = [], threading.Event()
        self.process = subprocess.Popen(
            [BINARY, "serve", self.config],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | (env or {}),
        )
        self.host, self.port = None, None
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        try:
            if not self.listening.wait(scaled(60)) or self.port is None:
                raise AssertionError(f"the server does not listen:\n{self.log_text()}")
            if ready:
                self.wait_ready()
        except BaseException:
            self.stop(signal.SIGKILL)
            raise

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(rb"listening on http://([^\s:]+):(\d+)", line)
            if found:
                self.host, self.port = found[1].decode(), int(found[2])
                self.listening.set()
        self.listening.set()  # nothing more will come

    def log_text(self):
        if self.process.poll() is not None:
            self.reader.join()
        return b"".join(self.log).decode(errors="replace")

    def wait_logged(self, pattern, seconds=10):
        """The match of a pattern in the log, whose lines are read some time after they came."""
        return self.wait_until(
            lambda: re.search(pattern, self.log_text()), seconds, f"does not log {pattern!r}")

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def wait_ready(self):
        self.wait_until(lambda: self.get("/ready").status == 200, 60, "is not ready")

    def wait_until(self, condition, seconds, what):
        """What the condition answers once it is true."""
        deadline = time.monotonic() + scaled(seconds)
        while True:
            is_last = self.process.poll() is not None or time.monotonic() > deadline
            if answer := condition():
                return answer
            if is_last:
                raise AssertionError(f"the server {what}:\n{self.log_text()}")
            time.sleep(0.02)

    def connect(self, timeout=60):
        return http.client.HTTPConnection(self.host, self.port, timeout=scaled(timeout))

    def request(self, method, path, body=None, headers=None):
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Response(response.status, response.headers, response.read())

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, body, **headers):
        headers = {"Content-Type": "application/json"} | headers
        return self.request("POST", path, json.dumps(body), headers)

    def send(self, path, body):
        """A connection on which the request is sent and its answer not yet read."""
        connection = self.connect()
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        return connection

    def stream(self, path, body):
        connection = self.send(path, body | {"stream": True})
        return EventStream(connection, connection.getresponse())

    def chat(self, content, **fields):
        """The JSON answer to one user's message."""
        messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
        response = self.post("/v1/chat/completions", {"messages": messages} | fields)
        if response.status != 200:
            raise AssertionError(f"{response.status}: {response.body}")
        return response.json()

    def complete(self, prompt, **fields):
        response = self.post("/v1/completions", {"prompt": prompt} | fields)
        if response.status != 200:
            raise AssertionError(f"{response.status}: {response.body}")
        return response.json()

    def metric(self, name, **labels):
        """The sum of a metric's samples that have these labels."""
        total, found = 0.0, False
        for line in self.get("/metrics").body.decode().splitlines():
            sample = re.fullmatch(r"([\w:]+)(?:\{(.*)\})? (\S+)", line)
            if not sample or sample[1] != name:
                continue
            present = dict(re.findall(r'(\w+)="([^"]*)"', sample[2] or ""))
            if labels.items() <= present.items():
                total, found = total + float(sample[3]), True
        if not found:
            raise AssertionError(f"no metric {name} {labels}")
        return total

    def wait_idle(self, seconds=2):
        """No sequence runs, waits or holds a block."""

        def idle():
            return (
                self.metric("backplane_requests_running") == 0
                and self.metric("backplane_requests_waiting") == 0
                and self.metric("backplane_kv_cache_usage_ratio") == 0
            )

        self.wait_until(idle, seconds, f"still holds blocks after {seconds} s")

    def stop(self, how=signal.SIGTERM, timeout=60):
        """The exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(scaled(timeout))
        finally:
            self.process.kill()
            self.process.wait()
            self.reader.join()
            self.process.stderr.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, _value, _traceback):
        code = self.stop()
        if kind is None and code != 0:
            raise AssertionError(f"the server ended with {code}:\n{self.log_text()}")


class ServerTest(unittest.TestCase):
    """Tests that share one server, made by make_server."""

    @classmethod
    def make_server(cls):
        return Server(tiny_model())

    @classmethod
    def setUpClass(cls):
        cls.server = cls.make_server()

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        if code != 0:
            raise AssertionError(f"the server ended with {code}:\n{cls.server.log_text()}")

    def assert_refused(self, response, status, param=None, code=None):
        self.assertEqual(response.status, status, response.body)
        error = response.error
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertIsInstance(error["message"], str)
        self.assertNotIn("\n", error["message"])
        self.assertEqual(error["param"], param)
        if code is not None:
            self.assertEqual(error["code"], code)
        return error


def main():
    unittest.main(verbosity=2)
