"""The observer that writes every artefact of a compile as soon as there is one."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from aten_backend.dump import buffers, page, scripts
from aten_backend.dump.environment import device_text, environment, options_text
from aten_backend.dump.first_call import First, look
from aten_backend.dump.sinks import KEPT, PAGE, Folder, Sink, Trace
from aten_backend.dump.story import Follower, Story, timings
from aten_backend.dump.text import readable
from aten_backend.options import Options
from lowering.partition import Group
from runtime.cache import CompiledKernel
from runtime.disassemble import disassemble
from runtime.executor import CompiledGraph, Run
from runtime.profile import Meter

SAVED = "inputs.pt"
"""Where the scripts find tensors of the first call."""

MEASURED = 3
"""Runs of a graph that are measured, so that the page shows one without the first one's costs."""

FILES = {
    "classify": "04_classify.txt",
    "partition": "05_partition.txt",
    "build": "06_group_ir.txt",
    "split": "07_split.txt",
    "schedule": "08_schedule.txt",
    "chain": "08_launches.txt",
    "tune": "08_tuned.txt",
    "emit": "09_kernels.txt",
    "plan": "10_plan.py",
}
"""Stages whose artefact is written as it prints."""


class Dump(Follower):
    """The Follower that writes all it is shown to ``sinks``."""

    def __init__(self, options: Options, sinks: Sequence[Sink]) -> None:
        super().__init__()
        self._options, self._sinks = options, sinks
        self.files: dict[str, None] = {}
        """What was written for the graph under way."""

    @classmethod
    def wanted(cls, options: Options) -> Dump | None:
        """A dump where the user named a folder or somebody reads torch's trace, else None."""
        sinks: list[Sink] = [Folder(options.dump_dir)] if options.dump_dir is not None else []
        if Trace.active():
            sinks.append(Trace())
        return cls(options, sinks) if sinks else None

    def __call__(self, stage: str, artefact: Any, seconds: float) -> None:
        """A stage is done: write what it made."""
        super().__call__(stage, artefact, seconds)
        if self.story.kind:
            self._write(stage, artefact)

    def failed(self, stage: str, error: Exception, seconds: float) -> None:
        """A stage raised: what there is stays, and says so."""
        super().failed(stage, error, seconds)
        if self.story.kind:
            text = traceback.format_exception_only(error)
            self._put(f"FAILED_{stage}.txt", f"# the stage {stage} failed\n{''.join(text)}")
            self._put_end()

    def begun(self) -> None:
        """A graph begins: a folder of its own."""
        self.files = {}
        for sink in self._sinks:
            sink.open(self.story.kind)
        self._put_setting()
        self._put_graphs()

    def again(self) -> None:
        """Keep what there is of the attempt before apart."""
        for sink in self._sinks:
            sink.set_aside(self.story.attempt)
        moved = f"attempt{self.story.attempt}/"
        self.files = {n if n.startswith(KEPT) else f"{moved}{n}": None for n in self.files}
        self._put_setting()

    def _put_setting(self) -> None:
        self._put("14_options.txt", options_text(self._options))
        self._put("14_environment.txt", environment())

    def _put(self, name: str, content: str | bytes) -> None:
        self.files[name] = None
        for sink in self._sinks:
            sink.put(name, content)

    def _put_end(self) -> None:
        """What is written when a compile has ended, one way or the other."""
        self._put("12_timings.txt", timings(self.story.events))
        self._put_page()

    def _put_page(self) -> None:
        files = [name for name in self.files if name != PAGE]
        self._put(PAGE, page.render(self.story, self._names(), files))
        for sink in self._sinks:
            if isinstance(sink, Folder):
                (sink.root / "index.html").write_text(page.contents(sink.root), encoding="utf-8")

    # ---- what each stage leaves
    # -------------------------------------------------------------------------------------------

    def _write(self, stage: str, artefact: Any) -> None:
        if stage == "passes":
            self._put_script("03_passes.py", "The graph after the passes", artefact)
        elif stage == "compile":
            self._put_binaries(artefact)
        elif stage in FILES:
            self._put(FILES[stage], f"# {stage}\n{readable(artefact)}\n")
        if stage == "emit":
            self._put_kernels()
        if stage == "link":
            self._put("13_link.txt", f"# link\n{artefact}\n{device_text(artefact.device)}")
            self._put_end()
        if stage == "plan":
            self._put("11_buffers.txt", buffers.render(buffers.lives(artefact.text, self.story.sizes)))

    def _put_graphs(self) -> None:
        story = self.story
        graphs = {
            "00_dynamo.py": ("The graph as Dynamo captured it", story.dynamo),
            "01_joint.py": ("The joint graph, forward and backward, decomposed", story.joint),
            f"02_{story.kind}.py": (f"The {story.kind} graph, decomposed", story.made[story.kind]),
        }
        for name, (title, gm) in graphs.items():
            if gm is not None:
                self._put_script(name, title, gm)

    def _put_script(self, name: str, title: str, gm: GraphModule) -> None:
        story = self.story
        self._put(name, scripts.graph_script(name, title, gm, self._options, story.sizes, story.seen))

    def _names(self) -> dict[Group, str]:
        """The script of each group; groups with the same kernels share one."""
        names: dict[tuple[str, ...], str] = {}
        found = {}
        for groups, kernels in self.story.units:
            key = tuple(k.source.name for k in kernels)
            name = names.setdefault(key, f"kernels/{len(names):03d}_{key[0]}.py")
            found.update(dict.fromkeys(groups, name))
        return found

    def _put_kernels(self) -> None:
        story, names, written = self.story, self._names(), set[str]()
        assert story.cut is not None
        for groups, kernels in story.units:
            name = names[groups[0]]
            if name not in written:
                written.add(name)
                self._put(name, scripts.group_script(name, story.cut, groups, kernels, story.sizes, story.seen))

    def _put_binaries(self, binaries: Mapping[str, CompiledKernel]) -> None:
        for name, binary in binaries.items():
            self._put(f"binaries/{name}.ll", binary.llvm)
            self._put(f"binaries/{name}.spv", binary.spirv)
            if text := disassemble(binary.spirv):
                self._put(f"binaries/{name}.spvasm", text)

    # ---- what runs show
    # ---------------------------------------------------------------------------------------------------

    def watch(self, graph: CompiledGraph) -> Run:
        """What to call in the place of ``graph.run``: the first runs are looked at and measured, later ones are
        ``graph.run``. That itself where the dump goes to no folder."""
        folder = next((sink for sink in self._sinks if isinstance(sink, Folder)), None)
        return graph.run if folder is None else _Watch(self, graph)

    def learned(self, first: First) -> None:
        """The first call has shown numbers: write the scripts again with inputs like them."""
        story = self.story
        story.sizes.update(first.sizes)
        story.seen.update(first.seen)
        _pass_on(story)
        for sink in self._sinks:
            if isinstance(sink, Folder):
                torch.save(first.saved, sink.graph / SAVED)
                self.files[SAVED] = None
        self._put_graphs()
        self._put_script("03_passes.py", "The graph after the passes", story.made["passes"])
        self._put_kernels()

    def measured(self, meter: Meter) -> None:
        """A run was measured."""
        story = self.story
        story.spans, story.runs = tuple(meter.runs[-1]), len(meter.runs)
        self._put_page()


