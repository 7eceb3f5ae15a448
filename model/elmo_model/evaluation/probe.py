"""The linear probe: multinomial logistic regression on frozen vectors."""

import torch
from torch import Tensor
from torch.nn import functional


def predictions(
    train: Tensor, labels: Tensor, test: Tensor, classes: int, iterations: int = 100
) -> Tensor:
    """Train on vectors (N, width) with N labels; map test vectors (M, width) to M labels.

    Features are scaled to mean 0 and variance 1 over the training tokens. The penalty is the one of
    scikit-learn's `C=1`: half the sum of squared weights, divided by N. L-BFGS starts from zero, so
    that no seed is needed; it stops after at most `iterations` steps.
    """
    mean, deviation = train.mean(dim=0), train.std(dim=0, correction=0).clamp(min=1e-6)
    inputs = (train - mean) / deviation
    weight = torch.zeros(classes, train.shape[1], requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weight, bias], max_iter=iterations, line_search_fn="strong_wolfe", history_size=10
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = functional.cross_entropy(functional.linear(inputs, weight, bias), labels)
        value = value + weight.square().sum() / (2 * len(inputs))
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        return functional.linear((test - mean) / deviation, weight, bias).argmax(dim=1)
