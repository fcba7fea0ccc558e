"""Scripts that run one graph or one group's kernels alone, and compare with ATen."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from aten_backend.dump.extract import NotRunnableError, constant, group_function, signature, whole
from aten_backend.dump.values import NotMadeError, Recipe, Sizes, fake_value, number, recipe, symbol_value
from aten_backend.options import Options
from lowering.assemble import Kernel
from lowering.classify import op_name
from lowering.dtypes import TORCH
from lowering.errors import user_line
from lowering.graph import destination, is_getitem
from lowering.partition import Group, Partition

Seen = Mapping[str, Any]
"""What the first call showed of nodes, by name: recipes of tensors, and plain numbers."""

_HEADER = '''"""{title}

{about}

    python {file}
"""

import torch
{imports}
from aten_backend.dump import replay
from aten_backend.dump.replay import lazily


'''


def graph_script(file: str, title: str, gm: GraphModule, options: Options, sizes: Sizes, seen: Seen) -> str:
    """The graph of ATen calls, or of Dynamo's (whose nodes have no "val"), as a script. Where it cannot be one, the
    readable text with the reason."""
    dynamo = not any("val" in n.meta for n in gm.graph.nodes)
    try:
        function = whole(gm, "graph")
        made = _inputs(gm, function.inputs, sizes, seen)
    except (NotRunnableError, NotMadeError) as error:
        return f"# {title}: not to be run alone, as {error}.\n{gm.print_readable(print_output=False)}\n"
    about = "Compiles the function below with xpu_aten, runs it and eager on the same inputs, and compares."
    code = {k: v for k, v in options.affects_code() if v != getattr(Options(), k)}
    call = f"replay.{'dynamo' if dynamo else 'aten'}_graph(graph, replay.inputs(__file__, INPUTS), OPTIONS)"
    return (
        _HEADER.format(title=title, about=about, file=file, imports="\n".join(function.imports))
        + f"{function.text}\n\n\n{made}\n\nOPTIONS = {code!r}\n"
        + _main(call)
    )


def _main(call: str) -> str:
    return f'\nif __name__ == "__main__":\n    replay.main(lambda: {call})\n'


def _inputs(gm: GraphModule, nodes: Mapping[str, Node], sizes: Sizes, seen: Seen) -> str:
    """The table INPUTS."""
    lines = [f"    {name!r}: {_input(gm, node, sizes, seen)}," for name, node in nodes.items()]
    return "\n".join(["INPUTS = {", *lines, "}"])


def _input(gm: GraphModule, node: Node, sizes: Sizes, seen: Seen) -> str:
    value = constant(gm, node) if node.op == "get_attr" else fake_value(node)
    found = seen.get(node.name)
    if isinstance(value, torch.Tensor):
        return lazily(found if isinstance(found, Recipe) else recipe(value, sizes))
    return f"lambda: {scalar(node, sizes, seen)!r}"


def lazily(made: Recipe) -> str:
    """A recipe as the script's tables have it: made when its turn comes."""
    return str(made).replace("replay.tensor(", "lazily(replay.tensor, ", 1)


def scalar(node: Node, sizes: Sizes, seen: Seen) -> Any:
    """A number known on the host: as seen, else as tracing saw it, else one."""
    value, found = fake_value(node), seen.get(node.name)
    if isinstance(found, (int, float, bool)):
        return found
    if isinstance(value, torch.SymInt):
        return int(value.node.expr.subs({s: sizes.get(str(s), 2) for s in value.node.expr.free_symbols}))
    if isinstance(value, (torch.SymFloat, torch.SymBool)):
        return value.node.hint if value.node.has_hint() else 1.0
    return value


def annotated(kernel: Kernel, lines: Mapping[str, str]) -> str:
    """The kernel's text, each line with the nodes that it was written for and the user's line; ``lines`` has those by
    node."""
    text = kernel.source.text.splitlines()
    width = min(max(map(len, text)), 76)
    result = []
    for line, origin in zip(text, kernel.origins, strict=True):
        places = dict.fromkeys(place for name in origin if (place := lines.get(name)))
        note = ", ".join(origin) + "".join(f" | {place}" for place in places)
        result.append(f"{line:<{width}}  # {note}" if note else line)
    return "\n".join(result)


