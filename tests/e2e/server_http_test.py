"""The wire: what raw sockets may send, and what is refused before a handler sees it."""

import http.client
import json
import socket
import time

from support import Server, ServerTest, main, scaled, tiny_model

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "What is the capital of Italy?"}]}


def post(path, body, *headers, host=b"Host: x\r\n"):
    lines = b"".join(header + b"\r\n" for header in headers)
    return (
        b"POST " + path.encode() + b" HTTP/1.1\r\n" + host
        + b"Content-Type: application/json\r\n" + lines + b"\r\n" + body
    )  # fmt: skip


def with_length(body, path=CHAT):
    return post(path, body, b"Content-Length: %d" % len(body))


class RawTest(ServerTest):
    @classmethod
    def make_server(cls):
        return Server(tiny_model(), server={"max_body_bytes": 100_000})

    def connect(self):
        connection = socket.create_connection((self.server.host, self.server.port), scaled(30))
        self.addCleanup(connection.close)
        return connection

    def exchange(self, request):
        """Everything the server sends until it closes, or until one answer is whole."""
        connection = self.connect()
        try:
            connection.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all was sent
        response = http.client.HTTPResponse(connection)
        response.begin()
        body = response.read()
        return response, body, connection

    def closed(self, connection):
        connection.settimeout(scaled(5))
        try:
            return connection.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def check(self, request, status, close=True):
        response, body, connection = self.exchange(request)
        self.assertEqual(response.status, status, body)
        self.assertIn("message", json.loads(body)["error"])
        if close:
            self.assertTrue(self.closed(connection), "the connection stays open")
        return response

    def test_whole_requests_are_answered(self):
        body = json.dumps(HELLO | {"max_tokens": 1}).encode()
        response, _, connection = self.exchange(with_length(body))
        self.assertEqual(response.status, 200)
        connection.sendall(with_length(body))  # the connection serves another one
        again = http.client.HTTPResponse(connection)
        again.begin()
        self.assertEqual(again.status, 200)

    def test_a_chunked_body(self):
        body = json.dumps(HELLO | {"max_tokens": 1}).encode()
        chunks = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (7, body[:7], len(body) - 7, body[7:])
        response, _, _ = self.exchange(post(CHAT, chunks, b"Transfer-Encoding: chunked"))
        self.assertEqual(response.status, 200)

    def test_transfer_encodings_that_hide_a_request(self):
        hidden = b"0\r\n\r\n" + with_length(b"{}")
        for value in [b"gzip", b"chunked, chunked", b"gzip, chunked", b"xchunked", b"identity"]:
            self.check(post(CHAT, hidden, b"Transfer-Encoding: " + value), 501)
        both = [b"Content-Length: 5", b"Transfer-Encoding: chunked"]
        self.check(post(CHAT, hidden, *both), 400)
        self.check(post(CHAT, hidden, *reversed(both)), 400)

    def test_lengths(self):
        self.check(post(CHAT, b"{}", b"Content-Length: 2", b"Content-Length: 3"), 400)
        for value in [b"-1", b"2x", b"0x2", b"99999999999999999999999"]:
            self.check(post(CHAT, b"{}", b"Content-Length: " + value), 400)
        self.check(post(CHAT, b"", b"Content-Length: 100001"), 413)
        self.check(post(CHAT, b"x" * 100_001, b"Content-Length: 100001"), 413)

    def test_hosts_and_header_lines(self):
        self.check(post(CHAT, b"{}", b"Content-Length: 2", host=b""), 400)
        self.check(post(CHAT, b"{}", b"Content-Length: 2", b"Host: y"), 400)
        self.check(post(CHAT, b"{}", b"Content-Length: 2", b"A: b", b" folded"), 400)
        self.check(post(CHAT, b"{}", b"Content-Length : 2"), 400)
        self.check(post(CHAT, b"{}", b"A\0: b"), 400)
        self.check(b"GET /health HTTP/1.1\nHost: x\nA: b\r\n\r\n", 400)

    def test_garbage(self):
        for request in [b"\0" * 64 + b"\r\n\r\n", b"\x16\x03\x01\x02\r\n\r\n", b"HELLO\r\n\r\n"]:
            self.check(request, 400)

    def test_a_header_without_end(self):
        filler = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(64))
        self.check(post(CHAT, b"", filler[:-2]), 431)

    def test_chunks_without_end(self):
        extension = post(CHAT, b"1;" + b"x" * 300_000, b"Transfer-Encoding: chunked")
        response, _, connection = self.exchange(extension)
        self.assertIn(response.status, [400, 413, 431])
        self.assertTrue(self.closed(connection))
        endless = b"".join(b"2000\r\n" + b" " * 0x2000 + b"\r\n" for _ in range(20))
        self.check(post(CHAT, endless, b"Transfer-Encoding: chunked"), 413)
        trailer = b"2\r\n{}\r\n0\r\nT: " + b"x" * 300_000
        response, _, connection = self.exchange(
            post(CHAT, trailer, b"Transfer-Encoding: chunked")
        )
        self.assertGreaterEqual(response.status, 400)
        self.assertLess(response.status, 500)
        self.assertTrue(self.closed(connection))

    def test_paths_and_methods(self):
        self.check(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 404, close=False)
        self.check(b"GET /v1/../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 404, close=False)
        response = self.check(b"GET " + CHAT.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n", 405, False)
        self.assertEqual(response.getheader("Allow"), "POST")
        response = self.check(b"DELETE /health HTTP/1.1\r\nHost: x\r\n\r\n", 405, False)
        self.assertIn("GET", response.getheader("Allow"))

    def test_content_types(self):
        for kind in [b"text/plain", b"application/x-www-form-urlencoded", b"application/jsonx"]:
            request = (
                b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                b"Content-Type: " + kind + b"\r\n\r\n{}"
            )
            self.check(request, 415, close=False)
        body = json.dumps(HELLO | {"max_tokens": 1}).encode()
        request = with_length(body).replace(
            b"application/json", b"Application/JSON; charset=utf-8"
        )
        self.assertEqual(self.exchange(request)[0].status, 200)

    def test_bodies_that_are_no_request(self):
        deep = b"[" * 50_000
        for body in [b"", b"{", b"[]", b"null", b"{}{}", b'{"a":1,"a":2}', b'{"a":"\xff"}', deep]:
            response = self.check(with_length(body), 400, close=False)
            self.assertEqual(response.getheader("Content-Type"), "application/json")

    def test_slow_and_silent_clients_disturb_nobody(self):
        slow = [self.connect() for _ in range(50)]
        for connection in slow:
            connection.sendall(b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost:")
        start = time.monotonic()
        answer = self.server.chat("What is the capital of Italy?")
        self.assertIn("Rome", answer["choices"][0]["message"]["content"])
        self.assertLess(time.monotonic() - start, scaled(5))

    def test_after_all_of_it_the_server_answers(self):
        self.test_garbage()
        self.test_whole_requests_are_answered()


if __name__ == "__main__":
    main()
