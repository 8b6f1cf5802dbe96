# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Kernels compiled with less work than Numba does by itself; what they compute is the same.

Numba optimises and emits each function as a library of its own, and once more inside every kernel that calls it. What
Python cannot call is only linked here: most of Numba's own functions, and those that only kernels call. Nor does
anybody look for garbage meanwhile.
"""

from __future__ import annotations

import gc
import re
from types import CodeType

from llvmlite import binding as llvm
from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.environment import lookup_environment
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import (
    FindLiterallyCalls,
    InlineClosureLikes,
    InlineInlinables,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    WithLifting,
)

from roadbed.kernels import shortcuts
from roadbed.kernels.fingerprint import called_by
from roadbed.kernels.terse import TerseLowering

_CALLED_BY_PYTHON = "_ZN7cpython"  # how the name of the wrapper begins that Python calls
_REORDERED = re.compile(r" = f(add|sub|mul|div) (reassoc|fast) ")
_ENVIRONMENT = "_ZN08NumbaEnv"  # and that of the place where a function finds its constants
# Steps for what no kernel says, `with`, `literally`, `literal_unroll` and `isinstance`; for sums of whole arrays, which
# become one loop; and for `bool(x)`, copied into the source. One that said so would not compile, or take a loop more.
_IDLE = frozenset(
    {
        WithLifting, FindLiterallyCalls, LiteralUnroll, LiteralPropagationSubPipelinePass, NopythonRewrites,
        InlineOverloads,
    }
)  # fmt: skip
_FOR_CLOSURES = frozenset({InlineClosureLikes, MakeFunctionToJitFunction})


class _LeanLibrary(JITCodeLibrary):
    _only_linked = True

    def add_ir_module(self, ir_module):
        if any(function.name.startswith(_CALLED_BY_PYTHON) for function in ir_module.functions):
            self._only_linked = False
        super().add_ir_module(ir_module)

    def _set_compiled_object(self, value):
        self._only_linked = False  # it comes from the disk as a whole
        super()._set_compiled_object(value)

    def _optimize_functions(self, ll_module):
        """Values out of memory, and no more: what Numba does here at full length is done again to the whole kernel.

        Only the order of sums that may be reordered would come out as another.
        """
        options = ConfigStack.top_or_none()
        if (options is None or options.fastmath.flags) and _REORDERED.search(str(ll_module)):
            super()._optimize_functions(ll_module)
            return
        ll_module.data_layout = self._codegen._data_layout
        tuning = self._codegen._pass_builder()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes = llvm.create_new_function_pass_manager()
                passes.add_sroa_pass()
                passes.add_simplify_cfg_pass()
                passes.run(function, tuning)

    def _optimize_final_module(self):
        if self._only_linked:
            return
        super()._optimize_final_module()
        if config.OPT == 0:
            self._drop_unused_addresses()

    def _drop_unused_addresses(self):
        """Numba writes down the address of each kernel that is called, which nobody reads and optimising removes.

        Left in, as by NUMBA_OPT=0, they would tie the code to this process: it could not be kept on disk.
        """
        passes = llvm.create_new_module_pass_manager()
        passes.add_dead_code_elimination_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(self._final_module, self._codegen._pass_builder())

    def _finalize_final_module(self):
        if self._only_linked:
            self._finalize_dynamic_globals()
            self._finalized = True
            return
        super()._finalize_final_module()
        for variable in self._final_module.global_variables:  # also of what was linked
            if variable.name.startswith(_ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    self.codegen.set_env(variable.name, environment)


class LeanCompiler(Compiler):
    """Numba's own compiler, with such libraries while a kernel is compiled; Numba lets one compile at a time."""

    def define_pipelines(self):
        """Numba's own steps without those that would find nothing to do in this function."""
        function, idle = self.state.func_id.func, _IDLE
        if not any(isinstance(constant, CodeType) for constant in function.__code__.co_consts):
            idle |= _FOR_CLOSURES
        if not any(called.targetoptions.get("inline") == "always" for called in called_by(function)):
            idle |= {InlineInlinables}
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [
                (TerseLowering if step is NativeLowering else step, told)
                for step, told in pipeline.passes
                if step not in idle
            ]
            pipeline.finalize()
        return pipelines

    def compile_extra(self, function):
        codegen, collects = self.state.targetctx.codegen(), gc.isenabled()
        if codegen._library_class is _LeanLibrary:  # called by a kernel that is being compiled
            return super().compile_extra(function)
        usual, set_environment = codegen._library_class, codegen.set_env

        def set_if_emitted(name, environment):
            if codegen._engine.is_symbol_defined(name):
                set_environment(name, environment)

        codegen._library_class, codegen.set_env = _LeanLibrary, set_if_emitted
        gc.disable()  # millions of objects are made, and nearly all are needed until the end
        try:
            with shortcuts.taken():
                return super().compile_extra(function)
        finally:
            codegen._library_class = usual
            del codegen.set_env
            if collects:
                gc.enable()
