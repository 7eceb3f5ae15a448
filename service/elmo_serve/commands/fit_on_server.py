"""`elmo fit --server`: the examples of files, fitted by a server."""

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from elmo_client import Client
from elmo_model.fitting.examples import Examples, FitError, Kind, Place
from elmo_model.fitting.readers import read_examples
from elmo_model.tokenizers import tokenizer


def fit(
    url: str,
    api_key: str | None,
    name: str,
    *,
    kind: Kind,
    label: str,
    train: Path,
    test: Path | None,
    limit: int | None,
    split: str | None,
    model: str | None,
    options: dict[str, Any],
    on_step: Callable[[str], None] = lambda _: None,
) -> str:
    """Fit a task on a server, and return its scores for the terminal.

    `split` names the tokenizer, which runs here; None means that of the model. An interruption
    cancels the job.

    Raises:
        FitError: nothing can be learned from the files.
        TextError: a file cannot be read.
        ElmoError: the server refuses, or the fit fails.
    """
    with Client(url, api_key=api_key, model=model) as client:
        info = client.info()
        tokenize = tokenizer(split or info["tokenizer"], info["language"])
        learned = read_examples(train, kind, label, tokenize, limit)
        learned.check(str(train))
        examples = list(example_bodies(learned))
        if test is not None:
            scored = read_examples(test, kind, label, tokenize)
            if not len(scored):
                raise FitError(f"{test}: holds no example")
            examples += [{**example, "test": True} for example in example_bodies(scored)]
        job = client.fit(name, examples, kind=kind, **options)
        on_step(f"Fitting {name} on {url}, job {job.id}")
        try:
            state = job.wait()
        except KeyboardInterrupt:
            job.cancel()
            raise
    return f"{text(state.scores)}\n{url} serves task {name}"


def text(scores: Any) -> str:
    """Return the scores of a job as a table, in percent."""
    rows = [
        f"  {name:<10} {100 * row['mean']:6.2f} ± {100 * row['spread']:.2f}"
        for name, row in scores["mixtures"].items()
    ]
    weights = ", ".join(f"{weight:.3f}" for weight in scores["mixtures"]["learned"]["weights"])
    measure = scores["measure"].replace("span_f1", "span F1")
    head = f"{measure} on the {scores['scored_on']} part, %"
    return "\n".join([head, *rows, f"learned weights {weights}"])


def example_bodies(examples: Examples) -> Iterator[dict[str, Any]]:
    """Yield examples as the members of `POST /tasks/{name}/fit`."""
    pairs = zip(examples.places, examples.labels, strict=True)
    if examples.kind == "pair":
        for (first, second), label in pairs:
            sides = [_side(examples, first), _side(examples, second)]
            yield {"pair": sides, "label": label}
        return
    for number, group in groupby(pairs, key=lambda pair: pair[0][0].sentence):
        members = list(group)
        places = [place.token for (place,), _ in members]
        tokens = list(examples.sentences[number])
        if places == list(range(len(tokens))):
            yield {"tokens": tokens, "labels": [label for _, label in members]}
            continue
        for (place,), label in members:
            yield {**_side(examples, place), "label": label}


def _side(examples: Examples, place: Place) -> dict[str, Any]:
    side: dict[str, Any] = {"tokens": list(examples.sentences[place.sentence])}
    if place.token is not None:
        side["token"] = place.token
    return side
