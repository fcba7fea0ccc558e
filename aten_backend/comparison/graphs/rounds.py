"""The graphs of a workload: each compiler in the process of its backend, in rounds that take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from aten_backend.comparison.backends import Backend
from aten_backend.comparison.graphs.measure import takes_graphs
from aten_backend.comparison.lane import START, Lane
from aten_backend.comparison.places import Place, ProcessEndedError
from aten_backend.comparison.records import GraphRow, Row
from aten_backend.comparison.timing import interleave
from aten_backend.comparison.workloads import Workload


def measure(
    workload: Workload,
    places: Sequence[tuple[Backend, Place]],
    rounds: int,
    seconds: float,
    folder: Path,
    tell: Callable[[str], None],
) -> tuple[list[Row], list[GraphRow]]:
    """A row for each compiler that can be given graphs, of the program whose graphs they are, and one for each graph.

    ``rounds`` of zero times nothing. ``tell`` is told what is being done.
    """
    lanes = [Lane(workload, backend, place) for backend, place in places if takes_graphs(backend)]
    backends = [lane.backend for lane in lanes]
    for lane in lanes:
        tell(f"graphs, {lane.backend.name}")
        lane.start(folder / START)
        lane.ask("trace", workload, backends, folder / lane.backend.name.replace(":", "_"))
    if rounds:
        tell("timing graphs")
        interleave([lane for lane in lanes if lane.usable], rounds, seconds)
        for lane in lanes:
            lane.ask("weigh")
    found = {lane.backend.name: _rows(lane) for lane in lanes}
    others = strangers(found)
    for lane in lanes:
        lane.end()
        lane.row.error = lane.row.error or others.get(lane.backend.name, "")
    graphs = [row for rows in found.values() for row in rows]
    order = list(dict.fromkeys(row.graph for row in graphs))
    return [lane.row for lane in lanes], sorted(graphs, key=lambda row: order.index(row.graph))


def _rows(lane: Lane) -> list[GraphRow]:
    """Of the lane's graphs, or one with its error."""
    if lane.usable:
        try:
            found: list[GraphRow] = lane.place.ask("graph_rows")
            return found
        except ProcessEndedError as error:
            lane.row.error = str(error)
    return [GraphRow(lane.row.suite, lane.row.workload, "all", lane.backend.name, lane.row.error)]


def strangers(found: Mapping[str, list[GraphRow]]) -> dict[str, str]:
    """Errors of compilers whose process has traced other graphs than the first one's, by name.

    Their rows in ``found`` keep that error alone: what was measured of other graphs is beside nothing.
    """
    first, expected = "", dict[str, str]()
    errors = {}
    for name, rows in found.items():
        digests = {row.graph: row.digest for row in rows if row.digest}
        if not digests:  # nothing was traced, as its row says
            continue
        if not expected:
            first, expected = name, digests
        differing = sorted(name for name, _ in expected.items() ^ digests.items())
        if differing:
            errors[name] = f"the trace differs from that of {first} in graph {', '.join(dict.fromkeys(differing))}"
            rows[:] = [GraphRow(row.suite, row.workload, row.graph, name, errors[name], row.nodes, digest=row.digest)
                       for row in rows]  # fmt: skip
    return errors
