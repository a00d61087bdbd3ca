"""Inner loops of direct convolutions, written in the compiler's own language: tiles in registers.

Two of them: `multiply_tile`, the sums of a few outputs x a few vectors of a row, and
`correlate_tile`, those of a few outputs x a few weights of a kernel's row. A tile of sums stays in
vector registers while a loop goes over what is summed up; no library has products of these shapes
without copies. Loads numba. Its cache looks at `convolution_kernel.py` alone: whoever changes this
file also touches that one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

WIDE = "+avx512f" in str(cpu_target.target_context.codegen().magic_tuple())
"""Whether there are 32 vector registers of 64 bytes; else 16 of 32 are counted on."""
VECTOR_BYTES, REGISTERS = (64, 32) if WIDE else (32, 16)
ACROSS = 2
"""Vectors of a row in a tile of `multiply_tile`."""
TILES = (4, 5, 6)
"""Outputs in a tile of `multiply_tile`."""
MOST_WEIGHTS = 5
"""Weights in a tile of `correlate_tile`."""


def lanes(itemsize: int) -> int:
    """Numbers in a vector."""
    return VECTOR_BYTES // itemsize


def outputs_beside(weights: int) -> int:
    """Outputs in a tile of `correlate_tile` with so many weights: what registers hold, up to 4."""
    return min(4, (REGISTERS - 4) // weights)


class _Emitter:
    """Writes vector instructions for arrays of one type."""

    def __init__(self, context: Any, builder: Any, like: Any) -> None:
        self.context, self.builder = context, builder
        self.size = like.dtype.bitwidth // 8
        self.lanes = lanes(self.size)
        self.vector = ir.VectorType(context.get_data_type(like.dtype), self.lanes)
        name = f"llvm.fmuladd.v{self.lanes}f{8 * self.size}"
        form = ir.FunctionType(self.vector, [self.vector] * 3)
        self.fma = cgutils.get_or_insert_function(builder.module, form, name)

    def data(self, kind: Any, array: Any) -> Any:
        """The address of an array's first number."""
        return self.context.make_array(kind)(self.context, self.builder, array).data

    def after(self, base: Any, step: Any, times: int) -> Any:
        """The index so many steps after another."""
        return self.builder.add(base, self.builder.mul(step, ir.Constant(step.type, times)))

    def at(self, address: Any, index: Any) -> Any:
        """The address of a number by its index."""
        index = ir.Constant(ir.IntType(64), index) if isinstance(index, int) else index
        return self.builder.gep(address, [index])

    def load(self, address: Any) -> Any:
        """The vector that begins there."""
        there = self.builder.bitcast(address, self.vector.as_pointer())
        return self.builder.load(there, align=self.size)

    def store(self, vector: Any, address: Any) -> None:
        """Put a vector there."""
        there = self.builder.bitcast(address, self.vector.as_pointer())
        self.builder.store(vector, there, align=self.size)

    def spread(self, address: Any) -> Any:
        """The number there in every lane."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        zero = ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(nothing, self.builder.load(address), zero)
        places = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, nothing, places)

    def sums(self, rows: int, columns: int) -> list[list[Any]]:
        """A tile of sums; the compiler keeps them in registers."""
        return [
            [cgutils.alloca_once(self.builder, self.vector) for _ in range(columns)]
            for _ in range(rows)
        ]

    def add_product(self, one: Any, two: Any, to: Any) -> None:
        """Add a product, lane by lane."""
        self.builder.store(self.builder.call(self.fma, [one, two, self.builder.load(to)]), to)

    def total(self, vector: Any) -> Any:
        """The sum of the lanes, by halves."""
        count = self.lanes
        while count > 1:
            count //= 2
            halves = []
            for first in (0, count):
                places = list(range(first, first + count))
                mask = ir.Constant(ir.VectorType(ir.IntType(32), count), places)
                halves.append(self.builder.shuffle_vector(vector, vector, mask))
            vector = self.builder.fadd(*halves)
        return self.builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def multiply_tile(outputs: int, *, onto: bool) -> Any:
    """into[o, n] = bias[o] + the sum over k of w[at_w[k] + o] x[at_x[k] + n], for a tile.

    `onto`: added to what is there, without biases. Arrays are flat, each with the index it begins
    from; `plane` is the step from one output to the next.
    """

    @intrinsic
    def tile(
        _: Any,
        w: Any,
        w_first: Any,
        at_w: Any,
        x: Any,
        x_first: Any,
        at_x: Any,
        count: Any,
        bias: Any,
        bias_first: Any,
        into: Any,
        into_first: Any,
        plane: Any,
    ) -> Any:
        first = (w, w_first, at_w, x, x_first, at_x, count)
        kinds = (*first, bias, bias_first, into, into_first, plane)

        def write(context: Any, builder: Any, _: Any, args: Any) -> Any:
            emit = _Emitter(context, builder, w)
            weights, steps_w, inputs, steps_x, biases, found = (
                emit.data(kinds[n], args[n]) for n in (0, 2, 3, 5, 7, 9)
            )
            sums = emit.sums(outputs, ACROSS)
            places = [emit.at(found, emit.after(args[10], args[11], o)) for o in range(outputs)]
            for o, row in enumerate(sums):
                for n, held in enumerate(row):
                    own = emit.at(emit.at(biases, args[8]), o)
                    there = emit.at(places[o], n * emit.lanes)
                    builder.store(emit.load(there) if onto else emit.spread(own), held)
            with cgutils.for_range(builder, args[6]) as loop:
                step_w, step_x = (builder.load(emit.at(s, loop.index)) for s in (steps_w, steps_x))
                own_w = emit.at(weights, builder.add(args[1], step_w))
                own_x = emit.at(inputs, builder.add(args[4], step_x))
                met = [emit.load(emit.at(own_x, n * emit.lanes)) for n in range(ACROSS)]
                for o, row in enumerate(sums):
                    weight = emit.spread(emit.at(own_w, o))
                    for n, held in enumerate(row):
                        emit.add_product(weight, met[n], held)
            for o, row in enumerate(sums):
                for n, held in enumerate(row):
                    emit.store(builder.load(held), emit.at(places[o], n * emit.lanes))
            return context.get_dummy_value()

        return types.void(*kinds), write

    return tile


def correlate_tile(outputs: int, weights: int) -> Any:
    """into[o, k] = the sum over rows and n of g[o, row, n] x[row, k right + n], for a tile.

    `g_plane` and `into_plane` are the steps from one output to the next, `right` that from one
    weight's inputs to the next one's.
    """

    @intrinsic
    def tile(
        _: Any,
        g: Any,
        g_first: Any,
        g_plane: Any,
        x: Any,
        x_first: Any,
        x_row: Any,
        right: Any,
        rows: Any,
        length: Any,
        into: Any,
        into_first: Any,
        into_plane: Any,
    ) -> Any:
        first = (g, g_first, g_plane, x, x_first, x_row, right, rows, length)
        kinds = (*first, into, into_first, into_plane)

        def write(context: Any, builder: Any, _: Any, args: Any) -> Any:
            emit = _Emitter(context, builder, g)
            gradient, inputs, found = (emit.data(kinds[n], args[n]) for n in (0, 3, 9))
            sums = emit.sums(outputs, weights)
            for held in (one for row in sums for one in row):
                builder.store(ir.Constant(emit.vector, [0.0] * emit.lanes), held)
            wide = ir.Constant(args[8].type, emit.lanes)
            with cgutils.for_range(builder, args[7]) as row_loop:
                g_from = builder.add(args[1], builder.mul(row_loop.index, args[8]))
                x_from = builder.add(args[4], builder.mul(row_loop.index, args[5]))
                with cgutils.for_range(builder, builder.sdiv(args[8], wide)) as loop:
                    n = builder.mul(loop.index, wide)
                    g_here, x_here = builder.add(g_from, n), builder.add(x_from, n)
                    own = [
                        emit.load(emit.at(gradient, emit.after(g_here, args[2], o)))
                        for o in range(outputs)
                    ]
                    for k in range(weights):
                        met = emit.load(emit.at(inputs, emit.after(x_here, args[6], k)))
                        for o in range(outputs):
                            emit.add_product(own[o], met, sums[o][k])
            for o, row in enumerate(sums):
                there = emit.at(found, emit.after(args[10], args[11], o))
                for k, held in enumerate(row):
                    builder.store(emit.total(builder.load(held)), emit.at(there, k))
            return context.get_dummy_value()

        return types.void(*kinds), write

    return tile
