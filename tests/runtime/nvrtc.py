# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's run-time compiler by ctypes: it needs neither a GPU nor a driver."""

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def library() -> ctypes.CDLL | None:
    """libnvrtc from the package nvidia-cuda-nvrtc, else the system's."""
    spec = find_spec("nvidia")
    roots = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    for name in [str(f) for root in roots for f in sorted(root.glob("**/libnvrtc.so*"))] + ["libnvrtc.so"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def compile_to_ptx(source: str, architecture: str, options: tuple[str, ...]) -> tuple[bool, str]:
    """Whether it compiled, and the PTX or the log."""
    nvrtc = library()
    assert nvrtc is not None
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None) == 0
    flags = [f"--gpu-architecture={architecture}".encode(), *(option.encode() for option in options)]
    status = nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    kind = "PTX" if status == 0 else "ProgramLog"
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{kind}")(program, text)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return status == 0, text.value.decode()
