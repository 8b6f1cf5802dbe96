# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Kernels written down for LLVM in fewer words: they compute the same.

Numba puts an array into memory and takes it apart there at each index. LLVM removes that, after Python has built it,
written it out as text and had it read. Nothing else is left out, and branches stay where they are: LLVM makes the same
machine code. Whatever is not the plain case is left to Numba.
"""

from __future__ import annotations

from llvmlite import ir
from llvmlite.ir.instructions import InsertValue
from numba.core import types
from numba.core.cgutils import pointer_add
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.np.arrayobj import fix_integer_index, load_item, store_item

_PLAIN = frozenset(types.number_domain | {types.boolean})


class TerseLower(Lower):
    """Numba's, with shorter ways for elements and rows of arrays."""

    def lower_getitem(self, resty, expr, value, index, signature):
        found = self._axes(signature, self.typeof(value.name))
        if found is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        kind, kinds = found
        array = self.loadvar(value.name)
        place = self._place(array, kind, self._indices(index, signature.args[1]), kinds)
        if len(kinds) == kind.ndim:
            item = load_item(self.context, self.builder, kind, place)
        else:
            item = self._row(array, kind, place, len(kinds), signature.return_type)
            self.incref(signature.return_type, item)
        return self.context.cast(self.builder, item, signature.return_type, resty)

    def lower_setitem(self, target_var, index_var, value_var, signature):
        found = self._axes(signature, self.typeof(target_var.name))
        if found is None or len(found[1]) < found[0].ndim or signature.args[2] not in _PLAIN:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        kind, kinds = found
        array, value = self.loadvar(target_var.name), self.loadvar(value_var.name)
        indices = self._indices(index_var, signature.args[1])
        value = self.context.cast(self.builder, value, self.typeof(value_var.name), signature.args[2])
        place = self._place(array, kind, indices, kinds)
        value = self.context.cast(self.builder, value, signature.args[2], kind.dtype)
        store_item(self.context, self.builder, kind, value, place)
        return self.context.get_dummy_value()

    def _axes(self, signature, kind):
        """The array's type and those of its indices, where these are integers and it holds plain numbers."""
        index = signature.args[1]
        kinds = index.types if isinstance(index, types.BaseTuple) else (index,)
        plain = (
            type(kind) is types.Array
            and kind == signature.args[0]
            and kind.dtype in _PLAIN
            and 0 < len(kinds) <= kind.ndim
            and all(isinstance(one, types.Integer) for one in kinds)
            and not self.context.enable_boundscheck
        )
        return (kind, kinds) if plain else None

    def _indices(self, variable, kind):
        index = self.context.cast(self.builder, self.loadvar(variable.name), self.typeof(variable.name), kind)
        if not isinstance(kind, types.BaseTuple):
            return [index]
        return [_part(self.builder, index, (axis,)) for axis in range(len(kind))]

    def _field(self, array, kind, name, axis=None):
        position = self.context.data_model_manager[kind].get_field_position(name)
        return _part(self.builder, array, (position,) if axis is None else (position, axis))

    def _place(self, array, kind, indices, kinds):
        """The address of an element, or of the first one of a row: Numba's sums without those of zeros and ones."""
        builder, offset = self.builder, None
        fixed = [
            fix_integer_index(
                self.context, builder, one, index, self._field(array, kind, "shape", axis) if one.signed else None
            )
            for axis, (index, one) in enumerate(zip(indices, kinds, strict=True))
        ]
        data = self._field(array, kind, "data")
        for axis, index in enumerate(fixed):
            if kind.layout == "A":
                term = builder.mul(self._field(array, kind, "strides", axis), index)
            else:
                term, step = index, None
                for other in range(axis + 1, kind.ndim) if kind.layout == "C" else range(axis):
                    length = self._field(array, kind, "shape", other)
                    step = length if step is None else builder.mul(step, length)
                if step is not None:
                    term = builder.mul(index, step)
            offset = term if offset is None else builder.add(offset, term)
        return pointer_add(builder, data, offset) if kind.layout == "A" else builder.gep(data, [offset])

    def _row(self, array, kind, place, fixed, row):
        """What is left of an array when its first axes are fixed."""
        builder, model = self.builder, self.context.data_model_manager[row]
        value = ir.Constant(self.context.get_value_type(row), ir.Undefined)
        count = None
        for position, axis in enumerate(range(fixed, kind.ndim)):
            length = self._field(array, kind, "shape", axis)
            count = length if count is None else builder.mul(count, length, flags=["nsw"])
            for name in ("shape", "strides"):
                part = length if name == "shape" else self._field(array, kind, name, axis)
                value = builder.insert_value(value, part, [model.get_field_position(name), position])
        fields = {name: self._field(array, kind, name) for name in ("meminfo", "parent", "itemsize")}
        for name, part in {**fields, "data": place, "nitems": count}.items():
            value = builder.insert_value(value, part, model.get_field_position(name))
        return value


def _part(builder, structure, position):
    """A part of a structure: where it was put together just now, what was put there."""
    whole = structure
    while isinstance(whole, InsertValue):
        if tuple(whole.indices) == position:
            return whole.operands[1]
        if tuple(whole.indices)[: len(position)] == position:
            break  # put together from smaller parts
        whole = whole.operands[0]
    return builder.extract_value(structure, position)


@register_pass(mutates_CFG=True, analysis_only=False)
class TerseLowering(NativeLowering):
    _name = "native_lowering"

    @property
    def lowering_class(self):
        return TerseLower
