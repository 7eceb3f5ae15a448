"""The tagger: where ELMo enters, and that padding changes nothing."""

import pytest
import torch

from benchmarks.study.tagger import PLACES, Batch, Place, Tagger


def made(place: Place) -> Tagger:
    torch.manual_seed(0)
    return Tagger(
        place, ("a", "b"), static=3, layers=3, dimension=4, hidden=5, dropout=0.5, gamma=2.0
    ).eval()


def batch(lengths: list[int]) -> Batch:
    source = torch.Generator().manual_seed(1)
    time = max(lengths)
    rows = len(lengths)
    return Batch(
        torch.randn(rows, time, 3, generator=source),
        torch.randn(3, rows, time, 4, generator=source),
        torch.zeros(rows, time, dtype=torch.long),
        torch.tensor(lengths),
    )


@pytest.mark.parametrize("place", PLACES)
def test_elmo_counts_at_its_place_alone(place: Place) -> None:
    tagger = made(place)
    one = batch([4])
    other = Batch(one.static, one.layers + 1, one.labels, one.lengths)

    assert torch.equal(tagger(one), tagger(other)) == (place == "none")
    assert set(tagger.mixtures) == {"none": set(), "both": {"input", "output"}}.get(place, {place})
    assert all(mixture.gamma.item() == 2 for mixture in tagger.mixtures.values())


def test_the_mixtures_of_both_places_are_two() -> None:
    tagger = made("both")

    tagger.loss(batch([4, 2]), l2_weights=0.1).backward()  # type: ignore[no-untyped-call]

    first, second = (mixture.weights.grad for mixture in tagger.mixtures.values())
    assert first is not None and second is not None
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("place", PLACES)
def test_a_sentence_is_tagged_the_same_in_any_batch(place: Place) -> None:
    tagger, both = made(place), batch([5, 3])
    alone = Batch(
        both.static[1:, :3], both.layers[:, 1:, :3], both.labels[1:, :3], both.lengths[1:]
    )

    torch.testing.assert_close(tagger(both)[1, :3], tagger(alone)[0])
    assert tagger.predict(both)[1] == tagger.predict(alone)[0]
