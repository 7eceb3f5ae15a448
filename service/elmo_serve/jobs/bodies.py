"""The body of `POST /tasks/{name}/fit`: JSON or NDJSON, parsed into labelled examples.

No torch: a helper process parses bodies, and the server imports this module.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from elmo_model.errors import shown
from elmo_model.tasks.examples import Examples, FitError, Kind, Place
from elmo_model.text.tokenizers import TOKENIZERS, Tokenize, TokenizeError, tokenizer
from elmo_serve.errors import FieldError, InvalidRequest, MalformedBody, TooLarge, pointer
from elmo_serve.jobs.plan import ALL_TOKENS, MEAN, FitLimits, FitRequest, FitSource
from elmo_serve.jobs.schema import FitBody, FitExample, FitSide
from elmo_serve.settings import variable
from elmo_serve.validation import validated

NDJSON: Final = "application/x-ndjson"

_OPTIONS: Final = {"validation", "seeds", "layer_norm", "l2_weights", "dropout"}
"""Members of a body that are options of `elmo_model.tasks.fitter.FitOptions`."""

MOST_LABELS: Final = 4_096
"""Different labels of a fit: the head has a row of 2P numbers for each, a pair's head 8P."""


def read_fit(body: bytes | memoryview, source: FitSource) -> FitRequest:
    """Parse a body.

    Raises:
        MalformedBody: it is not JSON; a line is named.
        InvalidRequest: it breaks the schema, or nothing can be learned from it.
        TooLarge: it is over a limit.
    """
    if not source.is_lines:
        return _request(validated(FitBody, body), source)
    lines = _lines(bytes(body))
    try:
        return _request(validated(FitBody, _joined(lines)), source)
    except InvalidRequest as error:
        numbers = [number for number, _ in lines[1:]]
        raise _with_lines(error, numbers) from None


