"""A training run: its folder, its plan, and the models that it writes."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

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
from elmo_model.training.language_model import LanguageModel
from elmo_model.training.recipe import Recipe
from elmo_model.training.sampled_softmax import Softmax
from elmo_model.training.snapshot import Snapshot, latest, step_of
from elmo_model.training.vocabulary import Vocabulary
from elmo_model.validation import validated

_MAY_CHANGE = {"name", "tokenizer", "language", "steps", "recipe.epochs", "digest", "threads"}
"""The values of a plan that may change: the first three decide no number, epochs decide steps,
`begin` compares the digest, and other threads change last digits."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides the numbers of a run: equal plans give equal weights.

    `name`, `tokenizer` and `language`, which decide none, are stated in the file of the network.
    `words` is the size of the
    vocabulary; `text` names every shard with its size in bytes; `weights` is the revision of the
    network that the run starts from, None for random weights; `digest` is that of the encoded text,
    None before it is encoded. `threads` are those of a CPU, None before they are chosen: other
    numbers of them, and a GPU, add in another order, which changes the last digits of the weights.
    """

    name: str
    config: ElmoConfig
    recipe: Recipe
    words: int
    steps: int
    seed: int
    precision: str
    text: tuple[tuple[str, int], ...]
    weights: str | None = None
    digest: str | None = None
    threads: int | None = None
    tokenizer: str = "moses"
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Folder:
    """The paths of the files of a run."""

    path: Path

    @property
    def plan(self) -> Path:
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

    def begin(self, plan: Plan, vocabulary: Vocabulary) -> None:
        """Write the plan of a new run, or check that the run in this folder has the same plan.

        The name may change, and the number of steps, though not below the steps that are done.
        Raises TrainingError for a run with another plan.
        """
        if self.plan.exists():
            self.check(plan)
            if self.read_plan().digest not in (None, plan.digest):
                raise TrainingError(
                    f"{self.path}: the run here reads other text in files of the same names and "
                    f"sizes; expected the text with which it began, or another folder"
                )
            if Vocabulary.read(self.vocabulary) != vocabulary:
                raise TrainingError(
                    f"{self.vocabulary}: holds other words than the vocabulary of this command; "
                    f"expected the same, or another folder"
                )
        else:
            self.path.mkdir(parents=True, exist_ok=True)
            vocabulary.write(self.vocabulary)
        self.write_plan(plan)

    def write_plan(self, plan: Plan) -> None:
        """Write the plan in place of a former one."""
        write_bytes(self.plan, json.dumps(asdict(plan), indent=1).encode())

    def check(self, plan: Plan) -> None:
        """Raise TrainingError unless `plan` may take the place of that of the run here."""
        known, given = flat(asdict(self.read_plan())), flat(asdict(plan))
        for key, value in given.items():
            if key not in _MAY_CHANGE and known.get(key) != value:
                raise TrainingError(
                    f"{self.path}: the run here has {key} {shown(known.get(key))}, found "
                    f"{shown(value)}; expected the same, or another folder"
                )
        path = latest(self.snapshots)
        done, each = 0 if path is None else step_of(path), plan.recipe.tokens_per_step
        if plan.steps < done:
            raise TrainingError(
                f"{self.path}: the run here has done {done:,} steps of {each:,} tokens, and this "
                f"command asks for {plan.steps:,}; expected {done:,} or more"
            )

    def read_plan(self) -> Plan:
        """Read the plan of the run in this folder. Raises TrainingError if there is none."""
        if not self.plan.is_file():
            raise TrainingError(
                f"{self.path}: holds no run, expected the folder of a run of elmo train"
            )
        try:
            return validated(Plan, json.loads(self.plan.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise TrainingError(
                f"{self.path}: holds no run that this version reads: {error}"
            ) from error

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


def new_model(plan: Plan, network: ElmoNetwork | None = None) -> LanguageModel:
    """Return the language model of a plan with its initial weights.

    They are random, or those of a trained network with a softmax of zero beside them: no published
    checkpoint holds a softmax, and its random words would be noise above what the network knows.
    """
    model = _empty_model(plan)
    if network is not None:
        model.elmo.load_state_dict(network.state_dict())
        for parameter in model.softmax.parameters():
            nn.init.zeros_(parameter)
        return model
    generator = torch.Generator().manual_seed(plan.seed)
    initialise(model.elmo, generator)
    model.softmax.initialise(generator)
    return model


def trained_model(folder: Folder) -> tuple[LanguageModel, Vocabulary]:
    """Return the language model of a run's last snapshot. Raises TrainingError without one."""
    plan = folder.read_plan()
    path = latest(folder.snapshots)
    if path is None:
        raise TrainingError(f"{folder.path}: holds no snapshot yet")
    model = _empty_model(plan)
    model.load_state_dict(Snapshot.read(path).model)
    return model.eval(), Vocabulary.read(folder.vocabulary)


def language_model(model: str) -> tuple[LanguageModel, Vocabulary]:
    """Return a model by its name or path with its softmax. Raises CheckpointError without one."""
    elmo = open_model(model)
    found = needed_softmax(model, elmo).read()
    layer = Softmax(*found.weight.shape)
    layer.load_state_dict({"weight": found.rows(slice(None)), "bias": found.bias})
    return LanguageModel(elmo, layer, 0.0).eval(), Vocabulary(tuple(found.vocabulary.words))


def _empty_model(plan: Plan) -> LanguageModel:
    config, dropout = plan.config, plan.recipe.dropout
    if config.char_cnn is None:
        raise TrainingError("char_cnn is missing, expected a network that reads characters")
    with torch.device("meta"):
        elmo = ElmoNetwork(
            config,
            Utf8Alphabet(config.char_cnn.max_characters),
            Origin(plan.name, native.NAME, ""),
            dropout=dropout,
        )
        layer = Softmax(plan.words, config.lstm.projection)
        model = LanguageModel(elmo, layer, dropout, plan.recipe.recurrent_noise)
    return model.to_empty(device="cpu")
