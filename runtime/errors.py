"""Errors of the runtime. Each message says what happened and what to do."""

from __future__ import annotations


class RuntimeSetupError(RuntimeError):
    """Base of everything the runtime raises on its own account."""


class DeviceNotFoundError(RuntimeSetupError):
    """No SYCL device fits what was asked for."""


class ToolchainMissingError(RuntimeSetupError):
    """dpctl, the oneAPI libraries or numba-dpex are missing or cannot be loaded."""


class KernelCompileError(RuntimeSetupError):
    """The compiler rejected a kernel's text."""

    def __init__(self, name: str, text: str, message: str) -> None:
        self.name, self.text, self.message = name, text, message
        super().__init__(f"kernel {name} does not compile: {message}\nIts text:\n{text}")

    def __reduce__(self) -> tuple[type[KernelCompileError], tuple[str, str, str]]:
        return type(self), (self.name, self.text, self.message)


class WorkerDiedError(RuntimeSetupError):
    """A compiler process ended while it was compiling, twice. ``name`` is the kernel's; empty when none was under
    way."""

    def __init__(self, message: str, name: str = "") -> None:
        self.name = name
        super().__init__(message)


class LaunchError(RuntimeSetupError):
    """A kernel could not be built for its device, or its launch was refused."""