def _lines(body: bytes) -> list[tuple[int, bytes]]:
    """Return the lines that hold something, with their numbers from 1; each is a JSON object."""
    lines = [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise MalformedBody("The body is empty; its first line holds the options of the fit.")
    for number, line in lines:
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            fault = f"at character {error.colno}: {error.msg}"
            raise MalformedBody(f"Line {number} of the body is not JSON, {fault}.") from None
        if not isinstance(found, dict):
            kind = "the options" if number == lines[0][0] else "an example"
            raise InvalidRequest(
                f"Line {number} must be an object, {kind}; found {shown(line.decode())}",
                errors=[FieldError("", f"line {number} must be an object")],
            )
        if number == lines[0][0] and "examples" in found:
            raise InvalidRequest(
                "/examples: has no place in the first line, whose options are followed by a line "
                "for each example",
                errors=[FieldError(pointer("examples"), "each example has a line of its own")],
            )
    return lines


def _joined(lines: Sequence[tuple[int, bytes]]) -> bytes:
    options = lines[0][1].strip()[:-1].rstrip()
    comma = b"" if options == b"{" else b","
    examples = b",".join(line for _, line in lines[1:])
    return options + comma + b'"examples":[' + examples + b"]}"


def _with_lines(error: InvalidRequest, numbers: Sequence[int]) -> InvalidRequest:
    """Return an error whose details name the lines of examples; options have their pointer."""
    errors = []
    for fault in error.errors:
        _, *parts = fault.pointer.split("/")
        line = ""
        if len(parts) > 1 and parts[0] == "examples" and parts[1].isdecimal():
            line = f"line {numbers[int(parts[1])]}: "
        errors.append(FieldError(fault.pointer, line + fault.detail))
    return InvalidRequest.of(*errors)


def _request(body: FitBody, source: FitSource) -> FitRequest:
    limits = source.limits
    if len(body.examples) > limits.examples:
        raise TooLarge(
            f"The fit has {len(body.examples)} examples and at most {limits.examples} are allowed "
            f"({variable('max_job_examples')})."
        )
    reader = _Reader(body.kind, _tokenize(body.tokenizer, source), limits)
    for number, example in enumerate(body.examples):
        reader.add(number, example)
    request = reader.request(body.model_dump(include=_OPTIONS))
    _check(request)
    return request


def _tokenize(name: str | None, source: FitSource) -> Tokenize:
    try:
        return tokenizer(name or source.tokenizer, source.language)
    except TokenizeError:
        detail = f"must be one of {', '.join(TOKENIZERS)}; found {shown(name)}"
        raise _fault(("tokenizer",), detail) from None


class _Reader:
    """Collects examples as sentences, places and labels."""

    def __init__(self, kind: Kind, tokenize: Tokenize, limits: FitLimits) -> None:
        self._kind = kind
        self._tokenize = tokenize
        self._limits = limits
        self._tokens = 0
        self._sentences: list[tuple[str, ...]] = []
        self._row_kinds: list[int] = []
        self._example_of: list[int] = []
        self._places: dict[bool, list[tuple[Place, ...]]] = {False: [], True: []}
        self._labels: dict[bool, list[str]] = {False: [], True: []}

    def add(self, number: int, example: FitExample) -> None:
        """Add one example. Raises InvalidRequest, which points into it, and TooLarge."""
        at = ("examples", number)
        self._check_members(at, example)
        if self._kind == "pair":
            if len(example.pair) != 2:
                raise _fault((*at, "pair"), f"has {len(example.pair)} sides; expected two")
            sides = enumerate(example.pair)
            places = tuple(self._place((*at, "pair", i), number, side) for i, side in sides)
            self._add(example.test, places, example.label)
        elif self._kind == "sentence" or example.labels is None:
            self._add(example.test, (self._place(at, number, example),), example.label)
        else:
            sentence = self._sentence(at, number, example, ALL_TOKENS)
            length = len(self._sentences[sentence])
            if len(example.labels) != length:
                raise _fault(
                    (*at, "labels"),
                    f"number of labels is {len(example.labels)}; expected one a token, {length}",
                )
            for token, label in enumerate(example.labels):
                self._add(example.test, (Place(sentence, token),), label)

    def request(self, options: Mapping[str, Any]) -> FitRequest:
        """Return all examples."""
        train, test = (
            Examples(
                self._kind,
                tuple(self._sentences),
                tuple(self._places[is_test]),
                tuple(self._labels[is_test]),
            )
            for is_test in (False, True)
        )
        is_tested = any(self._places[True])
        return FitRequest(
            self._kind,
            options,
            train,
            test if is_tested else None,
            self._row_kinds,
            self._example_of,
        )

    def _check_members(self, at: tuple[str | int, ...], example: FitExample) -> None:
        """Raise InvalidRequest where an example has not the members of its kind."""
        found = example.model_fields_set - {"test", "text", "tokens"}
        expected: tuple[set[str], ...] = {
            "token": ({"labels"}, {"token", "label"}),
            "sentence": ({"label"},),
            "pair": ({"pair", "label"},),
        }[self._kind]
        if found not in expected:
            wanted = ", or ".join(" and ".join(sorted(names)) for names in expected)
            raise _fault(
                at,
                f"an example of the kind {self._kind} has {wanted}; "
                f"found {', '.join(sorted(found)) or 'none of them'}",
            )

    def _add(self, is_test: bool, places: tuple[Place, ...], label: str) -> None:
        self._places[is_test].append(places)
        self._labels[is_test].append(label)

    def _place(self, at: tuple[str | int, ...], number: int, side: FitSide) -> Place:
        has_token = "token" in side.model_fields_set and side.token is not None
        token = side.token if has_token else None
        sentence = self._sentence(at, number, side, MEAN if token is None else token)
        length = len(self._sentences[sentence])
        if token is not None and token >= length:
            raise _fault(
                (*at, "token"),
                f"is {shown(token)}, expected from 0 to {length - 1}: {length} tokens",
            )
        return Place(sentence, token)

    def _sentence(
        self, at: tuple[str | int, ...], number: int, side: FitSide, row_kind: int
    ) -> int:
        """Add a sentence and return its number."""
        given = [name for name in ("text", "tokens") if getattr(side, name) is not None]
        if len(given) != 1:
            raise _fault(at, f"expected tokens or text; found {' and '.join(given) or 'neither'}")
        tokens = tuple(side.tokens) if given == ["tokens"] else self._split(at, side.text)
        if len(tokens) > self._limits.sentence_tokens:
            detail = (
                f"holds {len(tokens)} tokens and at most {self._limits.sentence_tokens} are "
                f"allowed ({variable('max_sentence_tokens')})"
            )
            fault = FieldError(pointer(*at), detail)
            raise TooLarge(f"{fault.pointer}: {detail}", errors=[fault])
        self._tokens += len(tokens)
        if self._tokens > self._limits.tokens:
            raise TooLarge(
                f"The fit has more than {self._limits.tokens} tokens, which is the limit "
                f"({variable('max_job_tokens')})."
            )
        self._sentences.append(tokens)
        self._row_kinds.append(row_kind)
        self._example_of.append(number)
        return len(self._sentences) - 1

    def _split(self, at: tuple[str | int, ...], text: str) -> tuple[str, ...]:
        try:
            return tuple(self._tokenize(text).tokens)
        except TokenizeError as error:
            raise _fault((*at, "text"), str(error)) from None


def _check(request: FitRequest) -> None:
    """Raise InvalidRequest for examples that nothing can be learned from."""
    train = request.train
    try:
        train.check("the part to learn from")
    except FitError as error:
        raise _fault(("examples",), str(error)) from None
    if (count := len(train.classes)) > MOST_LABELS:
        raise _fault(("examples",), f"{count} different labels; at most {MOST_LABELS} are allowed")
    sentences = len(set(train.groups))
    held = max(1, round(request.options["validation"] * sentences))
    if held >= sentences:
        raise _fault(
            ("validation",),
            f"holds out {held} of {sentences} sentences; one or more must be left to learn from",
        )


def _fault(at: Iterable[str | int], detail: str) -> InvalidRequest:
    fault = FieldError(pointer(*at), detail)
    return InvalidRequest.of(fault)
