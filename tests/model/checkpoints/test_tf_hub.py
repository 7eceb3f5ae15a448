"""Modules of TensorFlow Hub: the network, its mix as a task, assumed values, archives.

TensorFlow 2.21 saved the golden module from the weights of `golden/bilm_training/char`.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError, load, read
from tests.support import golden
from tests.support.checkpoint_formats import variables, write_bundle
from tests.support.checkpoints import write_pair
from tests.support.files import write_tar

HOME = golden.GOLDEN / "tensorflow"


def test_a_module_of_tensorflow_equals_the_dump_of_bilm_tf(dumped: Path) -> None:
    module, pair = read(HOME / "tf_hub"), read(dumped)
    assert (module.name, module.format) == ("tf_hub", "tf-hub")
    assert module.tensors.keys() == pair.tensors.keys()
    for name, tensor in pair.tensors.items():
        assert torch.equal(module.tensors[name], tensor), name
    assert module.config.lstm == pair.config.lstm
    (note,), (task,) = module.notes, module.tasks
    assert (task.name, task.weights, task.gamma) == ("elmo", (0.25, -0.5, 1.0), 1.5)
    assert "has no options; clips of 3, relu and 50 characters a token were assumed" in note


def test_a_module_is_read_from_its_archive_and_its_variables(tmp_path: Path) -> None:
    expected = load(HOME / "tf_hub")
    archive = shutil.make_archive(str(tmp_path / "elmo_2"), "gztar", HOME / "tf_hub")
    for place in (archive, HOME / "tf_hub" / "variables"):
        elmo = load(place)
        assert elmo.origin.revision == expected.origin.revision and elmo.tasks == expected.tasks
    assert load(archive).origin.name == "elmo_2"


def test_a_module_of_another_network_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "use"
    write_bundle(folder / "variables" / "variables", {"Embeddings": np.zeros((3, 2), np.float32)})
    with pytest.raises(CheckpointError, match="char_embed is missing"):
        load(folder)


def test_an_aggregation_of_another_number_of_layers_is_refused(tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "pair")
    named = {name.replace("lm/", "bilm/", 1): a for name, a in variables(pair).items()}
    named["aggregation/weights"] = np.zeros(4, np.float32)
    named["aggregation/scaling"] = np.zeros((), np.float32)
    write_bundle(tmp_path / "module" / "variables" / "variables", named)
    with pytest.raises(CheckpointError, match="4 numbers"):
        load(tmp_path / "module")


def test_an_archive_without_its_index_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "elmo.tar.gz", ("variables/data", b"data"))

    with pytest.raises(CheckpointError, match="holds no"):
        load(path)


def test_a_module_is_told_from_an_archive_of_allennlp_by_its_first_names(tmp_path: Path) -> None:
    """The truncated weights come after the telling name, so recognition does not reach them."""
    names = "config.json", "weights.th", "variables/variables.index"
    path = write_tar(tmp_path / "model.tar.gz", *((name, b"") for name in names))

    with pytest.raises(CheckpointError, match="pickle"):
        load(path)
