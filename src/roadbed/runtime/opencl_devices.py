# SPDX-License-Identifier: Apache-2.0
"""The OpenCL devices of this machine, through PyOpenCL."""

from functools import cache
from typing import Any

from roadbed.runtime.device import Device


@cache
def handles() -> tuple[tuple[Any, ...], str]:
    """The usable PyOpenCL devices, and the reason if there are none."""
    try:
        import pyopencl as cl
    except ImportError:
        return (), "OpenCL: the package pyopencl is not installed (in the checkout: pip install -e '.[opencl]')"
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return (), "OpenCL: no driver is installed (any vendor's, or PoCL: apt install pocl-opencl-icd)"
    found = []
    for platform in platforms:
        try:
            found += [d for d in platform.get_devices() if d.available and d.compiler_available]
        except cl.Error:
            continue
    return tuple(found), "OpenCL: a driver is installed, but it offers no device with a compiler"


@cache
def devices() -> list[Device]:
    if not handles()[0]:
        return []
    import pyopencl as cl

    kinds = {cl.device_type.GPU: "gpu", cl.device_type.CPU: "cpu"}
    return [
        Device(
            backend="opencl",
            index=index,
            name=handle.name.strip(),
            kind=next((kind for flag, kind in kinds.items() if handle.type & flag), "other"),
            memory=handle.global_mem_size,
            units=handle.max_compute_units,
            driver=f"{handle.platform.name.strip()} {handle.driver_version.strip()}",
            has_double="cl_khr_fp64" in handle.extensions or bool(handle.double_fp_config),
            largest_group=handle.max_work_group_size,
            native_floats=handle.native_vector_width_float,
        )
        for index, handle in enumerate(handles()[0])
    ]


def why_missing() -> str:
    return handles()[1]
