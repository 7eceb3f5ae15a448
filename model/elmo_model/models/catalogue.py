"""The models that have names: built-in ones, and published ones with the paths of their files.

A module without torch: the server and the command line resolve names before torch is imported.
"""

import os
from pathlib import Path

from elmo_model.models.published import Published, load, nlpl_model, nlpl_models

BUILT_IN = {
    "english": "a small English model, trained for this program",
}
"""The models that come with the program: their names, and a few words on each."""

CATALOGUE = {model.name: model for model in load()}
"""The published models by name, without those of the NLPL repository."""

_BUILT_IN_TOKENIZERS = {"english": "ptb"}

_SPELLINGS = {name.casefold(): name for name in (*BUILT_IN, *CATALOGUE)}


def canonical(name: str) -> str:
    """Return a model name as it is spelt here, given in any case; other strings unchanged."""
    spelling = _SPELLINGS.get(name.casefold())
    if spelling is None and (model := nlpl_model(name.casefold())) is not None:
        return model.name
    return spelling or name


def published_model(name: str) -> Published | None:
    """Return the published model of this name, in any case; None if there is none."""
    return CATALOGUE.get(canonical(name)) or nlpl_model(name.casefold())


def published_models() -> tuple[Published, ...]:
    """Return every published model that is known by name."""
    return (*CATALOGUE.values(), *nlpl_models())


def tokenization(name: str, path: str = "") -> tuple[str, str]:
    """Return the tokenizer and the language of a model: `("moses", "en")` if it is unknown.

    A model is known by the name in its checkpoint, or by its folder in the cache, which is the last
    part of its path or, for a model in one archive, the part before it.
    """
    parts = Path(path).parts
    folders = parts[-2:-1] if parts and "." in parts[-1] else parts[-1:]
    for each in (name, *folders):
        if (model := published_model(each)) is not None:
            return model.tokenizer, model.language
        if (tokenizer := _BUILT_IN_TOKENIZERS.get(canonical(each))) is not None:
            return tokenizer, "en"
    return "moses", "en"


def path_fault(path: str) -> str | None:
    """Return the error message for a path that is missing, an empty folder or cannot be looked up.

    None: there is something. `Path.exists` does not do: before Python 3.14 it raises
    PermissionError below a folder that this user may not search.
    """
    try:
        os.stat(path)  # noqa: PTH116 - a string, as the message shows it
        if os.path.isdir(path) and not os.listdir(path):  # noqa: PTH112, PTH208
            return f"{path}: is an empty folder, expected a checkpoint"
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a null character
        return missing(path)
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    return None


def missing(name: str) -> str:
    """Return the error message for a path that does not exist, which may be meant as a name.

    Built-in names and those of published models in the cache are resolved before
    (`elmo_serve.models.download.locate`).
    """
    fault = f"{name}: does not exist, expected a checkpoint"
    if (model := published_model(name)) is not None:
        return f"{fault}; `elmo download {model.name}` fetches it"
    return f"{fault}, or a name that `elmo models` lists"