def group_script(
    file: str, cut: Partition, groups: Sequence[Group], kernels: Sequence[Kernel], sizes: Sizes, seen: Seen
) -> str:
    """The kernels of ``groups`` and the ATen calls that they stand for, as a script."""
    ops = [n for group in groups for n in group.nodes if not is_getitem(n)]
    title = f"Kernel {kernels[0].source.name}: {', '.join(map(op_name, ops))}"
    places = dict.fromkeys(line for n in ops if (line := user_line(n)))
    named = {name for kernel in kernels for origin in kernel.origins for name in origin}
    lines = {n.name: pathlib.Path(user_line(n).split(": ")[0]).name for n in cut.gm.graph.nodes if n.name in named}
    texts = [annotated(kernel, lines) for kernel in kernels]
    try:
        return _group_script(file, title, places, texts, cut, groups, kernels, sizes, seen)
    except (NotRunnableError, NotMadeError) as error:
        return f"# {title}: not to be run alone, as {error}.\n\n" + "\n\n".join(texts) + "\n"


def _group_script(
    file: str,
    title: str,
    places: Mapping[str, None],
    texts: Sequence[str],
    cut: Partition,
    groups: Sequence[Group],
    kernels: Sequence[Kernel],
    sizes: Sizes,
    seen: Seen,
) -> str:
    function = group_function(cut, groups, "reference")
    nodes = {n.name: n for n in cut.gm.graph.nodes}
    inputs = dict(function.inputs)
    for buffer in (b for k in kernels for b in k.buffers if b.scratch is None and not b.written):
        if buffer.name not in function.results:
            inputs.setdefault(buffer.name, nodes[buffer.name])
    # a kernel may be given memory of which ATen needs the shape only, or nothing: the reference is given it as well
    text = signature("reference", inputs) + function.text.partition("):")[2]
    results = {n.name: recipe(fake_value(n), sizes) for group in groups for n in group.stored}
    scratch = {
        b.name: Recipe((number(b.scratch, sizes),), (1,), TORCH[b.dtype])
        for k in kernels
        for b in k.buffers
        if b.scratch is not None
    }
    launches = "\n".join(_launch(k, nodes, sizes, seen) for k in kernels)
    about = (
        "Compiles the kernel text below as it stands (change it and run it again), runs it beside the ATen calls that\n"
        "it stands for, and compares. The user's lines:\n\n" + "\n".join(f"    {place}" for place in places)
    )
    tables = "\n\n".join(_table(name, made) for name, made in (("RESULTS", results), ("SCRATCH", scratch)))
    targets = {n.name: target.name for g in groups for n in g.stored if (target := destination(n)) is not None}
    in_place = {name: target for name, target in targets.items() if target in inputs}
    call = f"replay.kernels(LAUNCHES, reference, replay.inputs(__file__, INPUTS), RESULTS, SCRATCH, {in_place})"
    header = _HEADER.format(title=title, about=about, file=file, imports="\n".join(function.imports))
    body = "\n\n\n".join([*dict.fromkeys(texts), text, _inputs(cut.gm, inputs, sizes, seen), tables])
    return f"{header}{body}\n\nLAUNCHES = [\n{launches}\n]\n{_main(call)}"


def _table(name: str, made: Mapping[str, Recipe]) -> str:
    return "\n".join([f"{name} = {{", *(f"    {key!r}: {lazily(value)}," for key, value in made.items()), "}"])


def _launch(kernel: Kernel, nodes: Mapping[str, Node], sizes: Sizes, seen: Seen) -> str:
    source = kernel.source
    params = tuple((p.name, p.kind, p.dtype, p.extent) for p in source.params)
    numbers: list[float] = [symbol_value(s, sizes) for s in kernel.symbols]
    numbers += [float(scalar(nodes[f], sizes, seen)) for f in kernel.floats]
    global_size = tuple(number(ix, sizes) for ix in kernel.global_size)
    buffers = tuple(b.name for b in kernel.buffers)
    return (
        f"    replay.Launch({source.name}, {params}, {source.local_size}, {global_size}, {buffers}, "
        f"{tuple(numbers)}, {tuple((code, dim, number(size, sizes)) for code, dim, size in kernel.checks)}),"
    )
