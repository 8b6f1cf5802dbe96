# SPDX-License-Identifier: Apache-2.0
"""Joules and watts of a device while it works, where the platform tells: RAPL for CPUs, NVML for NVIDIA GPUs."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from roadbed.runtime.device import Device

RAPL = Path("/sys/class/powercap")


class Meter:
    """Reads the joules a device has used so far; `why_not` says why it cannot."""

    def __init__(self, device: Device, rapl: Path = RAPL) -> None:
        self.name, self.why_not = "", ""
        self._joules: Callable[[], float] | None = None
        if device.kind == "cpu":
            self._open_rapl(rapl)
        elif "nvidia" in f"{device.name} {device.driver}".lower() or device.backend == "cuda":
            self._open_nvml(device)
        else:
            self.why_not = f"{device.name} tells no energy"

    def per_call(self, call: Callable[[], object], seconds: float = 1.0) -> dict[str, float | None]:
        """Joules per call and mean watts over calls for some time; None where the platform does not tell."""
        if self._joules is None:
            return {"joules": None, "watts": None}
        begin, before, calls = perf_counter(), self._joules(), 0
        while perf_counter() - begin < seconds or not calls:
            call()
            calls += 1
        used, took = self._joules() - before, perf_counter() - begin
        return {"joules": used / calls, "watts": used / took}

    def _open_rapl(self, folder: Path) -> None:
        """All packages of the host together, whatever else runs on it; counters that wrap are too rare to matter."""
        counters = sorted(folder.glob("intel-rapl:[0-9]*/energy_uj"))
        counters = [counter for counter in counters if counter.parent.name.count(":") == 1]
        try:
            found = [int(counter.read_text()) for counter in counters]
        except (OSError, ValueError):
            found = []
        if not found:
            self.why_not = f"RAPL: no readable counter under {folder}"
            return
        self.name = "RAPL, all packages of the host"
        self._joules = lambda: 1e-6 * sum(int(counter.read_text()) for counter in counters)

    def _open_nvml(self, device: Device) -> None:
        try:
            import pynvml
        except ImportError:
            self.why_not = "NVML: the package nvidia-ml-py is not installed"
            return
        try:
            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByIndex(device.index)
            pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        except pynvml.NVMLError as error:
            self.why_not = f"NVML: {error}"
            return
        self.name = "NVML, the whole GPU"
        self._joules = lambda: 1e-3 * pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
