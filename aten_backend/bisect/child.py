"""The child process: traces the target, then answers requests, one JSON object a line, until its input ends. A fork
of it finds the answers, so that a trial that dies costs no second trace."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from aten_backend.bisect.capture import Subject, capture, decompositions_differ, part, whole
from aten_backend.bisect.fork import DeadError, Forked, Request
from aten_backend.bisect.script import made_inputs, write_script
from aten_backend.bisect.trial import attempt
from aten_backend.observe import StageRunner
from aten_backend.options import Options
from aten_backend.pipeline import lower, traits_of
from aten_backend.targets import TargetError, load_plugin, load_target
from lowering import graph
from lowering.classify import op_name
from lowering.pieces import computed_by, cone
from runtime import devices


class Session:
    """One target, traced."""

    def __init__(self, setting: Request) -> None:
        self.setting = setting
        self.options = Options.parse(None, {**setting["options"], "verify": "off"})
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)  # a fork of a process that has used OpenMP's threads cannot use them
        for plugin in setting["plugins"]:
            load_plugin(plugin)
        self.fn, self.args = load_target(setting["target"])
        self.graphs = capture(self.fn, self.args, self.options.ir, setting["dynamic"], setting["train"])
        self._whole = functools.cache(lambda number: whole(self.graphs[number]))

    def answer(self, request: Request) -> Any:
        """What the method named by ``do`` makes of the request."""
        if self.setting["slower_than"] is not None:  # numbers need one thread, and that is never waited for
            torch.set_num_threads(self._threads)
        method: Callable[[Request], Any] = getattr(self, request["do"])
        return method(request)

    def hello(self, request: Request) -> Any:
        """What there is: for each graph its label and its calls."""
        return [{"label": g.label, "calls": [_call(n) for n in g.calls()]} for g in self.graphs]

    def groups(self, request: Request) -> Any:
        """The groups of a graph in order: what they compute, all nodes that go into it, and what they store."""
        gm = self.graphs[request["graph"]].gm
        traits = traits_of(devices.resolve(self.options.device))
        cut = lower(gm, self._options(request), traits, StageRunner(()), {}).partition
        found = []
        for group in (g for g in cut.groups if g.stored):
            inside = computed_by(group.nodes, cut.classes)
            behind = {n.name for n in cone(group.stored, inside) if inside(n)}
            stored = {n.name for n in group.stored}
            nodes, results = _before_passes(gm, cut.gm, behind, stored)
            found.append({"ops": [op_name(n) for n in group.nodes], "nodes": nodes, "results": results})
        return found

    def attempt(self, request: Request) -> Any:
        """Compile and run a graph or a part of it."""
        subject = self._subject(request)
        if request.get("made"):
            subject = made_inputs(subject)
        outcome = attempt(subject, self._options(request), self.setting["slower_than"])
        return dataclasses.asdict(outcome)

    def ops(self, request: Request) -> Any:
        """The calls of a part of a graph, in order."""
        return [op_name(n) for n in self._subject(request).gm.graph.nodes if n.op == "call_function"]

    def decompositions(self, request: Request) -> Any:
        """How far the decomposed program is from eager, where that matters."""
        return decompositions_differ(self.fn, self.args, self.options.ir, self.setting["dynamic"])

    def write(self, request: Request) -> Any:
        """Write a part of a graph as a script; the number of its calls."""
        subject = self._subject(request)
        setting = {**self.setting, "options": {**self.setting["options"], **request["options"]}}
        return write_script(subject, request["path"], request["title"], request["made"], setting)

    def _subject(self, request: Request) -> Subject:
        number = request["graph"]
        if "inside" not in request:
            found: Subject = self._whole(number)
            return found
        return part(self.graphs[number], request["inside"], request["results"])

    def _options(self, request: Request) -> Options:
        """The user's options, changed: what is switched off comes on top of what already is."""
        changes: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in request.get("options", {}).items()
        }
        for name in changes.keys() & {"disable_ops", "disable_passes"}:
            changes[name] = changes[name] and tuple(sorted({*changes[name], *getattr(self.options, name)}))
        return dataclasses.replace(self.options, **changes)


def _before_passes(
    gm: GraphModule, after: GraphModule, nodes: set[str], results: set[str]
) -> tuple[list[str], list[str]]:
    """``nodes`` of a group of the graph ``after`` the passes, and what it stores, as nodes of the graph before: with
    what the passes took apart and the group reads, or stores a part of."""
    kept = {n.name for n in after.graph.nodes}
    gone = [n for n in gm.graph.nodes if n.op == "call_function" and n.name not in kept]
    own = nodes & {n.name for n in gm.graph.nodes}
    taken = {n.name for n in gone if any(u.name in own for u in n.users)} if nodes != own else set()
    order = [n.name for n in gm.graph.nodes if n.name in own | taken]
    return order, [n for n in order if n in results] or [n for n in order if n in taken]


def _call(node: Node) -> dict[str, Any]:
    """A call for the search: its name, who reads it, and whether it is a tensor and can be returned."""
    return {"name": node.name, "users": [u.name for u in node.users], "tensor": graph.is_tensor(node)}


def main() -> None:
    """Answer until nobody asks."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the target prints must not get between the answers

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    try:
        session = Session(json.loads(sys.stdin.readline()))
    except TargetError as error:
        answer({"unusable": str(error)})
        return
    answer({"ready": True})
    forked = Forked(session.answer, session.setting["timeout"])
    for line in sys.stdin:
        try:
            answer({"found": forked.ask(json.loads(line))})
        except DeadError as dead:
            answer({"died": dataclasses.asdict(dead.outcome)})
    forked.close()


if __name__ == "__main__":
    main()
