"""What stands for a graph's inputs outside the process that had them: recipes for tensors like them, and sizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.fx import Graph, Node

from lowering.index import Atom, Axis, Index, Loaded, Quotient, Remainder, Symbol

Sizes = Mapping[str, int]
"""What size symbols were, or may have been, by name."""


class NotMadeError(Exception):
    """A value that no recipe makes. The text says why."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A tensor to make: layout as torch counts it, in elements, and for its numbers what was seen of them (``seen``),
    as arguments of `replay.tensor`."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    seen: tuple[tuple[str, float | int], ...] = ()

    def __str__(self) -> str:
        seen = "".join(f", {name}={_literal(value)}" for name, value in self.seen)
        return f"replay.tensor({self.shape}, {self.stride}, {self.dtype}{seen})"

    @property
    def bytes(self) -> int:
        """Of the elements, each counted once."""
        return math.prod(self.shape) * self.dtype.itemsize


def _literal(value: float | int) -> str:
    return repr(value) if isinstance(value, int) else f"{value:.6g}"


def fake_value(node: Node) -> Any:
    """The fake tensor or symbolic number behind ``node``, as AOTAutograd or as Dynamo notes it."""
    return node.meta.get("val", node.meta.get("example_value"))


def sizes_of(graph: Graph) -> dict[str, int]:
    """Size symbols of ``graph`` with the numbers that tracing saw; those that data decides are taken to be 2."""
    found: dict[str, int] = {}
    for node in graph.nodes:
        for value in _numbers(fake_value(node)):
            if not isinstance(value, torch.SymInt):
                continue
            known = value.node.shape_env.backed_var_to_val
            for symbol in value.node.expr.free_symbols:
                found[str(symbol)] = int(known.get(symbol, 2))
    return found


def _numbers(value: Any) -> Iterable[Any]:
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided:
            yield from (*value.shape, *value.stride())
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _numbers(item)
    else:
        yield value


def learn(sizes: dict[str, int], fake: Any, real: Any) -> None:
    """Note in ``sizes`` what the symbols of ``fake`` turn out to be in ``real``."""
    pairs: list[tuple[Any, Any]] = [(fake, real)]
    if isinstance(fake, torch.Tensor) and isinstance(real, torch.Tensor) and real.layout is torch.strided:
        pairs = list(zip(fake.shape, real.shape, strict=False))
    for symbolic, found in pairs:
        if isinstance(symbolic, torch.SymInt) and isinstance(found, int) and symbolic.node.expr.is_Symbol:
            sizes[str(symbolic.node.expr)] = found


def concrete(value: int | torch.SymInt, sizes: Sizes) -> int:
    """A symbolic number with ``sizes`` put in."""
    if not isinstance(value, torch.SymInt):
        return int(value)
    expr = value.node.expr
    return int(expr.subs({s: sizes.get(str(s), 2) for s in expr.free_symbols}))


def number(ix: Index, sizes: Sizes) -> int:
    """An index over size symbols with ``sizes`` put in."""
    return sum(c * math.prod(_atom(a, sizes) for a in monomial) for monomial, c in ix.terms.items())


def _atom(a: Atom, sizes: Sizes) -> int:
    if isinstance(a, Quotient):
        return number(a.num, sizes) // number(a.den, sizes)
    if isinstance(a, Remainder):
        return number(a.num, sizes) % number(a.den, sizes)
    assert not isinstance(a, (Axis, Loaded))
    return symbol_value(a, sizes)


def symbol_value(symbol: Symbol, sizes: Sizes) -> int:
    """One size symbol, or what the host computes from several."""
    if symbol.text is None:
        return sizes[symbol.name]
    return int(eval(symbol.text, {"math": math, "torch": torch}, dict(sizes)))


def recipe(value: Any, sizes: Sizes) -> Recipe:
    """How to make a tensor laid out as the fake or real tensor ``value`` is; NotMadeError where that is no plain CPU
    tensor."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_quantized:
        raise NotMadeError(f"a {type(value).__name__} is no dense tensor")
    if value.device.type != "cpu":
        raise NotMadeError(f"a tensor on {value.device} is not made")
    shape = tuple(concrete(s, sizes) for s in value.shape)
    stride = tuple(concrete(s, sizes) for s in value.stride())
    return Recipe(shape, stride, value.dtype)


def seen(value: torch.Tensor) -> Recipe:
    """A recipe for numbers like those in ``value``: of floats the finite ones' mean, deviation and range; of integers
    the range; of bools the share that is true."""
    plain = recipe(value, {})
    if value.numel() == 0 or value.dtype.is_complex:
        return plain
    facts: dict[str, float | int] = {}
    if value.dtype is torch.bool:
        facts = {"mean": value.double().mean().item()}
    elif value.dtype.is_floating_point:
        finite = value.double()
        finite = finite[torch.isfinite(finite)]
        if finite.numel():
            facts = {"mean": finite.mean().item(), "std": finite.std(correction=0).item()}
            facts |= {"low": finite.min().item(), "high": finite.max().item()}
    else:
        facts = {"low": int(value.min()), "high": int(value.max())}
    return dataclasses.replace(plain, seen=tuple(facts.items()))
