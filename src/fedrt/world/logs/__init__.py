"""Traces from public logs of mobile networks: one file for each format, and the conversion."""

from fedrt.world.logs.ghent import read_ghent
from fedrt.world.logs.log import Reader
from fedrt.world.logs.raca import read_raca_4g, read_raca_5g

FORMATS: dict[str, Reader] = {
    "raca-4g": read_raca_4g,
    "raca-5g": read_raca_5g,
    "ghent": read_ghent,
}
"""The readers of logs, by the name of their format."""
