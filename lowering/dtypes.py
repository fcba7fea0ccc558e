"""Data types: how a torch dtype is stored in memory and what a group computes with."""

from __future__ import annotations

import ctypes
import math
import struct

import torch

_FLOATS = {torch.float64: "float64", torch.float32: "float32"}
_HALVES = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
_INTEGERS = {
    torch.int8: "int8", torch.int16: "int16", torch.int32: "int32", torch.int64: "int64",
    torch.uint8: "uint8", torch.uint16: "uint16", torch.uint32: "uint32", torch.uint64: "uint64",
}  # fmt: skip
_COMPLEX = {torch.complex64: "complex64", torch.complex128: "complex128"}
NAMES: dict[torch.dtype, str] = {**_FLOATS, **_HALVES, **_INTEGERS, torch.bool: "bool"}
"""Every real dtype that kernels take, by its name in the group IR."""

TORCH: dict[str, torch.dtype] = {name: dtype for dtype, name in NAMES.items()}


def is_lowered(dtype: torch.dtype) -> bool:
    """Whether kernels can read and write ``dtype``."""
    return dtype in NAMES or dtype in _COMPLEX


def compute_name(dtype: torch.dtype) -> str:
    """The type in which formulas compute values of ``dtype``: half types in float32, all others in themselves. Complex
    ones become pairs of real values (see values.Pair) before they are group IR."""
    return "float32" if dtype in _HALVES else _COMPLEX.get(dtype) or NAMES[dtype]


def part_name(name: str) -> str:
    """The real type of either part of the complex type ``name``; a real type is its own."""
    return {"complex64": "float32", "complex128": "float64"}.get(name, name)


def is_complex(name: str) -> bool:
    """Whether ``name`` is a complex type of formulas."""
    return name in _COMPLEX.values()


def element(dtype: torch.dtype) -> tuple[str, int]:
    """The real type that an element of ``dtype`` is made of in memory, and how many of them."""
    return (part_name(_COMPLEX[dtype]), 2) if dtype in _COMPLEX else (NAMES[dtype], 1)


def storage_name(name: str) -> str:
    """The element type of the kernel's pointer: half types travel as their bits, bool as a byte."""
    return {"bfloat16": "uint16", "float16": "uint16", "bool": "uint8"}.get(name, name)


def is_float(name: str) -> bool:
    """Whether ``name`` is a floating point type of the group IR."""
    return name in ("float64", "float32", "bfloat16", "float16")


def is_unsigned(name: str) -> bool:
    """Whether ``name`` is an unsigned integer type (bool is not)."""
    return name.startswith("uint")


def rounded(value: float, name: str) -> float:
    """``value`` as the floating point type ``name`` holds it: to the nearest, ties to even."""
    if name == "float64" or not math.isfinite(value):
        return value
    single = ctypes.c_float(value).value
    if name == "float32" or not math.isfinite(single):
        return single
    if name == "float16":
        try:
            return float(struct.unpack("e", struct.pack("e", single))[0])
        except OverflowError:
            return math.copysign(math.inf, single)
    bits = struct.unpack("I", struct.pack("f", single))[0]
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return float(struct.unpack("f", struct.pack("I", bits))[0])
