"""A compiled graph as steps, kernels and calls of ATen, and how its generated Python is made to time them."""

from __future__ import annotations

import ast
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

KERNEL, ATEN, WAIT = "kernel", "aten", "wait"


@dataclasses.dataclass(frozen=True)
class Step:
    """A kernel launch or a call of ATen. ``nodes`` are those of the captured graph that it computes."""

    key: str
    kind: str
    name: str
    nodes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Built:
    """A captured graph, compiled. Both callables take a list, which they empty.

    ``timed`` does the same as ``run`` and adds the seconds of each step, by its key, to ``clock``. ``alone`` has the
    same for each kernel by itself where kernels run side by side with the host, and is ``timed`` elsewhere.
    """

    run: Callable[[list[Any]], Any]
    timed: Callable[[list[Any]], Any] | None = None
    alone: Callable[[list[Any]], Any] | None = None
    clock: Clock | None = None
    steps: tuple[Step, ...] = ()
    codes: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Clock:
    """Seconds by key. Generated code calls ``start`` and ``stop``."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started = 0.0

    def start(self) -> None:
        self._started = time.perf_counter()

    def stop(self, key: str) -> None:
        self.seconds[key] = self.seconds.get(key, 0.0) + time.perf_counter() - self._started


def clocked(definition: ast.FunctionDef, keys: Mapping[int, str], extra: Sequence[str] = ()) -> str:
    """The text of ``call``: ``definition`` with a clock around the statements of its body whose numbers are in
    ``keys``. ``extra`` is timed with each of them, behind it. The global ``_clock`` is a Clock."""
    body: list[ast.stmt] = []
    for number, statement in enumerate(definition.body):
        if number not in keys:
            body.append(statement)
            continue
        body += ast.parse("_clock.start()").body
        body += [statement, *(part for text in extra for part in ast.parse(text).body)]
        body += ast.parse(f"_clock.stop({keys[number]!r})").body
    arguments = ast.parse("def call(): pass").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    arguments.args, arguments.body = definition.args, body
    return ast.unparse(ast.fix_missing_locations(ast.Module([arguments], []))) + "\n"


def timed(
    definition: ast.FunctionDef,
    scope: Mapping[str, Any],
    keys: Mapping[int, str],
    clock: Clock,
    extra: Sequence[str] = (),
) -> Callable[..., Any]:
    """What ``clocked`` makes, with the globals of ``scope``, which is not changed."""
    names = {**scope, "_clock": clock}
    exec(compile(clocked(definition, keys, extra), "<timed graph>", "exec"), names)
    call: Callable[..., Any] = names["call"]
    return call
