#!/usr/bin/env python3
"""Writes a GGUF model as a flat one: gguf_to_flat.py MODEL.gguf MODEL.flat"""
import struct
import sys

# BP_META_*
U64, I64, F64, BOOL, STRING = 1, 2, 3, 4, 5
# GGUF's number of a type of metadata to (how it is stored there, BP_META_*).
VALUES = {0: ("B", U64), 1: ("b", I64), 2: ("H", U64), 3: ("h", I64), 4: ("I", U64), 5: ("i", I64),
          6: ("f", F64), 7: ("B", BOOL), 10: ("Q", U64), 11: ("q", I64), 12: ("d", F64)}
GGUF_STRING, GGUF_ARRAY = 8, 9
STORED = {U64: "Q", I64: "q", F64: "d", BOOL: "B"}
# GGUF's number of a tensor type to (BP_DTYPE_*, elements of a block, bytes of a block).
TENSORS = {0: (1, 1, 4), 1: (2, 1, 2), 30: (3, 1, 2), 2: (12, 32, 18), 3: (13, 32, 20),
           6: (14, 32, 22), 7: (15, 32, 24), 8: (16, 32, 34), 10: (18, 256, 84), 11: (19, 256, 110),
           12: (20, 256, 144), 13: (21, 256, 176), 14: (22, 256, 210)}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, code):
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        n = self.number("Q")
        self.at += n
        return self.data[self.at - n : self.at]

    def values(self, kind, n):
        if kind == GGUF_STRING:
            return STRING, [self.text() for _ in range(n)]
        code, meta = VALUES[kind]
        return meta, [self.number(code) for _ in range(n)]


def text(data):
    return struct.pack("<Q", len(data)) + data


def metadata(reader):
    """One entry of a GGUF file as one of a flat file's table."""
    key, kind, n, is_array = reader.text(), reader.number("I"), 1, 0
    if kind == GGUF_ARRAY:
        kind, n, is_array = reader.number("I"), reader.number("Q"), 1
    meta, values = reader.values(kind, n)
    packed = map(text, values) if meta == STRING else (struct.pack("<" + STORED[meta], v)
                                                       for v in values)
    return key, values, text(key) + struct.pack("<IIQ", meta, is_array, n) + b"".join(packed)


def convert(data):
    reader = Reader(data)
    if data[:4] != b"GGUF" or reader.number("Q") >> 32 != 3:
        sys.exit("not a GGUF file of version 3")
    n_tensors, n_metadata = reader.number("Q"), reader.number("Q")
    entries = [metadata(reader) for _ in range(n_metadata)]
    alignment = next((v[0] for k, v, _ in entries if k == b"general.alignment"), 32)
    tensors = []
    for _ in range(n_tensors):
        name = reader.text()
        dims = [reader.number("Q") for _ in range(reader.number("I"))][::-1]
        tensors.append((name, dims, *TENSORS[reader.number("I")], reader.number("Q")))
    first = -(-reader.at // alignment) * alignment

    def table(offset):
        """The table where tensor bytes begin at `offset`, and those bytes."""
        out, blob = struct.pack("<Q", n_metadata) + b"".join(e for _, _, e in entries), b""
        out += struct.pack("<Q", n_tensors)
        for name, dims, dtype, elements, block_bytes, at in sorted(tensors, key=lambda t: t[5]):
            n_bytes = block_bytes
            for dim in dims:
                n_bytes *= dim
            blob += bytes(-len(blob) % 64)
            out += text(name) + struct.pack(f"<II{len(dims)}Q", dtype, len(dims), *dims)
            out += struct.pack("<Q", offset + len(blob))
            blob += data[first + at : first + at + n_bytes // elements]
        return out, blob

    begin = -(-(16 + len(table(0)[0])) // 64) * 64
    out, blob = table(begin)
    return b"BPFLAT01" + struct.pack("<Q", len(out)) + (out + bytes(begin - 16 - len(out))) + blob


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as source:
        flat = convert(source.read())
    with open(sys.argv[2], "wb") as target:
        target.write(flat)
