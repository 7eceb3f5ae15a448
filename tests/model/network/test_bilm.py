"""The biLM: each direction sees its side alone, rows that have ended take part in no step."""

import pytest
import torch
from torch import Tensor

from elmo_model.network.bilm import BiLM, Packing, Stack
from elmo_model.network.config import LSTMConfig
from elmo_model.network.state import State


def config(**changes: object) -> LSTMConfig:
    values: dict[str, object] = {
        "layers": 2,
        "cell": 6,
        "projection": 4,
        "cell_clip": 3.0,
        "projection_clip": 3.0,
        "skip": True,
    }
    return LSTMConfig(**{**values, **changes})  # type: ignore[arg-type]


def bilm(**changes: object) -> BiLM:
    network = BiLM(config(**changes))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.7, generator=generator)
    return network.eval()


def tokens(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


def test_forward_sees_only_the_past_and_backward_only_the_future() -> None:
    network, words = bilm(), tokens(5)
    before, _ = network(words, [5])
    changed = words.clone()
    changed[2] += 1
    after, _ = network(changed, [5])
    differs = (before != after).reshape(3, 5, 2, 4).any(dim=3)
    assert differs[1:, :, 0].tolist() == [[False, False, True, True, True]] * 2
    assert differs[1:, :, 1].tolist() == [[True, True, True, False, False]] * 2


def test_the_backward_direction_is_the_forward_one_of_the_mirrored_sentence() -> None:
    network, words = bilm(), tokens(7)
    network.backward_stack.load_state_dict(network.forward_stack.state_dict())
    ahead, _ = network(words, [4, 3])
    mirrored = torch.cat((words[:4].flip(0), words[4:].flip(0)))
    behind, _ = network(mirrored, [4, 3])
    for start, end in ((0, 4), (4, 7)):
        torch.testing.assert_close(ahead[:, start:end, :4], behind[:, start:end, 4:].flip(1))


def test_layer_zero_is_the_token_vector_twice() -> None:
    words = tokens(4)
    layers, _ = bilm()(words, [4])
    assert torch.equal(layers[0], torch.cat((words, words), dim=1))


def test_the_residual_starts_at_the_second_layer_and_some_models_have_none() -> None:
    words = tokens(4)
    plain, skipping = bilm(skip=False), bilm(skip=True)
    without, _ = plain(words, [4])
    with_it, _ = skipping(words, [4])
    torch.testing.assert_close(with_it[1], without[1])
    torch.testing.assert_close(with_it[2], without[2] + without[1])


def test_the_carried_state_is_without_residual_and_clipped() -> None:
    network = bilm(cell_clip=0.2, projection_clip=0.1)
    layers, state = network(tokens(4), [4])
    assert state.h.abs().max() <= 0.1 and state.c.abs().max() <= 0.2
    assert layers[2].abs().max() > 0.1


def test_an_ended_sentence_keeps_the_state_of_its_own_last_step() -> None:
    network = bilm()
    words = tokens(9)
    lengths, parts = [2, 6, 1], [words[:2], words[2:8], words[8:]]
    _, together = network(words, lengths)
    for row, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        _, alone = network(part, [length])
        torch.testing.assert_close(together.h[:, row], alone.h[:, 0])
        torch.testing.assert_close(together.c[:, row], alone.c[:, 0])


def test_gradients_agree_with_finite_differences_through_state_and_lengths() -> None:
    network = bilm(cell_clip=0.5, projection_clip=0.4).double()

    def answer(words: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        layers, after = network(words, [1, 3], State(h, c))
        return layers, after.h, after.c

    generator = torch.Generator().manual_seed(1)
    shapes = [(4, 4), (2, 2, 8), (2, 2, 12)]
    inputs = [torch.randn(s, generator=generator).double().requires_grad_() for s in shapes]
    assert torch.autograd.gradcheck(answer, inputs, fast_mode=True)


def random_stack() -> Stack:
    stack, generator = Stack(config()).eval(), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.normal_(0, 0.7, generator=generator)
    return stack


def test_a_text_in_two_parts_with_state_gives_the_vectors_of_the_whole() -> None:
    stack, words = random_stack(), tokens(12).reshape(6, 2, 4)
    h, c = torch.zeros(2, 2, 4), torch.zeros(2, 2, 6)
    whole, _, _ = stack(words.reshape(12, 4), [2] * 6, h, c)
    first, h, c = stack(words[:2].reshape(4, 4), [2] * 2, h, c)
    second, _, _ = stack(words[2:].reshape(8, 4), [2] * 4, h, c)
    for layer in range(2):
        torch.testing.assert_close(torch.cat((first[layer], second[layer])), whole[layer])


def test_dropout_falls_on_the_input_of_every_layer_and_the_residual_adds_what_is_left() -> None:
    network = BiLM(config(), dropout=0.5)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        for stack in (network.forward_stack, network.backward_stack):
            stack.get_parameter("layers.0.bias").fill_(1.0)  # layer 1 gives numbers, layer 2 zeros
            stack.get_parameter("layers.0.projection.weight").fill_(0.5)
    torch.manual_seed(0)
    layers, _ = network.train()(tokens(6), [6])
    kept = layers[2] / layers[1]
    assert set(kept.round(decimals=4).flatten().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("lengths", [[1], [3, 1, 4, 1, 5], [2, 2, 2], [7, 1], [1] * 9])
def test_packing_visits_every_token_once(lengths: list[int]) -> None:
    packing = Packing.of(lengths, torch.device("cpu"))
    total = sum(lengths)
    assert list(packing.sizes) == sorted(packing.sizes, reverse=True)
    assert sum(packing.sizes) == total and packing.sizes[0] == len(lengths)
    for positions in (packing.forward, packing.backward):
        assert torch.equal(positions.sort().values, torch.arange(total))
    assert torch.equal(packing.order[packing.rank], torch.arange(len(lengths)))
    assert packing.forward[: len(lengths)].sort().values.tolist() == [
        sum(lengths[:row]) for row in range(len(lengths))
    ]


def test_the_backward_direction_mirrors_each_sentence_within_its_own_length() -> None:
    packing = Packing.of([2, 3], torch.device("cpu"))
    assert packing.sizes == (2, 2, 1)
    assert packing.order.tolist() == [1, 0]
    assert packing.forward.tolist() == [2, 0, 3, 1, 4]
    assert packing.backward.tolist() == [4, 1, 3, 0, 2]
