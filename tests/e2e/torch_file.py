"""Files as torch.save writes them, of numpy arrays and without torch."""

import collections
import io
import pickle
import struct
import sys
import types
import zipfile

import numpy as np

STORAGES = {"<f4": "FloatStorage", "<f2": "HalfStorage", "<i8": "LongStorage"}
ALIGNMENT = 64


def of_module(module, name):
    """A class that pickle writes as module.name, which need not exist."""
    made = type(name, (), {"__module__": module})
    setattr(sys.modules.setdefault(module, types.ModuleType(module)), name, made)
    return made


class Storage:
    """What arrays that are views of one another share."""

    def __init__(self, array, key):
        self.array, self.key = array, key


class Pickler(pickle.Pickler):
    def __init__(self, file):
        super().__init__(file, protocol=2)
        self.rebuild = of_module("torch._utils", "_rebuild_tensor_v2")
        self.classes = {dtype: of_module("torch", name) for dtype, name in STORAGES.items()}
        self.storages = {}  # by the id of the array that owns the memory

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        array = value.array
        return ("storage", self.classes[array.dtype.str], value.key, "cpu", array.size)

    def reducer_override(self, value):
        if not isinstance(value, np.ndarray):
            return NotImplemented
        owner = value
        while owner.base is not None:
            owner = owner.base
        storage = self.storages.setdefault(id(owner), Storage(owner, str(len(self.storages))))
        offset = (value.ctypes.data - owner.ctypes.data) // value.itemsize
        strides = tuple(stride // value.itemsize for stride in value.strides)
        hooks = collections.OrderedDict()
        return self.rebuild, (storage, offset, value.shape, strides, False, hooks)


def add_entry(archive, name, data):
    entry = zipfile.ZipInfo(name)
    begin = archive.fp.tell() + 30 + len(name) + 4
    padding = -begin % ALIGNMENT
    entry.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
    archive.writestr(entry, data)


def save(path, tensors):
    """tensors: arrays by name; views share the storage of what they are views of."""
    data = io.BytesIO()
    pickler = Pickler(data)
    pickler.dump(collections.OrderedDict(tensors))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        add_entry(archive, "archive/data.pkl", data.getvalue())
        add_entry(archive, "archive/byteorder", b"little")
        for storage in pickler.storages.values():
            add_entry(archive, "archive/data/" + storage.key, storage.array.tobytes("A"))
        add_entry(archive, "archive/version", b"3\n")
