"""Labelled examples and the messages about bad ones."""

import pytest

from elmo_model.tasks.examples import Examples, FitError


def test_every_token_is_an_example() -> None:
    examples = Examples.of_tokens([(["a", "b"], ["X", "Y"]), ([], []), (["c"], ["X"])])

    assert examples.kind == "token" and len(examples) == 3
    assert examples.classes == ("X", "Y")
    assert examples.take([2]).sentences == (("c",),) and examples.take([2]).labels == (("X",),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Examples.of_tokens([(["a"], ["X"]), (["a", "b"], ["X"])]), "sentence 1"),
        (lambda: Examples.of_sentences([]).check("train.tsv"), "no example"),
        (lambda: Examples.of_sentences([(["a"], "X"), (["b"], "X")]).check("train"), "label 'X'"),
    ],
)
def test_bad_examples_are_refused(make: object, message: str) -> None:
    with pytest.raises(FitError, match=message):
        make()  # type: ignore[operator]
