"""The choice of the update: another one is used only where it gives the same numbers."""

import torch

from elmo_model.inference.cuda_graphs.gate_update import agree, fastest, plain


def test_without_cuda_or_float32_the_update_is_the_plain_one() -> None:
    assert fastest(torch.zeros(1)) is plain
    assert fastest(torch.zeros(1, dtype=torch.float64)) is plain


def test_only_the_right_update_agrees_with_the_plain_one() -> None:
    def without_clip(*arguments: object) -> torch.Tensor:
        addend, product, c, _, dtype = arguments
        return plain(addend, product, c, None, dtype)  # type: ignore[arg-type]

    def of_another_type(*arguments: object) -> torch.Tensor:
        return plain(*arguments).double()  # type: ignore[arg-type]

    cpu = torch.device("cpu")
    assert agree(plain, cpu)
    assert not agree(without_clip, cpu)
    assert not agree(of_another_type, cpu)