def _pass_on(story: Story) -> None:
    """Dynamo's inputs are those of the graph under other names, where there are as many and they look alike."""
    if story.dynamo is None or story.kind == "backward":
        return
    theirs, ours = (
        [n.name for n in gm.graph.nodes if n.op == "placeholder"] for gm in (story.dynamo, story.made[story.kind])
    )
    if len(theirs) == len(ours):
        story.seen.update({t: story.seen[o] for t, o in zip(theirs, ours, strict=True) if o in story.seen})


class _Watch:
    """Stands in for a graph until enough of its runs were looked at."""

    def __init__(self, dump: Dump, graph: CompiledGraph) -> None:
        self._dump, self._graph = dump, graph
        self._story, self._files = dump.story, dump.files
        self._sinks = [(s, s.graph) for s in dump._sinks if isinstance(s, Folder)]
        self._meter: Meter | None = Meter(graph)
        self._lock = threading.Lock()
        self._boxed_call = True

    def __call__(self, inputs: list[Any]) -> tuple[Any, ...]:
        if self._meter is None:
            return self._graph.run(inputs)
        with self._lock:
            return self._measure(inputs)

    def _measure(self, inputs: list[Any]) -> tuple[Any, ...]:
        meter = self._meter
        if meter is None:
            return self._graph.run(inputs)
        for sink, folder in self._sinks:
            sink.graph = folder
        self._dump.story, self._dump.files = self._story, self._files
        if not meter.runs:
            cut = self._story.cut
            assert cut is not None
            self._dump.learned(look(cut.gm, inputs))
        results = meter(inputs)
        self._dump.measured(meter)
        if len(meter.runs) == MEASURED:
            self._meter = None
        return results
