"""Data sets: formats, sources, partitions over devices, and mini-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.data.batches import Batches as Batches
    from fedrt.data.catalogue import Dataset as Dataset
    from fedrt.data.catalogue import load_dataset as load_dataset
    from fedrt.data.formats import Samples as Samples
    from fedrt.data.partitions import Parts as Parts
    from fedrt.data.partitions import load_divided as load_divided
    from fedrt.data.partitions import partition as partition
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "batches": "Batches",
            "catalogue": "Dataset load_dataset",
            "formats": "Samples",
            "partitions": "Parts load_divided partition",
        },
    )
