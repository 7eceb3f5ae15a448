"""On a CUDA device: the whole service answers the published vectors."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.command_line import elmo
from tests.support.cuda import DEVICE, KIND, NEEDS_DEVICE
from tests.support.http_messages import decoded
from tests.support.servers import SMALL, spawned

pytestmark = [pytest.mark.cuda, NEEDS_DEVICE]

NPZ = "application/x-npz"


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("float16", 0.05)])
def test_a_service_on_the_device_answers_the_published_vectors(
    tmp_path: Path, precision: str, tolerance: float
) -> None:
    every = json.loads((SMALL.parent / "sentences.json").read_text(encoding="utf-8"))["sentences"]
    numbers = [n for n, words in enumerate(every) if "".join(words).isprintable()]
    body = {"sentences": [every[number] for number in numbers]}

    with (
        spawned(tmp_path, model=SMALL, devices=DEVICE, precision=precision) as server,
        server.client() as client,
    ):
        answer = client.post("/embed", json=body, headers={"Accept": NPZ})
        devices = client.get("/info").json()["devices"]

    assert answer.status_code == 200, answer.text
    assert devices == [DEVICE]
    with np.load(SMALL / "stateless_f64.npz") as expected:
        for number, found in zip(numbers, decoded(NPZ, answer.content), strict=True):
            name = next(name for name in expected if name.endswith(f"_s{number}_full"))
            np.testing.assert_allclose(found, expected[name][:, 1:-1], rtol=0, atol=tolerance)


def test_a_fit_and_a_look_compute_on_the_device(tmp_path: Path) -> None:
    (train := tmp_path / "train.txt").write_text("a X\nb Y\n\na X\nb Y\n\na X\nb Y\n")
    fit = ("fit", "t", "--kind", "token", "--train", train, "--out", tmp_path, "--model", SMALL)
    look = ("look", "a bank", "the bank", "--model", SMALL, "--json")

    assert elmo(*fit, "--device", KIND).exit_code == 0
    here, there = (elmo(*look, "--device", device) for device in ("cpu", KIND))
    pairs = [json.loads(each.stdout)["pairs"]["1 and 2"] for each in (here, there)]
    assert pairs[1] == pytest.approx(pairs[0], abs=1e-4)  # products in another order
