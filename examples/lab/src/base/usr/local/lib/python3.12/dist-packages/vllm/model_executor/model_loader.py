"""Weights from model.safetensors: each rank reads only the rows or columns that it needs.

Source: the safetensors format. Eight bytes with the length of a JSON header, the header with dtype,
shape and offsets of every tensor, then the tensors, row by row.
"""

from __future__ import annotations

import json
import mmap
import struct
import sys
from array import array
from pathlib import Path
from typing import Any, Dict, List, Set, Tuple

Shape = Tuple[int, ...]

_ITEM_BYTES = 4


class WeightsError(ValueError):
    """The file does not hold what the model needs."""


class StoredTensor:
    """One tensor in the file; nothing of it is read yet."""

    def __init__(self, data: memoryview, shape: Shape) -> None:
        self._data = data
        self.shape = shape

    def vector(self) -> List[float]:
        """All of a tensor of one dimension."""
        return self._read(0, self.shape[0])

    def rows(self, first: int, count: int) -> List[List[float]]:
        """Some rows of a matrix."""
        width = self.shape[1]
        return [self._read(row * width, width) for row in range(first, first + count)]

    def columns(self, first: int, count: int) -> List[List[float]]:
        """Some columns of a matrix, as rows that are cut short."""
        width = self.shape[1]
        return [self._read(row * width + first, count) for row in range(self.shape[0])]

    def _read(self, first: int, count: int) -> List[float]:
        values = array("f", bytes(self._data[first * _ITEM_BYTES : (first + count) * _ITEM_BYTES]))
        if sys.byteorder == "big":
            values.byteswap()
        return values.tolist()


class Weights:
    """The tensors of one file, by name; it remembers which of them were used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        (size,) = struct.unpack("<Q", self._view[:8])
        self._header: Dict[str, Dict[str, Any]] = json.loads(bytes(self._view[8 : 8 + size]))
        self._header.pop("__metadata__", None)
        self._start = 8 + size
        self._used: Set[str] = set()

    def get(self, name: str, shape: Shape) -> StoredTensor:
        """A tensor of just this shape; WeightsError if the file has none."""
        if name not in self._header:
            raise WeightsError(f"{self._path}: there is no tensor {name}")
        entry = self._header[name]
        found = (entry["dtype"], tuple(entry["shape"]))
        if found != ("F32", shape):
            raise WeightsError(f"{self._path}: {name} is {found}, the model needs {('F32', shape)}")
        begin, end = entry["data_offsets"]
        self._used.add(name)
        return StoredTensor(self._view[self._start + begin : self._start + end], shape)

    def check_all_used(self) -> None:
        """Refuse a file with tensors that the model has no place for."""
        left = sorted(set(self._header) - self._used)
        if left:
            raise WeightsError(f"{self._path}: the model has no place for {', '.join(left)}")
