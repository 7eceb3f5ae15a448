"""The fused kernel agrees with the plain update; without a GPU, in Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
NEEDS_TRITON = "Triton comes with torch for CUDA"


def test_the_kernel_agrees_with_the_plain_update_and_keeps_nan() -> None:
    pytest.importorskip("triton", reason=NEEDS_TRITON)
    run(
        """
        import torch
        from elmo_model.inference.cuda_graphs.fused_gates import fused
        from elmo_model.inference.cuda_graphs.gate_update import agree

        assert agree(fused, torch.device("cpu"))
        whole = torch.full((1, 4), 9.0)
        fused(torch.zeros(1, 16), torch.zeros(1, 16), whole, 2, torch.float32)
        assert whole.tolist() == [[4.0] * 4]
        c = torch.tensor([[float("nan"), float("inf"), -9.0, 0.5]])
        half = fused(torch.zeros(1, 16), torch.zeros(1, 16), c, 0.5, torch.float32)
        assert c[0, 0].isnan() and half[0, 0].isnan()
        assert c[0, 1:].tolist() == [1.0, -1.0, 0.25]
        """,
        TRITON_INTERPRET="1",
    )


def test_the_kernel_compiles_for_the_gpus_that_torch_supports() -> None:
    pytest.importorskip("triton", reason=NEEDS_TRITON)
    run(
        """
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
        from elmo_model.inference.cuda_graphs.fused_gates import _kernel

        for capability in (75, 80, 86, 89, 90):
            for half in ("fp32", "bf16", "fp16"):
                types = ["*fp32", f"*{half}", "*fp32", f"*{half}", "i32", "fp32"]
                signature = dict(zip(_kernel.arg_names, [*types, "constexpr", "constexpr"]))
                values = {"clipped": True, "block": 512}
                source = ASTSource(fn=_kernel, signature=signature, constexprs=values)
                compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
                assert compiled.asm["cubin"]
        """
    )


def run(program: str, **environment: str) -> None:
    """Run a program in an interpreter of its own: Triton reads its environment once."""
    lines = [line.removeprefix("        ") for line in program.splitlines()]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
