"""A character model: what letter comes next, learned by devices that each hold a piece of a text.

    cd examples && fedrt run characters.toml --allow-code

The text is Ambrose Bierce's "The Devil's Dictionary", whose copyright has expired. Debian ships it
in the package dict-devil (apt install dict-devil); without it the beginning lies beside this file.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

WHOLE = Path("/usr/share/dictd/devil.dict.dz")
BEGINNING = Path(__file__).parent / "devils_dictionary.txt"
LETTERS = "\n abcdefghijklmnopqrstuvwxyz'-,.;:!?\"()_"
PLACES, PIECES = 48, 20


def data() -> dict[str, np.ndarray]:
    """Sequences of letters and the letters that follow; each device holds a piece of the text."""
    if WHOLE.is_file():
        text = gzip.decompress(WHOLE.read_bytes()).decode("utf-8", "ignore")
    else:
        text = BEGINNING.read_text()
    place = {letter: number for number, letter in enumerate(LETTERS)}
    letters = np.array([place[c] for c in text.lower() if c in place], dtype=np.int64)
    count = (len(letters) - 1) // PLACES
    x = letters[: count * PLACES].reshape(count, PLACES)
    y = letters[1 : count * PLACES + 1].reshape(count, PLACES)
    owner = np.arange(count) * PIECES // count
    test = np.arange(count) % 10 == 9
    return {
        "x_train": x[~test],
        "y_train": y[~test],
        "x_test": x[test],
        "y_test": y[test],
        "owner_train": owner[~test],
        "num_classes": np.array(len(LETTERS)),
    }


class CharacterModel(nn.Module):
    """Causal convolutions: the scores at a place depend on the letters up to it."""

    def __init__(self, shape: tuple[int, ...], letters: int, width: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(letters, width)
        self.near = nn.Conv1d(width, width, 4)
        self.far = nn.Conv1d(width, width, 4, dilation=4)
        self.head = nn.Linear(width, letters)

    def forward(self, letters: Tensor) -> Tensor:
        x = self.embed(letters).transpose(1, 2)
        x = x + torch.tanh(self.near(nn.functional.pad(x, (3, 0))))
        x = x + torch.tanh(self.far(nn.functional.pad(x, (12, 0))))
        return self.head(x.transpose(1, 2))
