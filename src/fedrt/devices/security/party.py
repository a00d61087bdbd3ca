"""Who a certificate names: a role and a name, and the texts in which a certificate has them."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

from fedrt.errors import InputError
from fedrt.validation import problem

ROLES = ("coordinator", "edge", "device")
"""What a party of a run may be."""
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
NAME_RULE = "1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends"
DOMAIN = "fedrt"
"""The last part of the names by which edge servers are verified; no such domain exists."""
_SCHEME = "fedrt://"
_RANDOM_BITS = 72
_GENERATION_BITS = 16


@dataclass(frozen=True, order=True)
class Party:
    """A party of a run: its role (coordinator, edge or device) and its name."""

    role: str
    name: str

    def __post_init__(self) -> None:
        problems = []
        if self.role not in ROLES:
            problems.append(problem("role", self.role, f"one of {', '.join(ROLES)}"))
        if not NAME.fullmatch(self.name):
            problems.append(problem("name", self.name, NAME_RULE))
        if problems:
            raise InputError(problems)

    def __str__(self) -> str:
        return f"{self.role} {self.name}"

    @property
    def uri(self) -> str:
        """The text that stands in the certificate's alternative names."""
        return f"{_SCHEME}{self.role}/{self.name}"

    @classmethod
    def from_uris(cls, uris: list[str]) -> Party | None:
        """The party that a certificate's alternative names give; None if not exactly one."""
        own = [uri for uri in uris if uri.startswith(_SCHEME)]
        if len(own) != 1:
            return None
        role, _, name = own[0].removeprefix(_SCHEME).partition("/")
        try:
            return cls(role, name)
        except InputError:
            return None

    def host_name(self, generation: int) -> str:
        """The DNS name by which TLS verifies this party as a server.

        It has nothing to do with the address, which may change. The generation counts how often
        certificates of this party have been revoked: a certificate has the names of all generations
        up to its own, and a client asks for the one that its revocation list implies, so it refuses
        what was revoked.
        """
        return f"{self.name}.g{generation}.{self.role}.{DOMAIN}"

    @property
    def serial_prefix(self) -> int:
        """What the serial numbers of all of this party's certificates begin with, 64 bits."""
        return int.from_bytes(hashlib.sha256(self.uri.encode()).digest()[:8])

    def new_serial(self, generation: int) -> int:
        """A serial number: this party's prefix, the generation, random bits."""
        head = (self.serial_prefix << _GENERATION_BITS) | generation
        return (head << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)

    def generation_of(self, serial: int) -> int | None:
        """The generation of a serial number of this party's; None if it is another's."""
        head = serial >> _RANDOM_BITS
        if head >> _GENERATION_BITS != self.serial_prefix:
            return None
        return head & ((1 << _GENERATION_BITS) - 1)


def next_generation(party: Party, revoked: list[int]) -> int:
    """The generation of a party's next certificate, from the serial numbers that were revoked."""
    found = [party.generation_of(serial) for serial in revoked]
    return max((each + 1 for each in found if each is not None), default=0)
