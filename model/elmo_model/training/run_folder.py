"""A training run: its folder, the file run.json, and the models that it writes."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import nn

from elmo_model.checkpoints import native, published_pair, softmax
from elmo_model.checkpoints.checkpoint import revision
from elmo_model.errors import shown
from elmo_model.files.atomic import write_bytes
from elmo_model.models.opening import needed_softmax, open_model
from elmo_model.network.config import ElmoConfig, flat
from elmo_model.network.description import Description
from elmo_model.network.elmo import ElmoNetwork, Origin
from elmo_model.network.initialise import initialise
from elmo_model.network.softmax import WordSoftmax
from elmo_model.text.alphabets import Utf8Alphabet
from elmo_model.training import TrainingError
from elmo_model.training.corpus import Corpus
from elmo_model.training.language_model import LanguageModel
from elmo_model.training.options import Options
from elmo_model.training.sampled_softmax import Softmax
from elmo_model.training.snapshot import Snapshot, latest, step_of
from elmo_model.training.vocabulary import Vocabulary
from elmo_model.validation import validated

_FREE = {
    *("run", "text", "heldout", "heldout_sentences", "shape", "weights", "cell", "projection"),
    *("vocabulary", "vocabulary_size", "name", "tokenizer", "language", "device", "threads"),
    *("minutes", "log_every", "measure_every", "save_every", "save_minutes"),
    *("steps", "tokens", "epochs"),
}
"""The options that may change in a run that goes on.

Network, text and words are compared by their values, and threads change last digits alone.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """The file run.json: everything that decides the numbers of a run.

    Equal values give equal weights. `config` is the shape of the network, `words` the size of the
    vocabulary, `steps` the number of all steps; `files` names every shard with its size in bytes;
    `revision` is that of the network that the run starts from, None for random weights; `digest` is
    that of the encoded text. `words`, `steps` and `digest` are known after the text is encoded. In
    `options` nothing is left to choose but the threads of a CPU, None before their trial: other
    numbers of them, and a GPU, add in another order, which changes the last digits of the weights.
    """

    options: Options
    config: ElmoConfig
    files: tuple[tuple[str, int], ...]
    revision: str | None
    words: int = 0
    steps: int = 0
    digest: str | None = None

    @classmethod
    def of(
        cls,
        options: Options,
        config: ElmoConfig,
        shards: Sequence[Path],
        network: ElmoNetwork | None = None,
        known: Self | None = None,
    ) -> Self:
        """Return the run of options on the text of `shards`.

        Choices that no option makes are those of the `known` run that goes on, or else follow from
        the device and from the `network` that the run starts from.
        """
        stated: Options | Description = Description()
        if known is not None:
            stated = known.options
        elif network is not None:
            stated = network.origin.description
        has_cuda = options.chosen_device() == "cuda"
        of_device: Literal["bfloat16", "float32"] = "bfloat16" if has_cuda else "float32"
        chosen = replace(
            options,
            name=options.name or options.run.resolve().name,
            precision=of_device if options.precision == "auto" else options.precision,
            tokenizer=options.tokenizer or stated.tokenizer or "moses",
            language=options.language or stated.language or "en",
            threads=options.threads or (None if known is None else known.options.threads),
        )
        files = tuple((path.name, path.stat().st_size) for path in shards)
        return cls(chosen, config, files, None if network is None else network.origin.revision)

    def on_text(self, corpus: Corpus, vocabulary: Vocabulary) -> Self:
        """Return the run with the words, the steps and the digest of its text.

        Raises OptionError where the vocabulary is too small for the samples.
        """
        self.options.refuse_samples(len(vocabulary))
        steps = self.options.steps_of(corpus.pairs)
        return replace(self, words=len(vocabulary), steps=steps, digest=corpus.digest)

    def refuse_other(self, known: Self) -> None:
        """Raise TrainingError where this run is not the `known` one of its folder."""
        before, now = (_deciding(each) for each in (known, self))
        for key, value in now.items():
            if before.get(key) != value:
                raise TrainingError(
                    f"{self.options.run}: the run here has {key} {shown(before.get(key))}, found "
                    f"{shown(value)}; expected the same, or another folder"
                )


def _deciding(run: Run) -> dict[str, Any]:
    """Return by their names the values that cannot change in a run that goes on."""
    options = {key: value for key, value in asdict(run.options).items() if key not in _FREE}
    network = flat({"config": asdict(run.config), "weights": run.revision})
    return {**network, "text": run.files, **options}


