"""GGUF version 3 as far as the tiny model needs it: writing, reading, Q8_0."""

import struct

import numpy as np

ALIGNMENT = 32
F32, Q8_0 = 0, 8  # ggml's type ids
Q8_BLOCK = np.dtype([("scale", "<f2"), ("quants", "i1", 32)])
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SCALARS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}


def quantize(values):
    """float32 to Q8_0: per 32 values a half-precision scale and signed bytes."""
    blocks = np.ascontiguousarray(values, np.float32).reshape(-1, 32)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
    out = np.empty(len(blocks), Q8_BLOCK)
    out["scale"] = scale[:, 0]
    out["quants"] = np.rint(blocks / np.where(scale > 0, scale, 1))
    return out.tobytes()


def dequantize(raw, shape):
    blocks = np.frombuffer(raw, Q8_BLOCK)
    return (blocks["scale"].astype(np.float32)[:, None] * blocks["quants"]).reshape(shape)


def pack_string(text):
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def type_of(value):
    kinds = {bool: BOOL, int: UINT32, float: FLOAT32, str: STRING, list: ARRAY}
    return kinds[type(value)]


def pack_payload(kind, value):
    if kind == STRING:
        return pack_string(value)
    if kind == ARRAY:  # integers in arrays are signed: token types
        element = INT32 if type(value[0]) is int else type_of(value[0])
        head = struct.pack("<IQ", element, len(value))
        return head + b"".join(pack_payload(element, v) for v in value)
    return struct.pack(SCALARS[kind], value)


def write(path, metadata, tensors):
    """tensors: name to float32 array, rows first; matrices become Q8_0, vectors stay F32."""
    infos, data = [], b""
    for name, values in tensors.items():
        kind = Q8_0 if values.ndim == 2 else F32
        dims = values.shape[::-1]
        infos.append(
            pack_string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        )
        raw = quantize(values) if kind == Q8_0 else values.astype("<f4").tobytes()
        data += raw + bytes(-len(raw) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += (
            pack_string(key)
            + struct.pack("<I", type_of(value))
            + pack_payload(type_of(value), value)
        )
    head += b"".join(infos)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT) + data)


class Reader:
    """metadata: key to value; tensors: name to float32 array as the stored bytes decode."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.raw = file.read()
        self.at = 4
        version, n_tensors, n_keys = self.take("<I"), self.take("<Q"), self.take("<Q")
        if self.raw[:4] != b"GGUF" or version != 3:
            raise ValueError(f"{path} is not GGUF version 3")
        self.metadata = {}
        for _ in range(n_keys):
            key = self.string()
            self.metadata[key] = self.payload(self.take("<I"))
        infos = [self.tensor_info() for _ in range(n_tensors)]
        start = self.at + -self.at % ALIGNMENT
        self.tensors = {
            name: self.values(shape, kind, start + offset) for name, shape, kind, offset in infos
        }

    def take(self, form):
        (value,) = struct.unpack_from(form, self.raw, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self):
        length = self.take("<Q")
        self.at += length
        return self.raw[self.at - length : self.at].decode("utf-8")

    def payload(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, length = self.take("<I"), self.take("<Q")
            return [self.payload(element) for _ in range(length)]
        return self.take(SCALARS[kind])

    def tensor_info(self):
        name = self.string()
        dims = [self.take("<Q") for _ in range(self.take("<I"))]
        return name, dims[::-1], self.take("<I"), self.take("<Q")

    def values(self, shape, kind, at):
        count = int(np.prod(shape))
        if kind == F32:
            return np.frombuffer(self.raw, "<f4", count, at).reshape(shape)
        return dequantize(self.raw[at : at + count // 32 * Q8_BLOCK.itemsize], shape)
