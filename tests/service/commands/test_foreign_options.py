"""An option of AllenNLP or ELMoForManyLangs ends with one line that names the one that is meant."""

from __future__ import annotations

import pytest

from tests.support.command_line import elmo


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("--output_layer", "-1"),
            "--output_layer is an option of ELMoForManyLangs: -1 is --avera",
        ),
        (("--output_format", "hdf5"), "hdf5 is --format elmoformanylangs"),
        (("--input_format", "conll"), "plain is --input-format tab, conll conllu"),
        (("--gpu", "0"), "0 is --device cuda:0"),
        (("--output_prefix", "vectors"), "OUTPUT is the name of the file"),
        (("--layer", "-1"), "--layer -1: layers count from 0; the mean of all is --average"),
    ],
)
def test_an_option_of_elmoformanylangs_names_the_one_that_is_meant(
    given: tuple[str, str], said: str
) -> None:
    found = elmo("embed", __file__, "vectors.npz", *given)

    assert (found.exit_code, found.stdout) == (2, "")
    assert said in found.stderr


@pytest.mark.parametrize("name", ["--options-file", "--weight-file", "--cuda-device"])
def test_an_option_of_allennlp_names_the_one_that_is_meant(name: str) -> None:
    for given in ([f"{name}=0"], [name, "-1"]):
        found = elmo("embed", __file__, "vectors.npz", "--all", *given)

        assert (found.exit_code, found.stdout) == (2, "")
        (line,) = found.stderr.splitlines()
        assert line.startswith(f"elmo: {name} is an option of `allennlp elmo`: --")
