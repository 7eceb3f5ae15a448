"""`elmo annotate` with made-up heads, against the networks that were published with SeqVec."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from elmo_model.checkpoints import load
from elmo_model.network.elmo import Elmo
from elmo_model.tasks.protein_heads import LOCATIONS, MEMBRANES, STRUCTURES
from tests.support.command_line import elmo as command
from tests.support.servers import SMALL

WIDTH = 32  # of the golden model
SEQUENCES = {"P1": "SEQWENCE", "P2": "", "P3": "ACDEFGHIKLMNPQRSTVWY"}


def convolution(width: int, classes: int) -> nn.Module:
    return nn.Conv2d(width, classes, kernel_size=(7, 1), padding=(3, 0))


class Structure(nn.Module):
    """`SecStructCNN` of bio_embeddings, of another width."""

    def __init__(self) -> None:
        super().__init__()
        layers = (convolution(WIDTH, 32), nn.ReLU(), nn.Dropout(0.25))
        self.elmo_feature_extractor = nn.Sequential(*layers)
        self.dssp3_classifier = nn.Sequential(convolution(32, 3))
        self.dssp8_classifier = nn.Sequential(convolution(32, 8))
        self.diso_classifier = nn.Sequential(convolution(32, 2))

    def forward(self, values: Tensor) -> dict[str, Tensor]:
        found = self.elmo_feature_extractor(values)
        heads = (self.dssp3_classifier, self.dssp8_classifier, self.diso_classifier)
        return dict(zip(STRUCTURES, (head(found)[0, :, :, 0] for head in heads), strict=True))


class Location(nn.Module):
    """`SubCellFNN` of bio_embeddings, of another width."""

    def __init__(self) -> None:
        super().__init__()
        layers = (nn.Linear(WIDTH, 32), nn.Dropout(0.25), nn.ReLU(), nn.BatchNorm1d(32))
        self.layer = nn.Sequential(*layers)
        self.loc_classifier, self.mem_classifier = nn.Linear(32, 10), nn.Linear(32, 2)

    def forward(self, mean: Tensor) -> tuple[Tensor, Tensor]:
        found = self.layer(mean)
        return self.loc_classifier(found), self.mem_classifier(found)


@pytest.fixture(scope="module")
def heads() -> tuple[Structure, Location]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        structure, location = Structure().eval(), Location().eval()
        norm = location.layer[3]
        assert isinstance(norm, nn.BatchNorm1d)
        assert norm.running_mean is not None and norm.running_var is not None
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
    return structure, location


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return load(SMALL)


@pytest.fixture
def proteins(tmp_path: Path) -> Path:
    path = tmp_path / "in.fasta"
    path.write_text("".join(f">{name} of X\n{text}\n" for name, text in SEQUENCES.items()))
    return path


def records(path: Path) -> list[list[str]]:
    return [f"{each}\n".split("\n", 1) for each in path.read_text().removeprefix(">").split("\n>")]


@torch.inference_mode()
def test_the_classes_are_those_of_the_published_networks(
    proteins: Path, tmp_path: Path, elmo: Elmo, heads: tuple[Structure, Location]
) -> None:
    """One head is a checkpoint with a state dict, the other a bare one, as they were published."""
    structure, location = heads
    torch.save({"state_dict": structure.state_dict(), "epoch": 3}, tmp_path / "structure.pt")
    torch.save(location.state_dict(), tmp_path / "location.pt")
    files = ("--structure", tmp_path / "structure.pt", "--location", tmp_path / "location.pt")

    done = command("annotate", proteins, tmp_path / "out", "--model", SMALL, *files)

    assert done.exit_code == 0, done.output
    sums = [each.sum(0) for each in elmo.embed([list(text) for text in SEQUENCES.values()])]
    digests = (hashlib.md5(each.encode(), usedforsecurity=False) for each in SEQUENCES.values())
    keys = [each.hexdigest() for each in digests]
    predicted = [
        structure(each.T[None, :, :, None]) if len(each) else dict.fromkeys(STRUCTURES, each.T)
        for each in sums
    ]
    for name, letters in STRUCTURES.items():
        found = records(tmp_path / "out" / f"{name}_predictions_file.fasta")
        assert [header for header, _ in found] == [
            f"{key} {protein} of X" for key, protein in zip(keys, SEQUENCES, strict=True)
        ]
        for (_, text), scores in zip(found, predicted, strict=True):
            best = scores[name].argmax(0)
            assert text.replace("\n", "") == "".join(letters[each] for each in best)
    table = (tmp_path / "out/per_sequence_predictions_file.csv").read_text()
    rows = list(csv.DictReader(table.splitlines()))
    assert [row["original_id"] for row in rows] == list(SEQUENCES)
    for row, each in zip(rows, sums, strict=True):
        mean = each.mean(0) if len(each) else torch.zeros(WIDTH)
        place, membrane = location(mean[None])
        assert row["subcellular_location"] == LOCATIONS[place.argmax()]
        assert row["membrane_or_soluble"] == MEMBRANES[membrane.argmax()]


def test_one_head_alone_writes_its_own_files(
    proteins: Path, tmp_path: Path, heads: tuple[Structure, Location]
) -> None:
    torch.save(heads[1].state_dict(), tmp_path / "location.pt")

    flags = ("--model", SMALL, "--location", tmp_path / "location.pt")
    done = command("annotate", proteins, tmp_path / "out", *flags)

    assert done.stdout.startswith(f"Wrote {tmp_path / 'out'}: 3 proteins in ")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [
        "per_sequence_predictions_file.csv"
    ]


def test_weights_of_another_network_are_named(
    proteins: Path, tmp_path: Path, heads: tuple[Structure, Location]
) -> None:
    torch.save(heads[0].state_dict(), tmp_path / "structure.pt")
    wide = {**heads[1].state_dict(), "layer.0.weight": torch.zeros(32, 1024)}
    torch.save(wide, tmp_path / "location.pt")
    flags = ("annotate", proteins, tmp_path / "out", "--model", SMALL)

    none = command(*flags)
    missing = command(*flags, "--location", tmp_path / "structure.pt")
    shape = command(*flags, "--location", tmp_path / "location.pt")

    assert "one of --structure and --location is needed, or both" in none.stderr
    assert "structure.pt: layer.0.weight is missing, expected shape (32, 32) by" in missing.stderr
    assert "location.pt: layer.0.weight has shape (32, 1024), expected (32, 32)" in shape.stderr
    assert not (tmp_path / "out").exists()
