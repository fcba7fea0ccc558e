"""Compiled kernels in torch's portable cache: ``torch.compiler.save_cache_artifacts`` and ``load_cache_artifacts``.

torch knows this kind of artifact once this module is imported, which the backend does; a process that loads before it
has compiled anything must ``import aten_backend.portable`` first. (Whole graphs, kernels included, are carried by
torch's own artifact of AOTAutograd's cache where the option ``aot_cache`` is set.)
"""

from __future__ import annotations

import io

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from runtime.cache import CompiledKernel, KernelKey, SpirvCache, decode, encode, read_key


@CacheArtifactFactory.register
class KernelArtifact(CacheArtifact):
    """One kernel, as a file of the cache on disk holds it."""

    def populate_cache(self) -> None:
        """Put the kernel into the default cache folder. Raises ValueError for damaged contents."""
        SpirvCache().store(read_key(io.BytesIO(self.content)), decode(self.content))

    @staticmethod
    def type() -> str:
        """torch's name for this kind."""
        return "xpu_aten_kernel"


def record(key: KernelKey, kernel: CompiledKernel) -> None:
    """Let torch's next ``save_cache_artifacts`` carry ``kernel``, which is kept on disk under ``key``."""
    CacheArtifactManager.record_artifact(KernelArtifact.type(), key.digest, encode(kernel, key.parts))
