"""Scans along one dimension: sequential within a row, rows side by side; pointwise neighbours on both sides fuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from .. import graph
from ..dtypes import compute_name
from ..values import Scalar
from .pointwise import refuse_complex_product, refuse_dtypes
from .table import Coords, Kind, Row, Scope, register


def _scanned_dim(node: Node) -> tuple[tuple[int, ...], bool]:
    rank = graph.value_of(node.args[0]).dim()
    return ((graph.arguments(node)["dim"] % rank,) if rank else ()), True


_WIDER = {torch.float32: "float64", torch.complex64: "complex128"}


def _accumulating(fn: str) -> Callable[[Scope, Node, Coords], Scalar]:
    """Sums, products and the like run in float64 for float32, as ATen's do on the CPU."""

    def lower(scope: Scope, node: Node, coords: Coords) -> Scalar:
        result = compute_name(graph.dtype(node))
        value = scope.read(node.args[0], scope.reduced(node, coords)).to(result)
        wide = _WIDER.get(graph.dtype(node), result)
        return scope.scan(fn, value.to(wide)).to(result)

    return lower


def _extreme(fn: str) -> Callable[[Scope, Node, Coords], tuple[Scalar, Scalar]]:
    def lower(scope: Scope, node: Node, coords: Coords) -> tuple[Scalar, Scalar]:
        value = scope.read(node.args[0], scope.reduced(node, coords))
        return scope.scan(fn, value), scope.scan(f"arg{fn}", value)

    return lower


def scan(
    names: str, lower: Callable[[Scope, Node, Coords], Any], refuse: Callable[[Node], str | None] = lambda node: None
) -> None:
    """Rows for the space-separated op ``names``."""

    def refuse_all(node: Node) -> str | None:
        return refuse_dtypes(node) or refuse(node)

    register(names.split(), Row(Kind.SCAN, lower, dims=_scanned_dim, refuse=refuse_all, cost=2))


scan("aten.cumsum.default", _accumulating("sum"))
scan("aten.cumprod.default", _accumulating("prod"), refuse_complex_product)
scan("aten.logcumsumexp.default aten._logcumsumexp.default", _accumulating("logaddexp"), refuse_complex_product)
scan("aten.cummax.default", _extreme("max"))
scan("aten.cummin.default", _extreme("min"))
