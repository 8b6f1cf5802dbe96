# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Kernels from the disk into the process by the shortest way: their machine code is taken over as it is.

Numba also reads what LLVM would need to link them into others, and lists all names in it: most of the time that loading
takes. Here that waits until a kernel is compiled that calls them.
"""

from __future__ import annotations

import numpy as np
from llvmlite import binding as llvm
from numba.core import types
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import CompileResult
from numba.core.runtime import nrtdynmod, rtsys
from numba.core.typing.typeof import typeof_impl
from numba.np.numpy_support import FROM_DTYPE, map_layout

_typeof_any_array = typeof_impl.dispatch(np.ndarray)


@typeof_impl.register(np.ndarray)
def _typeof_array(value, context):
    """Whether an array is a masked one is asked only where it could be: NumPy loads a large module to answer."""
    kind = FROM_DTYPE.get(value.dtype)
    if type(value) is not np.ndarray or kind is None:
        return _typeof_any_array(value, context)
    return types.Array(kind, value.ndim, map_layout(value), readonly=not value.flags.writeable)


class LoadedLibrary(JITCodeLibrary):
    """What Numba asks of a kernel that it did not compile itself."""

    def __init__(self, codegen, name, code, bitcode):
        CodeLibrary.__init__(self, codegen, name)  # the others' would begin with an empty module for LLVM
        self._linking_libraries, self._bitcode, self._linkable = [], bitcode, None
        codegen._engine._ee.add_object_file(llvm.ObjectFileRef.from_data(code))
        codegen._engine.finalize_object()
        self._finalized = self._disable_inspection = True

    def _get_module_for_linking(self):
        if self._linkable is None:
            self._linkable = llvm.parse_bitcode(self._bitcode)
            self._codegen._engine._load_defined_symbols(self._linkable)
        return self._linkable

    _final_module = property(_get_module_for_linking)


def rebuild(context, libdata, fndesc, environment, *rest):
    """As `CompileResult._rebuild`."""
    name, _, (code, bitcode) = libdata
    signature, objectmode, lifted, annotation, reload_init, environments = rest
    for initialise in reload_init:
        initialise()
    codegen = context.codegen()
    library = LoadedLibrary(codegen, name, code, bitcode)
    codegen._engine._defined_symbols.add(fndesc.llvm_cpython_wrapper_name)
    for one in environments:
        codegen.set_env(one.env_name, one)
    return CompileResult(
        typing_context=context.typing_context,
        target_context=context,
        entry_point=context.get_executable(library, fndesc, environment),
        typing_error=None,
        type_annotation=annotation,
        signature=signature,
        objectmode=objectmode,
        lifted=lifted,
        fndesc=fndesc,
        library=library,
        call_helper=None,
        environment=environment,
        metadata=None,
        reload_init=reload_init,
        referenced_envs=environments,
    )


def start_runtime(context, read, write):
    """Start Numba's runtime, a part of which it would compile in every process: kept like a kernel."""
    usual = nrtdynmod.compile_nrt_functions

    def load_functions(context):
        kept = read()
        if kept is not None:
            return LoadedLibrary(context.codegen(), *kept)
        module, library = nrtdynmod.create_nrt_module(context)
        library.enable_object_caching()
        library.add_ir_module(module)
        library.finalize()
        name, _, (code, bitcode) = library.serialize_using_object_code()
        write((name, code, bitcode))
        return library

    nrtdynmod.compile_nrt_functions = load_functions
    try:
        rtsys.initialize(context)
    finally:
        nrtdynmod.compile_nrt_functions = usual
