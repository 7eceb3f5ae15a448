"""Commands and options of the last release end with one line that names what replaces them."""

from __future__ import annotations

import pytest

from tests.support.command_line import elmo


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (("plan", "bench.json", "--tokens-per-day", "1e9", "--help"), "`elmo bench URL --rate N`"),
        (("study", "eval", "results", "--limit", "3"), "`python -m benchmarks.study`"),
        (("bench", "http://localhost:1", "--find-saturation"), "--clients 64"),
        (("bench", "http://localhost:1", "--reference", "english"), "first one to the same"),
        (("bench", "http://localhost:1", "--key", "secret"), "--api-key"),
        (("look", "a", "b", "--key=secret"), "--api-key"),
    ],
    ids=str,
)
def test_what_is_gone_names_what_replaces_it(arguments: tuple[str, ...], instead: str) -> None:
    found = elmo(*arguments)

    assert (found.exit_code, found.stdout) == (2, "")
    (line,) = found.stderr.splitlines()
    assert " was removed: " in line and instead in line


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


@pytest.mark.parametrize(
    ("command", "gone"),
    [
        *(((), "plan"), ((), "study")),
        *((("bench",), "--find-saturation"), (("embed",), "--weight-file")),
    ],
)
def test_what_is_gone_is_not_listed(command: tuple[str, ...], gone: str) -> None:
    assert gone not in elmo(*command, "--help").stdout
