"""Plans that have each group checked: the usual plan, with a call before and one after each group."""

from __future__ import annotations

from collections.abc import Mapping

from aten_backend.numerics.check import NumericsCheck
from aten_backend.numerics.locate import Relower
from lowering.assemble import Kernel
from lowering.partition import Group, Partition
from runtime.plan import Planner


def checked(planner: type[Planner], relower: Relower) -> type[Planner]:
    """``planner``, writing plans whose groups are checked as they run (see check.NumericsCheck)."""

    class Checked(planner):  # type: ignore[valid-type, misc]
        """The usual lines, and those of the check."""

        def __init__(self, partition: Partition, kernels: Mapping[Group, tuple[Kernel, ...]]) -> None:
            super().__init__(partition, kernels)
            self._check = NumericsCheck(partition, kernels, relower)

        def _group(self, group: Group) -> None:
            if not group.stored:
                return super()._group(group)
            check, number = self._constant(self._check), self._check.add(group)
            if number == 0:
                self.lines.append(f"scratch0_run = {check}.start()")
            given = "".join(f"{self._node(n)}, " for n in self._check.reads(group))
            self._wait()
            self.lines.append(f"scratch{number}_given = {check}.before(scratch0_run, {number}, ({given}))")
            super()._group(group)
            results = "".join(f"{self._name(n)}, " for n in group.stored)
            self._wait()
            self.lines.append(f"{check}.after(scratch0_run, {number}, scratch{number}_given, ({results}))")
            self.lines.append(f"del scratch{number}_given")

    return Checked
