"""Values of Inductor's loop IR as they pass through its code generation: a scalar of the group IR with torch's type."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.codegen.common import CSEVariable
from torch.utils._sympy.value_ranges import ValueRanges

from lowering.dtypes import TORCH, compute_name
from lowering.values import Body, Scalar, as_stored


class Value(CSEVariable):
    """``scalar`` computes what a tensor of ``dtype`` would hold; half types are rounded only where that shows."""

    def __init__(self, scalar: Scalar, dtype: torch.dtype | None = None, bounds: Any = None) -> None:
        # Inductor knows data-dependent indexes by the prefix of their names
        super().__init__(f"tmp{scalar.id}", bounds or ValueRanges.unknown(), dtype or TORCH[scalar.dtype], ())
        self.scalar = scalar

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type, which is never missing here."""
        assert self.dtype is not None
        return self.dtype

    def exact(self) -> Scalar:
        """The scalar, rounded to the type."""
        return as_stored(self.scalar, self.torch_dtype)


def labelled(scalar: Scalar, dtype: torch.dtype) -> Value:
    """``scalar`` as a value of ``dtype`` where that computes in its type, else of its own type."""
    return Value(scalar, dtype if compute_name(dtype) == scalar.dtype else None)


def promoted(args: list[Any]) -> torch.dtype:
    """The type in which an operation on ``args``, values and numbers, computes. Literals follow the others."""
    values = [a for a in args if isinstance(a, Value)]
    typed = [v.torch_dtype for v in values if v.scalar.literal is None] or [v.torch_dtype for v in values]
    result = typed[0]
    for other in typed[1:]:
        result = result if other == result else torch.promote_types(result, other)
    for v in values:  # a float literal beside integers makes floats, an integer one beside anything does not
        if result == torch.bool or (v.torch_dtype.is_floating_point and not result.is_floating_point):
            result = v.torch_dtype
    return result


def operand(body: Body, arg: Any, dtype: torch.dtype, exact: bool = False) -> Scalar:
    """``arg`` in the type in which values of ``dtype`` compute."""
    if not isinstance(arg, Value):
        return body.const(arg, compute_name(dtype))
    return (arg.exact() if exact else arg.scalar).to(compute_name(dtype))