@dataclass(frozen=True, slots=True)
class Folder:
    """The paths of the files of a run."""

    path: Path

    @property
    def run(self) -> Path:
        return self.path / "run.json"

    @property
    def vocabulary(self) -> Path:
        return self.path / "vocabulary.txt"

    @property
    def corpus(self) -> Path:
        return self.path / "corpus"

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    def begin(self, run: Run, vocabulary: Vocabulary, known: Run | None) -> None:
        """Write run.json, and the words of a new run.

        A run that goes on has the text and the words of the `known` one. Its number of steps may
        change, though not below the steps that are done. Raises TrainingError for another run.
        """
        if known is None:
            vocabulary.write(self.vocabulary)
        else:
            self._refuse_other_text(run, known, vocabulary)
        self.write(run)

    def _refuse_other_text(self, run: Run, known: Run, vocabulary: Vocabulary) -> None:
        if known.digest != run.digest:
            raise TrainingError(
                f"{self.path}: the run here reads other text in files of the same names and "
                f"sizes; expected the text with which it began, or another folder"
            )
        if Vocabulary.read(self.vocabulary) != vocabulary:
            raise TrainingError(
                f"{self.vocabulary}: holds other words than the vocabulary of this command; "
                f"expected the same, or another folder"
            )
        path = latest(self.snapshots)
        done, each = 0 if path is None else step_of(path), run.options.tokens_per_step
        if run.steps < done:
            raise TrainingError(
                f"{self.path}: the run here has done {done:,} steps of {each:,} tokens, and this "
                f"command asks for {run.steps:,}; expected {done:,} or more"
            )

    def write(self, run: Run) -> None:
        """Write run.json in place of a former one."""
        write_bytes(self.run, json.dumps(asdict(run), indent=1, default=str).encode())

    def known(self) -> Run | None:
        """Return the run in this folder, or None. Raises TrainingError for one of another form."""
        if not self.run.is_file():
            return None
        try:
            content = json.loads(self.run.read_text(encoding="utf-8"))
            if isinstance(content, dict) and "recipe" in content:
                content = _of_older(content, self.path)
            return validated(Run, content)
        except (OSError, KeyError, ValueError) as error:
            raise TrainingError(
                f"{self.run}: holds no run that this version reads: {error}; expected another "
                f"folder, or the version that began it"
            ) from error

    def read(self) -> Run:
        """Return the run in this folder. Raises TrainingError if there is none."""
        if (known := self.known()) is None:
            raise TrainingError(
                f"{self.path}: holds no run, expected the folder of a run of elmo train"
            )
        return known

    def export(
        self, model: LanguageModel, name: str, vocabulary: Vocabulary, description: Description
    ) -> None:
        """Write the network as model.safetensors, for serving, and as the published pair.

        The first states the description; the softmax is a file of its own beside it.
        """
        elmo = model.elmo
        number = revision(elmo.config, elmo.state_dict())
        elmo.origin = Origin(name, native.NAME, number, description)
        path = self.path / native.RUN_FILE
        native.save(elmo, path)
        beside, layer = path.with_suffix(softmax.ENDING), model.softmax
        kept = WordSoftmax(layer.weight, layer.bias, vocabulary, len(vocabulary))
        softmax.save(kept, beside, number, torch.float32)
        published_pair.write(elmo, self.path / "published")


_OF_OLDER = ("name", "seed", "precision", "threads", "tokenizer", "language")


def _of_older(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a run.json with a recipe, as earlier versions wrote it, in the present form."""
    recipe = {key: value for key, value in content["recipe"].items() if key != "mixed"}
    stated = {key: content[key] for key in (*_OF_OLDER, "weights") if key in content}
    options = {**recipe, **stated, "run": folder, "text": ()}
    kept = {key: content[key] for key in ("config", "words", "steps", "digest")}
    return {**kept, "options": options, "files": content["text"], "revision": content["weights"]}


def new_model(run: Run, network: ElmoNetwork | None = None) -> LanguageModel:
    """Return the language model of a run with its initial weights.

    They are random, or those of a trained network with a softmax of zero beside them: no published
    checkpoint holds a softmax, and its random words would be noise above what the network knows.
    """
    model = _empty_model(run)
    if network is not None:
        model.elmo.load_state_dict(network.state_dict())
        for parameter in model.softmax.parameters():
            nn.init.zeros_(parameter)
        return model
    generator = torch.Generator().manual_seed(run.options.seed)
    initialise(model.elmo, generator)
    model.softmax.initialise(generator)
    return model


def trained_model(folder: Folder) -> tuple[LanguageModel, Vocabulary]:
    """Return the language model of a run's last snapshot. Raises TrainingError without one."""
    run = folder.read()
    path = latest(folder.snapshots)
    if path is None:
        raise TrainingError(f"{folder.path}: holds no snapshot yet")
    model = _empty_model(run)
    model.load_state_dict(Snapshot.read(path).model)
    return model.eval(), Vocabulary.read(folder.vocabulary)


def language_model(model: str) -> tuple[LanguageModel, Vocabulary]:
    """Return a model by its name or path with its softmax. Raises CheckpointError without one."""
    elmo = open_model(model)
    found = needed_softmax(model, elmo).read()
    layer = Softmax(*found.weight.shape)
    layer.load_state_dict({"weight": found.rows(slice(None)), "bias": found.bias})
    return LanguageModel(elmo, layer, 0.0).eval(), Vocabulary(tuple(found.vocabulary.words))


def _empty_model(run: Run) -> LanguageModel:
    config, options = run.config, run.options
    if config.char_cnn is None:
        raise TrainingError("char_cnn is missing, expected a network that reads characters")
    with torch.device("meta"):
        elmo = ElmoNetwork(
            config,
            Utf8Alphabet(config.char_cnn.max_characters),
            Origin(options.name, native.NAME, ""),
            dropout=options.dropout,
        )
        layer = Softmax(run.words, config.lstm.projection)
        model = LanguageModel(elmo, layer, options.dropout, options.recurrent_noise)
    return model.to_empty(device="cpu")
