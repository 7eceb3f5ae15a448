"""The versions, the memory and the device that a machine with a GPU has.

    python -m benchmarks.gpu.environment [--device cuda:0]

Prints one fact a line. Ends with 1 where torch cannot use the device, and says why.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys

import torch

from benchmarks.machine import describe

_QUERY = "name,driver_version,memory.total,clocks.max.sm,power.limit"


def driver() -> str:
    """Return what `nvidia-smi` reports, a GPU a line, or that there is none."""
    if (program := shutil.which("nvidia-smi")) is None:
        return "no nvidia-smi"
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return (done.stdout or done.stderr).strip() or "no output"


def of_torch(device: torch.device) -> list[str]:
    """Return the facts that torch knows of a device. Raises RuntimeError if it cannot use it."""
    product = float((torch.ones(8, 8, device=device) @ torch.ones(8, 8, device=device)).sum())
    lines = [f"product of ones: {product:g}, expected 512"]
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        free, total = torch.cuda.mem_get_info(device)
        lines += [
            f"device: {found.name}, compute capability {found.major}.{found.minor}",
            f"memory: {free >> 20} of {total >> 20} MiB free",
            f"CUDA {torch.version.cuda}, cuDNN {cudnn}",
            f"cuDNN rounds to TF32: {torch.backends.cudnn.allow_tf32}",
            f"compiled for: {' '.join(torch.cuda.get_arch_list())}",
        ]
    return lines


def main() -> int:
    """Print the facts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda:0")
    device = torch.device(parser.parse_args().device)
    print(describe())
    print(f"driver: {driver()}")
    for name in ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"):
        print(f"{name}: {os.environ.get(name, 'not set')}")
    try:
        print("\n".join(of_torch(device)))
    except (RuntimeError, AssertionError) as error:  # without a driver, or without CUDA
        print(f"{device} cannot be used: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
