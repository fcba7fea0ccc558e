"""The search: which graph, which group, the least part of it, and then which step, op or option is to blame."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aten_backend.bisect.minimise import Part, minimise
from aten_backend.bisect.prober import DiedError, Prober
from aten_backend.bisect.trial import Outcome, Symptom
from aten_backend.options import Options
from aten_backend.switches import SWITCHES


@dataclasses.dataclass(frozen=True)
class Culprit:
    """What is to blame: a ``kind`` of "step", "op", "option", "decompositions" or "unknown", its ``name``, and the
    ``options`` with which the fault is gone."""

    kind: str
    name: str
    options: Mapping[str, Any]
    confirmed: bool

    def __str__(self) -> str:
        text = f"{self.kind} {self.name}"
        if not self.options:
            return text
        given = ", ".join(f"{k}={v!r}" for k, v in self.options.items())
        whole = "" if self.confirmed else ", though not in the whole graph: there may be a second fault"
        return f"{text}: with {given} all is right{whole}"


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was found. ``graph`` is its number and label, ``group`` its number among ``groups`` and its ops (None where
    no group is to blame), ``ops`` the least calls that show it. ``reproduces`` says whether ``script`` does."""

    symptom: Symptom
    detail: str
    graph: str
    group: tuple[int, tuple[str, ...]] | None
    groups: int
    culprit: Culprit
    ops: tuple[str, ...]
    script: str | None
    reproduces: bool
    trials: int


