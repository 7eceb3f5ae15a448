"""The interface of output formats: its defaults, and formats that need a file."""

import io
from pathlib import Path

import pytest

from elmo_serve.files.inputs import FileError, Sentence
from elmo_serve.files.outputs import OUTPUTS, output_format
from elmo_serve.files.outputs.output_format import Facts, OutputFormat, path_of
from elmo_serve.output import Output
from elmo_serve.workers.messages import ModelInfo

FACTS = Facts(ModelInfo("m", "1", "none", 3, 2, 0, "float32"), Output(layers=(2,)))


def test_a_format_accepts_every_sentence_and_needs_nothing_unless_it_says_so() -> None:
    form = OutputFormat(lambda _target, _items, _facts: None)

    form.require()
    check = form.check(Output(layers=(0, 1), stacked=True))
    check(Sentence("", []))
    check(Sentence("a\0/", ["a\0/"]))
    assert not form.is_stream


def test_a_path_is_needed_where_a_format_is_no_stream() -> None:
    assert path_of(Path("x")) == Path("x")
    with pytest.raises(FileError, match="HDF5 cannot be written to a pipe; name a file"):
        path_of(io.BytesIO())


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
    assert all(form.ending for form in OUTPUTS.values() if form.layout is None)
