"""Transforms: what happens to an update between training and the codec, as clipping and noise.

`learning.update` names some of `registry.TRANSFORMS`, or import paths of a user's own, and last the
codec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.learning.transforms.base import Transform as Transform
    from fedrt.learning.transforms.base import UpdateKey as UpdateKey
    from fedrt.learning.transforms.chain import Chain as Chain
    from fedrt.learning.transforms.chain import make_chain as make_chain
    from fedrt.learning.transforms.clip import Clip as Clip
    from fedrt.learning.transforms.noise import GaussianNoise as GaussianNoise
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "base": "Transform UpdateKey",
            "chain": "Chain make_chain",
            "clip": "Clip",
            "noise": "GaussianNoise",
        },
    )
