# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Kernels written down for LLVM in fewer words than Numba uses; LLVM makes the same of them, sooner.

Three of four lines that Numba writes move arrays and tuples of them into memory and out of it again.
"""

from __future__ import annotations

import functools

from numba.core import ir, types
from numba.core.analysis import compute_cfg_from_blocks, compute_use_defs
from numba.core.datamodel import default_manager
from numba.core.datamodel.models import TupleModel, UniTupleModel
from numba.core.lowering import BaseLower, Lower
from numba.core.runtime.context import NRTContext
from numba.np import arrayobj

_usual_array, _usual_indexing = arrayobj.make_array, arrayobj.basic_indexing
_usual_search, _usual_store, _usual_delete = Lower._find_singly_assigned_variable, Lower.storevar, Lower.delvar


def _part(builder, value, index):
    """A part of an array or a tuple: taken out of it once in each block."""
    known = vars(builder).setdefault("_parts", {})
    key = (builder.block, value, index)
    if key not in known:
        known[key] = builder.extract_value(value, index)
    return known[key]


@functools.cache
def _make_array(array_type):
    """Numba's access to the parts of an array; those of a value are taken from it, without a place in memory."""
    usual = _usual_array(array_type)
    if type(array_type) is not types.Array:
        return usual
    plain = usual.__mro__[1]  # Numba's own looks first for a conversion to an array, which no array has

    class Array(usual):
        def __init__(self, context, builder, value=None, ref=None):
            self._whole = None
            if value is None or ref is not None:
                super().__init__(context, builder, value, ref)
                return
            self._context, self._builder, self._whole = context, builder, value
            self._begun_in = builder.block
            self._datamodel = context.data_model_manager[self._fe_type]

        def _make_refs(self, ref):
            return plain._make_refs(self, ref)

        @property
        def shape(self):
            return usual.shape.fget(self) if self._whole is None else self[self._datamodel.get_field_position("shape")]

        def __getitem__(self, index):
            return super().__getitem__(index) if self._whole is None else _part(self._builder, self._whole, index)

        def _getvalue(self):
            return super()._getvalue() if self._whole is None else self._whole

        def __getattr__(self, name):
            if name not in ("_value", "_outer_ref") or self._whole is None:
                return super().__getattr__(name)
            value, self._whole = self._whole, None  # to be written to: from here on in memory
            with self._builder.goto_block(self._begun_in):
                super().__init__(self._context, self._builder, value)
            return self.__dict__[name]

    return Array


def _find_element(context, builder, array_type, array, index_types, indices, boundscheck=None):
    """The element that whole numbers point to: nothing is asked for that only slices need."""
    whole = len(indices) == array_type.ndim and all(isinstance(kind, types.Integer) for kind in index_types)
    if not whole or boundscheck or array_type.layout != "C":
        return _usual_indexing(context, builder, array_type, array, index_types, indices, boundscheck)
    shape, place, step = array.shape, None, None
    for axis in reversed(range(array_type.ndim)):
        size = _part(builder, shape, axis) if index_types[axis].signed or axis else None
        index = arrayobj.fix_integer_index(context, builder, index_types[axis], indices[axis], size)
        index = index if step is None else builder.mul(index, step)
        place = index if place is None else builder.add(index, place)
        step = size if step is None or not axis else builder.mul(size, step)
    return builder.gep(array.data, [place]), [], []


def _get_meminfos(runtime, builder, kind, value):
    """What in a value is counted; no part is taken out of it that is not."""
    models = runtime._context.data_model_manager
    model = models[kind]
    found = [(kind, model.get_nrt_meminfo(builder, value))] if model.has_nrt_meminfo() else []
    for part, take_out in model.traverse(builder):
        if models[part].contains_nrt_meminfo():
            found += runtime.get_meminfos(builder, part, take_out(value))
    return found


def _as_one_argument(usual):
    """The model of a named tuple that Numba takes apart at every call, and puts together inside: ours go whole."""

    class Whole(usual):
        def get_argument_type(self):
            return self.get_value_type()

        def as_argument(self, _builder, value):
            return value

        def from_argument(self, _builder, value):
            return value

    def model(manager, kind):
        ours = kind.instance_class.__module__.startswith("roadbed.")
        return (Whole if ours else usual)(manager, kind)

    return model


default_manager.register(types.NamedTuple, _as_one_argument(TupleModel))
default_manager.register(types.NamedUniTuple, _as_one_argument(UniTupleModel))


def _is_counted(lower, name):
    """Whether references to the variable are: it has to be in order wherever the function is left."""
    if lower._disable_sroa_like_opt:
        return True
    context = lower.context
    return context.enable_nrt and context.data_model_manager[lower.typeof(name)].contains_nrt_meminfo()


def _find_values(lower):
    """Variables that need no memory: also those used in other blocks, where they were surely assigned before."""
    _usual_search(lower)
    if lower.func_ir.func_id.is_generator:
        return
    assigned = {}
    for offset, block in lower.blocks.items():
        for statement in block.find_insts(ir.Assign):
            assigned.setdefault(statement.target.name, []).append(offset)
    used = {}
    for offset, names in compute_use_defs(lower.blocks).usemap.items():
        for name in names:
            used.setdefault(name, []).append(offset)
    dominators = compute_cfg_from_blocks(lower.blocks).dominators()
    for name, offsets in used.items():
        if len(assigned.get(name, ())) == 1 and not _is_counted(lower, name):
            begin = assigned[name][0]
            if all(begin < offset and begin in dominators[offset] for offset in offsets):
                lower._singly_assigned_vars.add(name)


def _store(lower, value, name, argidx=None):
    """What was in the variable before is looked at only where references are counted."""
    if name in lower._singly_assigned_vars or argidx is not None or _is_counted(lower, name):
        _usual_store(lower, value, name, argidx)
        return
    lower._alloca_var(name, lower.typeof(name))
    lower.builder.store(value, lower.getvar(name))


def _delete(lower, name):
    """Likewise."""
    if _is_counted(lower, name):
        _usual_delete(lower, name)


SHORTCUTS = (
    (arrayobj, "make_array", _make_array),
    (arrayobj, "basic_indexing", _find_element),
    (NRTContext, "get_meminfos", _get_meminfos),
    (BaseLower, "create_cfunc_wrapper", lambda lower: None),  # nothing calls from C
    (Lower, "_find_singly_assigned_variable", _find_values),
    (Lower, "storevar", _store),
    (Lower, "delvar", _delete),
)
