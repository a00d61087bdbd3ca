"""The menu of codecs in a scenario: the bits and the distortion of each, and the limit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedrt.errors import InputError
from fedrt.messages import GOSSIP_CODECS, SELECTABLE, UNCOMPRESSED, distortion
from fedrt.scenario import Scenario
from fedrt.scenario.sizes import buffer_bits, message_bits, variate_bits
from fedrt.world.observation import Menu

MENU = tuple(name for name in SELECTABLE if name in GOSSIP_CODECS and distortion(name) > 0)
"""The codecs to choose from where the scenario names none: those that servers can gossip with."""
COARSEST = MENU[0]
ROUNDING = 1e-12
USUAL = "int4"
"""The codec whose distortion is the limit where the scenario gives none."""


def menu_of(scenario: Scenario) -> Menu:
    """The menu of a scenario."""
    learning, names = scenario.learning, scenario.control.codecs or MENU
    assert not isinstance(learning.model_bits, str)
    limit = scenario.control.distortion_limit
    if limit is None and isinstance(learning.codec, str) and learning.codec in names:
        limit = learning.codec
    sizes = (learning.model_bits, buffer_bits(learning))
    overheads = scenario.overheads
    factor = 1.0 if overheads is None else overheads.header_factor
    variate = variate_bits(learning, learning.model_bits)
    return make_menu(names, limit, *sizes, "scenario.control", factor, variate)


def make_menu(
    names: Sequence[str],
    limit: float | str | None,
    model_bits: float,
    buffer_bits: float,
    where: str,
    header_factor: float = 1.0,
    variate_bits: float = 0.0,
) -> Menu:
    """The menu of some codecs; the limit is a number, the distortion of a codec, or the usual.

    Where the message of some codec is no shorter than the uncompressed model, that is in the menu
    too: no device has to send more than a policy without codecs would have it send. `where` says in
    messages whose limit it is; `header_factor`: bits on the air over messages'; `variate_bits`:
    what goes beside every message, whatever the codec.
    """
    most = limit if isinstance(limit, float | int) else distortion(limit or USUAL)
    if any(is_longer(name, model_bits, buffer_bits) for name in names):
        names = [*names, UNCOMPRESSED]
    bits = np.array([message_bits(name, model_bits, buffer_bits) for name in names])
    bits = (bits + variate_bits) * header_factor
    lost = np.array([distortion(name) for name in names])
    if not (lost <= most * (1 + ROUNDING)).any():
        rule = f"at least {lost.min():.3g}, that of {names[int(lost.argmin())]}"
        raise InputError(f"{where}.distortion_limit = {most:.6g}: must be {rule}")
    return convex_menu(Menu(tuple(names), bits, lost, most))


def is_longer(codec: str, model_bits: float, buffer_bits: float) -> bool:
    """Whether a codec's message is no shorter than the uncompressed model."""
    return message_bits(codec, model_bits, buffer_bits) >= model_bits


def gossip_codec(menu: Menu, given: str, model_bits: float, buffer_bits: float) -> str:
    """The codec of gossip: the scenario's, or where it has none the one for all uploads.

    Where servers cannot gossip with that one, the next finer one of the menu, or else the
    coarsest; none
    where its message is no shorter than the uncompressed model.
    """
    if given != "none":
        return given
    finer = (name for name in menu.names[menu.uniform :] if name in GOSSIP_CODECS)
    codec = next(finer, COARSEST)
    return UNCOMPRESSED if is_longer(codec, model_bits, buffer_bits) else codec


def place_in(menu: Menu, codec: str, model_bits: float, buffer_bits: float) -> int | None:
    """The place of a codec in a menu, or of what loses no more with no more bits; None: neither."""
    if codec in menu.names:
        return menu.names.index(codec)
    length = message_bits(codec, model_bits, buffer_bits)
    for place, name in enumerate(menu.names):
        shorter = message_bits(name, model_bits, buffer_bits) <= length
        if shorter and menu.distortion[place] <= distortion(codec):
            return place
    return None


def convex_menu(menu: Menu) -> Menu:
    """The menu without codecs that have no place on the lower convex hull of bits and distortion.

    They are sorted by their bits.
    """
    order = np.lexsort((menu.distortion, menu.bits))
    kept: list[int] = []
    for m in order.tolist():
        if kept and menu.distortion[m] >= menu.distortion[kept[-1]]:
            continue
        while len(kept) >= 2 and _is_above(menu, kept[-1], kept[-2], m):
            kept.pop()
        kept.append(m)
    names = tuple(menu.names[m] for m in kept)
    return Menu(names, menu.bits[kept], menu.distortion[kept], menu.limit)


def _is_above(menu: Menu, between: int, one: int, other: int) -> bool:
    """Whether a codec lies on or above the line between two others."""
    part = (menu.bits[between] - menu.bits[one]) / (menu.bits[other] - menu.bits[one])
    line = (1 - part) * menu.distortion[one] + part * menu.distortion[other]
    return bool(menu.distortion[between] >= line)
