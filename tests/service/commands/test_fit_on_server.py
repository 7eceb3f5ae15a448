"""`elmo fit --server`: files are sent as examples, and the scores come back."""

from pathlib import Path

import pytest

from elmo_model.tasks.examples import Examples
from elmo_serve.commands.fit import example_bodies
from tests.support.command_line import elmo
from tests.support.gated_server import gated


def test_every_kind_of_examples_becomes_members_of_a_request() -> None:
    tagged = Examples.of_tokens([(["a", "b"], ["x", "y"])])
    words = Examples.of_words([(["a", "b"], 1, "y")])
    sentences = Examples.of_sentences([(["a", "b"], "x")])
    pairs = Examples.of_pairs([((["a"], None), (["b", "c"], 1), "same")])

    assert list(example_bodies(tagged)) == [{"tokens": ["a", "b"], "labels": ["x", "y"]}]
    assert list(example_bodies(words)) == [{"tokens": ["a", "b"], "token": 1, "label": "y"}]
    assert list(example_bodies(sentences)) == [{"tokens": ["a", "b"], "label": "x"}]
    assert list(example_bodies(pairs)) == [
        {"pair": [{"tokens": ["a"]}, {"tokens": ["b", "c"], "token": 1}], "label": "same"}
    ]


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    rows = [f"{label}\t{label} {number}" for number in range(20) for label in ("yes", "no")]
    for name in ("train", "test"):
        (tmp_path / f"{name}.tsv").write_text("\n".join(["label\tsentence", *rows, ""]))
    return ["--kind", "sentence", "--train", tmp_path / "train.tsv", "--seeds", 1]


def test_a_task_is_fitted_and_served(tmp_path: Path, files: list[object]) -> None:
    with (
        gated(tmp_path / "server", tasks=tmp_path / "tasks", api_keys="sesame") as server,
        server.client(headers={"Authorization": "Bearer sesame"}) as client,
    ):
        url = ("--server", server.url)
        result = elmo(
            "fit", "yes", *files, "--test", tmp_path / "test.tsv", *url, ELMO_API_KEY="sesame"
        )
        assert result.exit_code == 0, result.output
        assert "accuracy on 40 test examples, %\n  learned " in result.output
        assert "learned weights" in result.output and "average" in result.output
        assert "\n  top " not in result.output  # the last layer, which has its line
        assert client.get("/tasks/yes").status_code == 200

        taken = elmo("fit", "yes", *files, *url, ELMO_API_KEY="sesame")
        assert taken.exit_code == 1
        assert f"{server.url} has a task yes; --force replaces it" in taken.output
        again = elmo("fit", "yes", *files, *url, "--force", ELMO_API_KEY="sesame")
        assert again.exit_code == 0, again.output

        refused = elmo("fit", "yes", *files, *url)
        assert refused.exit_code == 1 and "401" in refused.output


def test_options_of_this_process_are_refused_with_a_server(files: list[object]) -> None:
    result = elmo("fit", "yes", *files, "--out", "x", "--server", "http://localhost:1")
    assert result.exit_code == 2 and "--out has no effect with --server" in result.output
    words = ("--word-vectors", files[3], "--server", "http://localhost:1")
    result = elmo("fit", "yes", *files, *words)
    assert result.exit_code == 2 and "--word-vectors has no effect with --serv" in result.output

    result = elmo("fit", "yes", *files)
    assert result.exit_code == 2 and "--out or --server is required" in result.output
