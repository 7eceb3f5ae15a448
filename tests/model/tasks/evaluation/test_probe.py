"""The linear probe: it learns linear functions of its features, and no others."""

import torch

from elmo_model.tasks.evaluation.probe import nearest_centroid, predictions


def test_what_is_linear_is_learnt_at_any_scale() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(600, 8, generator=generator)
    labels = (features @ torch.randn(8, 3, generator=generator)).argmax(dim=1)
    scaled = features * torch.logspace(-3, 3, 8) + 5
    found = predictions(scaled[:400], labels[:400], scaled[400:], 3)
    assert (found == labels[400:]).float().mean() > 0.93
    again = predictions(scaled[:400], labels[:400], scaled[400:], 3)
    assert torch.equal(found, again)


def test_an_exclusive_or_is_not() -> None:
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(600, 2, generator=generator)
    labels = (features[:, 0] * features[:, 1] > 0).long()
    found = predictions(features[:400], labels[:400], features[400:], 2)
    assert (found == labels[400:]).float().mean() < 0.7


def test_a_feature_that_never_changes_does_no_harm() -> None:
    features = torch.tensor([[1.0, 7.0], [-1.0, 7.0], [2.0, 7.0], [-2.0, 7.0]])
    found = predictions(features, torch.tensor([1, 0, 1, 0]), features, 2)
    assert found.tolist() == [1, 0, 1, 0]


def test_the_nearest_centroid_has_the_greatest_cosine() -> None:
    train = torch.tensor([[10.0, 0.0], [20.0, 1.0], [0.0, 0.1], [0.1, 0.2]])
    found = nearest_centroid(
        train, torch.tensor([0, 0, 1, 1]), torch.tensor([[0.2, 0.1], [0.4, 2.0]]), 2
    )
    assert found.tolist() == [0, 1]
