"""A model in this process: the vectors of the network, whatever its batch."""

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError
from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.models.in_process import InProcess, open_network, place_of
from elmo_serve.selection import select
from elmo_serve.workers.devices import Hardware
from tests.support.servers import SMALL
from tests.support.vectors import all_close, layers_of

SENTENCES = [["The", "cat", "sat"], [], ["a"]]


@pytest.fixture(scope="module")
def network() -> InProcess:
    return open_network(str(SMALL), device="cpu")


def test_vectors_are_those_of_the_network(network: InProcess, elmo: ElmoNetwork) -> None:
    found = network.embed(SENTENCES, select("average", 3))

    all_close(found, [layers.mean(0) for layers in layers_of(elmo, SENTENCES)])


def test_the_description_is_that_of_the_model(network: InProcess, elmo: ElmoNetwork) -> None:
    assert network.info.revision == elmo.origin.revision
    assert (network.info.layers, network.info.dimension) == (3, 32)
    assert network.device == "cpu"


def test_state_is_carried(network: InProcess, elmo: ElmoNetwork) -> None:
    first, second = [["The", "cat"], ["a"]], [["sat", "."], ["b", "c"]]
    output = select("top", 3)

    _, state = network.carry(first, output)
    found, _ = network.carry(second, output, state)

    with torch.inference_mode():
        _, after = elmo(first)
        expected, _ = elmo(second, after)
    all_close(found, [layers[-1, 1:-1].numpy() for layers in expected.sentences()])
    fresh = network.embed(second, output)
    assert np.abs(found[0] - fresh[0]).max() > 1e-3  # the state made a difference


@pytest.mark.parametrize(
    ("device", "count", "place"),
    [
        *(("auto", 2, "cuda:0"), ("auto", 0, "cpu")),
        *(("cuda", 2, "cuda:0"), ("cuda:1", 2, "cuda:1"), ("cpu", 2, "cpu")),
    ],
)
def test_a_device_is_named_with_or_without_its_number(device: str, count: int, place: str) -> None:
    assert place_of(device, Hardware(count)) == place


@pytest.mark.parametrize(("device", "count"), [("cuda", 0), ("cuda:1", 1), ("gpu", 1)])
def test_a_device_that_is_not_there_is_refused(device: str, count: int) -> None:
    there = "cpu, cuda:0" if count else "cpu"
    with pytest.raises(ValueError, match=f"there is no {device}; there is {there}$"):
        place_of(device, Hardware(count))


def test_a_device_or_model_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there is no cuda:99; there is .*cpu"):
        open_network(str(SMALL), device="cuda:99")
    with pytest.raises(CheckpointError, match="nowhere"):
        open_network("nowhere")
    with pytest.raises(ValueError, match="int3"):
        open_network(str(SMALL), precision="int3", device="cpu")
