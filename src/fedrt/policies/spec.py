"""The text that names a policy: its name or import path, and perhaps options in parentheses."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedrt.errors import InputError
from fedrt.validation import shown

SPEC = re.compile(r"(?P<base>[^()]*)(?:\((?P<options>.*)\))?", re.DOTALL)
RULE = "NAME or NAME(option=value, ...) with numbers, texts, true words, lists or None as values"
LONGEST = 1000


@dataclass(frozen=True)
class Spec:
    """The name or import path of a policy, and the keyword arguments to make it with."""

    base: str
    options: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The text that names the policy, in one normal form."""
        return self.base + self.options_text

    @property
    def options_text(self) -> str:
        """The options in parentheses; empty if there are none."""
        words = [f"{name}={value!r}" for name, value in self.options.items()]
        return f"({', '.join(words)})" if words else ""


def read_spec(text: str) -> Spec:
    """The name and options in a policy's text. Values are literals; no code is run."""
    found = SPEC.fullmatch(text.strip())
    if found is None or len(text) > LONGEST:
        raise InputError(f"policy = {shown(text)}: must be {RULE}")
    base, options = found["base"].strip(), found["options"]
    return Spec(base, {} if options is None else _read_options(text, options))


def _read_options(text: str, options: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"made({options}\n)", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
            raise ValueError("it must have a name before each value")
        found = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords if word.arg}
        if len(found) < len(call.keywords):
            raise ValueError("it must name each option once")
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise InputError(f"policy = {shown(text)}: must be {RULE}") from None
    return found


def with_options(text: str, options: Mapping[str, Any]) -> str:
    """The text of a policy with further options, which override those it has."""
    spec = read_spec(text)
    return Spec(spec.base, {**spec.options, **options}).text


def policy_label(text: str, own_name: str | None = None) -> str:
    """The label of a policy in tables: for a user's own, the name it gives itself, with options."""
    try:
        spec = read_spec(text)
    except InputError:  # from a file of somebody's
        return text
    return (own_name or spec.base) + spec.options_text


def policy_labels(names: Mapping[str, str | None]) -> dict[str, str]:
    """Distinct labels of all given policies, from the names they give themselves.

    Where two would be, those of users' own are called by what was typed.
    """
    labels = {text: policy_label(text, own) for text, own in names.items()}
    every: Sequence[str] = list(labels.values())
    return {
        text: label if every.count(label) == 1 or ":" not in text else text
        for text, label in labels.items()
    }
