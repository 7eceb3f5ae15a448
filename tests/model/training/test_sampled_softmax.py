"""Sampled words are log-uniform; the full softmax is independent of the size of its parts."""

import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo_model.training import sampled_softmax
from elmo_model.training.sampled_softmax import Softmax, draw_candidates, expected_count


def softmax(words: int = 40, width: int = 5) -> Softmax:
    return Softmax(words, width).initialise(torch.Generator().manual_seed(1))


def test_biases_from_counts_are_the_unigram_model() -> None:
    layer, counts = softmax(words=4), torch.tensor([6, 3, 1, 0])
    layer.bias_from(counts)
    nothing = torch.zeros(4, 5)
    losses = layer.full(nothing, torch.arange(4))
    expected = [-math.log(count / 10.5) for count in (6, 3, 1, 0.5)]
    assert losses.tolist() == pytest.approx(expected)


def test_candidates_are_distinct() -> None:
    for seed in range(20):
        candidates, tries = draw_candidates(30, 50, np.random.default_rng(seed))
        assert len(set(candidates.tolist())) == 30
        assert candidates.min() >= 0 and candidates.max() < 50
        assert tries >= 30


@pytest.mark.parametrize(("count", "size"), [(1, 2), (30, 50), (49, 50), (300, 4000)])
def test_candidates_are_the_first_distinct_words_of_the_draws(count: int, size: int) -> None:
    """How many are drawn at once changes no number of a run."""
    uniform = np.random.default_rng(1).random(100_000)
    draws = np.minimum(np.exp(uniform * math.log(size + 1)).astype(np.int64) - 1, size - 1).tolist()
    found, tries = draw_candidates(count, size, np.random.default_rng(1))
    assert found.tolist() == list(dict.fromkeys(draws))[:count]
    assert tries == draws.index(found[-1]) + 1


def test_words_have_their_expected_counts() -> None:
    size, count, rounds = 60, 12, 4000
    drawn, expected = np.zeros(size), np.zeros(size)
    for seed in range(rounds):
        candidates, tries = draw_candidates(count, size, np.random.default_rng(seed))
        drawn[candidates] += 1
        expected += expected_count(torch.arange(size), torch.tensor(float(tries)), size).numpy()
    # TensorFlow's expected count is itself an estimate: it takes the number of tries as given
    np.testing.assert_allclose(drawn / rounds, expected / rounds, rtol=0.12, atol=0.01)
    single = expected_count(torch.arange(size), torch.tensor(1.0), size)
    assert single.sum().item() == pytest.approx(1, abs=1e-6)
    assert single[0].item() == pytest.approx(math.log(2) / math.log(size + 1))


@pytest.mark.parametrize("count", [0, 50, 51])
def test_more_candidates_than_words_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="expected from 1 to 49"):
        draw_candidates(count, 50, np.random.default_rng(0))


def test_a_candidate_that_is_the_target_has_no_effect() -> None:
    layer, inputs = softmax(), torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    tries = torch.tensor(9.0)
    alone = layer.sampled(inputs, torch.tensor([3, 4]), torch.tensor([7]), tries)
    hit = layer.sampled(inputs, torch.tensor([3, 4]), torch.tensor([7, 3]), tries)
    assert hit[0] == alone[0] and hit[1] > alone[1]
    only = layer.sampled(inputs[:1], torch.tensor([3]), torch.tensor([3]), tries)
    torch.autograd.backward(only.sum())
    assert only.item() == 0 and layer.weight.grad is not None
    assert bool(torch.isfinite(layer.weight.grad).all())


@pytest.mark.parametrize("held", [1 << 20, 25])  # all rows at once, and two at a time
def test_losses_and_gradients_are_those_of_explicit_logits(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sampled_softmax.SAMPLED, "cpu", held)
    layer = softmax().double()
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(7, 5, dtype=torch.float64, generator=generator).requires_grad_()
    targets, candidates = torch.tensor([3, 30, 8, 9, 31, 4, 3]), torch.arange(12) * 3
    tries, scale = torch.tensor(20.0), torch.rand(7, dtype=torch.float64, generator=generator)
    counts = [expected_count(words, tries, 40).double() for words in (targets, candidates)]

    logits = inputs @ layer.weight[candidates].T + layer.bias[candidates] - counts[1].log()
    own = (inputs * layer.weight[targets]).sum(dim=1) + layer.bias[targets] - counts[0].log()
    logits = logits.masked_fill(targets.unsqueeze(1) == candidates, -math.inf)
    expected = torch.cat((own.unsqueeze(1), logits), dim=1).logsumexp(dim=1) - own
    found = layer.sampled(inputs, targets, candidates, tries)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)  # counts in float32

    leaves = [inputs, layer.weight, layer.bias]
    for one, other in zip(
        torch.autograd.grad((found * scale).sum(), leaves),
        torch.autograd.grad((expected * scale).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_the_full_softmax_is_independent_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = softmax().double()
    inputs = torch.randn(11, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(11)
    gradients = []
    for held in (1 << 20, 120):  # all rows at once, and three at a time
        layer.zero_grad()
        monkeypatch.setattr(sampled_softmax, "LOGITS", held)
        losses = layer.full(inputs, targets)
        torch.autograd.backward(losses.sum())
        assert layer.weight.grad is not None
        gradients.append((losses.detach(), layer.weight.grad.clone()))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    logits = inputs @ layer.weight.T + layer.bias
    expected = -torch.log_softmax(logits, dim=1)[torch.arange(11), targets]
    torch.testing.assert_close(gradients[0][0], expected.detach())


class Storages(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the memory that operations read, and keeps the memory that they make."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.read, self.made = set[int](), dict[int, torch.UntypedStorage]()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor):
                self.read.add(leaf.untyped_storage().data_ptr())
        for leaf in tree_leaves(found):
            if isinstance(leaf, torch.Tensor):
                self.made[leaf.untyped_storage().data_ptr()] = leaf.untyped_storage()
        return found


@pytest.mark.parametrize("held", [1 << 20, 120])
def test_two_queues_of_a_cuda_graph_may_compute_the_full_softmax(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither waits for what the other one makes; a graph cannot read the random state."""
    monkeypatch.setattr(sampled_softmax, "LOGITS", held)
    monkeypatch.setattr(torch, "get_rng_state", lambda: pytest.fail("reads the random state"))
    layer, inputs = softmax(), torch.ones(11, 5, dtype=torch.bfloat16)
    queues = Storages(), Storages()
    with torch.autocast("cpu", torch.bfloat16):
        for queue in queues:
            with queue:
                losses = layer.full(inputs, torch.arange(11))
    torch.autograd.backward(losses.sum())
    given = {inputs, layer.weight, layer.bias}
    made = queues[0].made.keys() - {each.untyped_storage().data_ptr() for each in given}
    assert made and not made & queues[1].read