class Search:
    """One search. ``folder`` is where the script goes."""

    def __init__(self, prober: Prober, folder: Path) -> None:
        self.prober, self.folder = prober, folder
        self.graph = 0
        self.first = Outcome(Symptom.RIGHT)
        self._known: dict[Part, bool] = {}
        self._calls: list[dict[str, Any]] = []

    def run(self) -> Finding | None:
        """The fault of the first graph that has one; None where there is none."""
        graphs = self.prober.ask("hello")
        for number, graph in enumerate(graphs):
            self.graph, self._calls = number, graph["calls"]
            self.first = self._attempt(f"graph {number} ({graph['label']})")
            if self.first.symptom is not Symptom.RIGHT:
                return self._explain(f"graph {number} ({graph['label']})")
        far = self.prober.ask("decompositions")
        if far is None:
            return None
        culprit = Culprit("decompositions", "", {}, True)
        detail = f"the decomposed graphs, run by ATen, are {far:.1e} from the program"
        return Finding(Symptom.WRONG, detail, "all", None, 0, culprit, (), None, False, self.prober.trials)

    # ---- trials ------------------------------------------------------------------------------------------------------

    def _attempt(self, what: str, part: Part | None = None, made: bool = False, **options: Any) -> Outcome:
        request: dict[str, Any] = {"graph": self.graph, "options": options, "made": made}
        if part is not None:
            request |= {"inside": part.inside, "results": part.results}
        return self.prober.attempt(what, **request)

    def _bad(self, what: str, part: Part | None = None, made: bool = False, **options: Any) -> bool:
        """Whether the fault is there."""
        return self.first.like(self._attempt(what, part, made, **options))

    def _shows(self, part: Part) -> bool:
        if part not in self._known:
            self._known[part] = self._bad(f"{len(part.inside)} of {len(self._calls)} calls", part)
        return self._known[part]

    def _readers(self, names: Sequence[str]) -> tuple[str, ...]:
        inside = set(names)
        return tuple(
            c["name"]
            for c in self._calls
            if c["name"] in inside and c["tensor"] and not (c["users"] and inside.issuperset(c["users"]))
        )

    # ---- from the graph to the culprit -------------------------------------------------------------------------------

    def _explain(self, label: str) -> Finding:
        group, groups, start = self._group()
        part = minimise(start, self._shows, self._readers, {c["name"] for c in self._calls if c["tensor"]})
        culprit = self._culprit(part)
        ops = tuple(self.prober.ask("ops", graph=self.graph, inside=part.inside, results=part.results))
        script, reproduces = self._script(part, culprit)
        return Finding(
            self.first.symptom, self.first.detail, label, group, groups, culprit, ops, script, reproduces,
            self.prober.trials,
        )  # fmt: skip

    def _group(self) -> tuple[tuple[int, tuple[str, ...]] | None, int, Part]:
        """The first group with which the fault appears, how many there are, and the part to begin with: that group
        where it shows the fault by itself, else the whole graph."""
        calls = tuple(c["name"] for c in self._calls)
        everything = Part(calls, self._readers(calls))
        try:
            groups = self.prober.ask("groups", graph=self.graph)
        except DiedError:  # lowering the graph is what fails, or kills the child
            return None, 0, everything
        if self._bad("no group at all", fusion_fuel=0):
            return None, len(groups), everything
        good, bad = 0, len(groups)
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._bad(f"{middle} of {len(groups)} groups", fusion_fuel=middle):
                bad = middle
            else:
                good = middle
        found = groups[bad - 1]
        alone = Part(tuple(found["nodes"]), tuple(found["results"]))
        shown = bool(alone.results) and self._shows(alone)
        return (bad - 1, tuple(found["ops"])), len(groups), alone if shown else everything

    def _culprit(self, part: Part) -> Culprit:
        """The first thing that, switched off, takes the fault away: an option of the user's, a step, an op."""
        ops = dict.fromkeys(self.prober.ask("ops", graph=self.graph, inside=part.inside, results=part.results))
        suspects = [*self._own_options(), *_steps()]
        plainest = {k: v for _, _, options in suspects for k, v in options.items()} | {"disable_passes": list(SWITCHES)}
        if self._bad("without any of the steps and options", part, **plainest):
            suspects = []  # none of them is to blame
        for kind, name, options in (*suspects, *_disabled(list(ops))):
            if not self._bad(f"without {name}", part, **options):
                confirmed = self._attempt(f"the whole graph without {name}", **options).symptom is Symptom.RIGHT
                return Culprit(kind, name, options, confirmed)
        return Culprit("unknown", "part: it stays whatever is switched off", {}, False)

    def _own_options(self) -> list[tuple[str, str, dict[str, Any]]]:
        defaults = Options()
        names = [n for n in self.prober.setting.options if n not in ("verify", "dump_dir", "device")]
        return [("option", n, {n: getattr(defaults, n)}) for n in names] + [("option", "cache", {"cache": False})]

    # ---- the script --------------------------------------------------------------------------------------------------

    def _script(self, part: Part, culprit: Culprit) -> tuple[str | None, bool]:
        """Where the script is, and whether it shows the fault when run by itself."""
        path = self.folder / "fault.py"
        self.folder.mkdir(parents=True, exist_ok=True)
        title = f"{self.first.symptom.value}; to blame: {culprit.kind} {culprit.name}".strip()
        made = self._bad("made-up inputs", part, made=True)
        for made_up in (True, False) if made else (False,):
            self.prober.ask(
                "write", graph=self.graph, inside=part.inside, results=part.results, path=str(path), title=title,
                made=made_up, options={"fallback": "error"} if self.first.symptom is Symptom.COMPILE else {},
            )  # fmt: skip
            self.prober.tell("running the script")
            if self._fails(path):
                return str(path), True
        return str(path), False

    def _fails(self, path: Path) -> bool:
        """Whether the script fails, or hangs: it starts and traces as the child did, then it is a trial."""
        limit = self.prober.setting.timeout + 2 * self.prober.start_seconds
        try:
            ended = subprocess.run([sys.executable, path], capture_output=True, check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            return self.first.symptom is Symptom.HANG
        return ended.returncode != 0


def _steps() -> list[tuple[str, str, dict[str, Any]]]:
    return [("step", name, {"disable_passes": [name]}) for name in SWITCHES]


def _disabled(ops: Sequence[str]) -> list[tuple[str, str, dict[str, Any]]]:
    """Each op by itself; functions of Python's own, such as getitem, are none."""
    return [("op", op, {"disable_ops": [op]}) for op in ops if op.count(".") == 2]
