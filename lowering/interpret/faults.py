"""What a kernel may do wrong, as the interpreter finds it. Each error names the kernel, the line and a work-item."""

from __future__ import annotations

from ..errors import LoweringError


class KernelFault(LoweringError):
    """Base of the faults. ``line`` counts from 1 within the kernel's text; ``rule`` says what was broken."""

    def __init__(self, kernel: str, line: int, text: str, rule: str) -> None:
        self.kernel, self.line, self.rule = kernel, line, rule
        super().__init__(
            f"kernel {kernel}, line {line} (`{text.strip()}`): {rule}. "
            "This is a bug of the compiler: `xpu-aten bisect` finds the stage that made it."
        )


class OutOfBoundsError(KernelFault):
    """An access outside the memory that a parameter points into."""


class DataRaceError(KernelFault):
    """Two work-items touch one element, one of them writing, and no barrier stands between."""


class DivergentBarrierError(KernelFault):
    """A barrier or a group operation that some work-items of a work-group do not reach."""


class UninitialisedReadError(KernelFault):
    """A read of work-group memory, scratch memory or a result before anything was written there."""


class ArithmeticFault(KernelFault):
    """An operation without a defined result: an integer divided by zero."""


class KernelTypeError(KernelFault):
    """An operation of the kernel language given types that it does not take."""
