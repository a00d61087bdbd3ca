"""All single-place mutants of a source file: what is changed, where, and into what.

A mutant replaces one piece of text found by its place in the syntax tree; the rest of the file
stays byte for byte. Left alone are docstrings, annotations, decorators, assertions, what stands in
`raise` and in formatted text, `strict=` of zip and tolerances for rounding: none of them says what
the program computes.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">"),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<"),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "/",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.MatMult: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.BitXor: "|",
    ast.LShift: ">>",
    ast.RShift: "<<",
}
CALLED = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "argmin": "argmax",
    "argmax": "argmin",
    "floor": "ceil",
    "ceil": "floor",
    "sum": "max",
    "mean": "sum",
    "median": "min",
    "cumsum": "cumprod",
    "zeros": "ones",
    "ones": "zeros",
    "zeros_like": "ones_like",
    "ones_like": "zeros_like",
    "sqrt": "abs",
    "isfinite": "isnan",
    "flatnonzero": "argsort",
    "sort": "asarray",
    "permutation": "asarray",
}
SPELLED = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.And: "and",
    ast.Or: "or",
}
ROUNDING = 1e-6
"""Constants below it say what counts as rounding: twice as much says the same."""
SILENT = {"strict", "cache", "repr", "dtype", "init", "frozen", "eq", "stacklevel"}
"""Keywords whose values are left alone."""


@dataclass(frozen=True)
class Mutant:
    """One change of one place."""

    file: str
    """From the repository's root."""
    kind: str
    function: str
    """The innermost named function or class around it; empty in the module's own lines."""
    line: int
    text: str
    """The line as it stands, stripped."""
    before: str
    after: str
    start: int
    end: int
    """The bytes of the file that are replaced."""
    nth: int = 1
    """Which of the like in its function it is."""

    @property
    def key(self) -> str:
        """The same for as long as the line itself is: how a list of mutants names it."""
        nth = "" if self.nth == 1 else f" ({self.nth})"
        where = f"{self.file}: {self.function or 'module'}"
        return f"{where}: {self.text}: {self.before} -> {self.after}{nth}"

    def apply(self, source: bytes) -> bytes:
        """The mutated file."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutants_of(file: str, source: bytes, siblings: Mapping[str, str]) -> list[Mutant]:
    """Every mutant of a file in the order of its places; a few are no programs (`compiles`)."""
    found = _Finder(file, source, siblings).found
    unique = {(m.start, m.end, m.after): m for m in found}
    counted: Counter[str] = Counter()
    numbered = []
    for place in sorted(unique):
        counted[unique[place].key] += 1
        numbered.append(replace(unique[place], nth=counted[unique[place].key]))
    return numbered


def compiles(source: bytes) -> bool:
    """Whether a mutated file is still a program."""
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def siblings_of(sources: list[bytes]) -> dict[str, str]:
    """For fields of the data classes: another field of the same class and type.

    Only names that belong to one class alone: `x.believed` may then be read as `x.true` and nothing
    but its meaning changes.
    """
    owners: dict[str, int] = {}
    pairs: dict[str, str] = {}
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.ClassDef):
                continue
            by_type: dict[str, list[str]] = {}
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    name = item.target.id
                    owners[name] = owners.get(name, 0) + 1
                    by_type.setdefault(ast.dump(item.annotation), []).append(name)
            for names in by_type.values():
                for i, name in enumerate(names):
                    if len(names) > 1:
                        pairs[name] = names[(i + 1) % len(names)]
    return {name: other for name, other in pairs.items() if owners[name] == 1}


class _Finder(ast.NodeVisitor):
    """Walks a file and collects its mutants."""

    def __init__(self, file: str, source: bytes, siblings: Mapping[str, str]) -> None:
        self.file, self.source, self.siblings = file, source, siblings
        self.lines = source.decode().splitlines()
        ends, at = [0], 0
        for line in source.splitlines(keepends=True):
            at += len(line)
            ends.append(at)
        self.line_starts = ends
        self.scope: list[str] = []
        self.found: list[Mutant] = []
        self.visit(ast.parse(source))

    # Places in the text.

    def _at(self, line: int, column: int) -> int:
        return self.line_starts[line - 1] + column

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._at(node.lineno, node.col_offset)
        return start, self._at(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()

    def _add(self, kind: str, start: int, end: int, after: str) -> None:
        line = self.source[:start].count(b"\n") + 1
        before = self.source[start:end].decode()
        scope = ".".join(self.scope)
        text = self.lines[line - 1].strip()
        self.found.append(Mutant(self.file, kind, scope, line, text, before, after, start, end))

    def _replace(self, kind: str, node: ast.expr | ast.stmt, after: str) -> None:
        self._add(kind, *self._span(node), after)

    def _between(self, kind: str, left: ast.expr, right: ast.expr, word: str, after: str) -> None:
        """Replace an operator: its first mention between two operands."""
        start, end = self._span(left)[1], self._span(right)[0]
        at = self.source[start:end].find(word.encode())
        if at >= 0:
            self._add(kind, start + at, start + at + len(word), after)

    # What is walked, and what is not.

    def _named(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.scope.append(node.name)
        if isinstance(node, ast.FunctionDef):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    self.visit(default)
        for item in node.body:
            self.visit(item)
        self.scope.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._named(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._named(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Call) and self._text(node.value.func) != "assert_never":
            self._replace("left out", node, "pass")
        self.generic_visit(node)

    # Kinds of mutants.

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            words = {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}
            word = words.get(type(op)) or {
                ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==",
                ast.NotEq: "!=",
            }[type(op)]  # fmt: skip
            for after in COMPARISONS[type(op)]:
                self._between("comparison", left, right, word, after)
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not isinstance(node.left, ast.Constant) or not isinstance(node.left.value, str):
            word = SPELLED[type(node.op)]
            self._between("operator", node.left, node.right, word, ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        word = SPELLED[type(node.op)]
        target: ast.expr = node.target
        self._between("operator", target, node.value, word, ARITHMETIC[type(node.op)])
        self._replace("left out", node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """An assignment to a part of something can be left out and the program still runs."""
        if all(isinstance(target, ast.Subscript) for target in node.targets):
            self._replace("left out", node, "pass")
        self.visit(node.value)
        for target in node.targets:
            if not isinstance(target, ast.Name | ast.Tuple):
                self.generic_visit(target)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word = SPELLED[type(node.op)]
        other = "or" if word == "and" else "and"
        for left, right in pairwise(node.values):
            self._between("operator", left, right, word, other)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.Invert | ast.USub):
            start, _ = self._span(node)
            self._add("sign or not left out", start, self._span(node.operand)[0], "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replace("constant", node, str(not value))
        elif isinstance(value, int):
            self._replace("constant", node, str(value + 1))
        elif isinstance(value, float) and not 0 < value < ROUNDING:
            self._replace("constant", node, repr(value * 2 if value else 1.0))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func
        if isinstance(name, ast.Name) and name.id in CALLED:
            self._replace("function", name, CALLED[name.id])
        if isinstance(name, ast.Attribute) and name.attr in CALLED:
            end = self._span(name)[1]
            self._add("function", end - len(name.attr), end, CALLED[name.attr])
        plain = [arg for arg in node.args if not isinstance(arg, ast.Starred)]
        if len(plain) == len(node.args):
            for first, second in pairwise(plain):
                one, two = self._text(first), self._text(second)
                if one != two and not _either_way(node):
                    start, end = self._span(first)[0], self._span(second)[1]
                    between = self.source[self._span(first)[1] : self._span(second)[0]].decode()
                    self._add("arguments swapped", start, end, two + between + one)
        self.visit(node.func)
        for arg in node.args:
            self.visit(arg)
        for keyword in node.keywords:
            if keyword.arg not in SILENT:
                self.visit(keyword.value)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        body, other = self._text(node.body), self._text(node.orelse)
        test = self._text(node.test)
        self._replace("branches swapped", node, f"{other} if {test} else {body}")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self._replace("condition", node.test, f"not ({self._text(node.test)})")
        for branch in (node.body, node.orelse):
            last = branch[-1] if branch else None
            if isinstance(last, ast.Return | ast.Continue | ast.Break) and len(node.body) == 1:
                self._replace("never taken", node.test, "False")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace("jump", node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        self._replace("jump", node, "continue")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        other = self.siblings.get(node.attr)
        if other is not None and isinstance(node.ctx, ast.Load):
            end = self._span(node)[1]
            self._add("field", end - len(node.attr), end, other)
        self.generic_visit(node)


def _either_way(node: ast.Call) -> bool:
    """Whether a call's arguments mean the same in any order, or nothing in another."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    name = node.func.id if isinstance(node.func, ast.Name) else name
    words = ("range", "isinstance", "getattr", "min", "max", "minimum", "maximum", "add", "mul")
    return name in words
