"""The interface of output formats: its defaults, and formats that need a file."""

import io

import pytest

from elmo_serve.files.inputs import FileError
from elmo_serve.files.outputs import OUTPUTS, output_format
from elmo_serve.files.outputs.output_format import Facts
from elmo_serve.selection import Output
from elmo_serve.workers.messages import ModelInfo

FACTS = Facts(ModelInfo("m", "1", "none", 3, 2, 0, "float32"), Output(layers=(2,)))


@pytest.mark.parametrize("name", OUTPUTS)
def test_exactly_the_streams_can_be_written_to_an_open_file(name: str) -> None:
    pipe = io.BytesIO()

    if OUTPUTS[name].is_stream:
        OUTPUTS[name].write(pipe, [], FACTS)
    else:
        with pytest.raises(FileError, match="pipe"):
            OUTPUTS[name].write(pipe, [], FACTS)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.hdf5", "allennlp"),
        ("b.x/a.h5", "allennlp"),
        ("a.npz", "npz"),
        ("a.parquet", "parquet"),
        ("a.txt", None),
        ("npz", None),
    ],
)
def test_the_ending_of_a_file_tells_its_format(name: str, form: str | None) -> None:
    assert output_format(name) == form


def test_no_ending_means_two_formats_and_the_parts_of_each_have_one() -> None:
    endings = [ending for form in OUTPUTS.values() for ending in form.endings]

    assert len(endings) == len(set(endings))
    assert all(form.ending for form in OUTPUTS.values())
