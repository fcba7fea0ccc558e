"""What Inductor's scheduler asks of this backend: what may be fused, and the kernels of what was."""

from __future__ import annotations

from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._inductor import ir as inductor_ir
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.scheduler import BaseSchedulerNode, WhyNoFuse
from torch._inductor.utils import get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from aten_backend.loop_level.kernel import GroupKernel
from aten_backend.loop_level.switch import device_traits

LOOPS = "loops_of_"
"""How names of fused nodes begin. The kernels that run their loops have names of their own."""


class Scheduling(SIMDScheduling):
    """One kernel a fused node, over its flat iteration space."""

    kernel_type = GroupKernel

    @classmethod
    def get_backend_features(cls, device: torch.device) -> OrderedSet[BackendFeature]:
        """What is built. Not there: atomics, sorting and bucketing (ATen does these), kernels over lists of tensors,
        and results in the memory of operands, as rows are read more than once."""
        return OrderedSet(
            [BackendFeature.SCAN, BackendFeature.TUPLE_REDUCTION, BackendFeature.REDUCE_TO_SINGLE_ELEMENT]
        )

    @classmethod
    def get_tiling_and_scores(
        cls, node_schedule: Any, numel: Any, reduction_numel: Any = sympy.S.One, coalesce_analysis: Any = None
    ) -> tuple[dict[str, sympy.Expr], None]:
        """No tiles: the group's axes are found from the nodes, the range's dimensions from the group's strides."""
        return cls.create_tiling([numel], [reduction_numel]), None

    def can_fuse(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """As the base class says, within what a kernel can hold."""
        why = WhyNoFuse(node1, node2)
        if _scatters(node1) or _scatters(node2):
            if node1.is_reduction() or node2.is_reduction():
                why("xpu_inductor: writes at data-dependent places go over their loops in another order")
                return False
            if _mutated(node1) & _touched(node2) or _mutated(node2) & _touched(node1):
                why("xpu_inductor: memory that is written at data-dependent places is touched elsewhere")
                return False
        if len(_touched(node1) | _touched(node2)) > device_traits().max_kernel_arguments:
            why("xpu_inductor: more buffers than a kernel has arguments")
            return False
        if (_scans(node1) and node2.is_reduction()) or (_scans(node2) and node1.is_reduction()):
            why("xpu_inductor: a scan is the only reduction of its kernel")
            return False
        return bool(super().can_fuse(node1, node2))

    can_fuse_vertical = can_fuse
    can_fuse_horizontal = can_fuse

    def define_kernel(self, src_code: str, node_schedule: Any, kernel: GroupKernel) -> str:
        """Note where the kernel comes from. The wrapper writes its source, when it is known which launches are one."""
        origins, details = get_kernel_metadata(node_schedule, V.graph.wrapper_code)
        kernel.comment = f"{origins}\n{details}"
        return f"{LOOPS}{next(iter(kernel.features.scheduler_nodes())).get_name()}"

    def codegen_sync(self) -> None:
        """Nothing: the wrapper waits where it must."""


def _data(node: BaseSchedulerNode) -> list[Any]:
    computed = [n.node for n in node.get_nodes() if isinstance(n.node, inductor_ir.ComputedBuffer)]
    return [c.data for c in computed]


def _scatters(node: BaseSchedulerNode) -> bool:
    return any(isinstance(d, inductor_ir.Scatter) for d in _data(node))


def _scans(node: BaseSchedulerNode) -> bool:
    return any(isinstance(d, inductor_ir.Scan) for d in _data(node))


def _mutated(node: BaseSchedulerNode) -> set[str]:
    """What is mutated, under every name that it goes by."""
    outputs = [o for n in node.get_nodes() for o in n.get_outputs() if o.get_mutations()]
    return {name for o in outputs for name in (o.get_name(), *o.get_mutations())}


def _touched(node: BaseSchedulerNode) -> set[str]:
    return {d.name for d in node.read_writes.reads_and_writes()}
