"""The source of vectors that the options of `elmo embed` name: a model here, or a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elmo_model.errors import OptionError
from elmo_model.system import keep_freed_memory
from elmo_serve.files.options import EmbedOptions, may_read_proteins
from elmo_serve.files.vectors import LengthSorted, Remote, Source, Stateful, served_model
from elmo_serve.models.download import Progress, unseen

if TYPE_CHECKING:
    from elmo_client import Client


def source_here(options: EmbedOptions, progress: Progress = unseen) -> Source:
    """Open the model in this process. `progress` is as for `locate`.

    Raises ElmoError for a model that cannot be loaded.
    """
    from elmo_serve.models.in_process import open_network  # noqa: PLC0415 - torch

    assert options.model is not None, "a server alone has a first model"
    network = open_network(
        options.model,
        progress=progress,
        device=options.device,
        precision=options.precision,
        owns_process=True,
    )
    keep_freed_memory()
    output, batch = options.selected(network.info), options.carried_batch
    return Stateful(network, output, batch) if batch else LengthSorted(network, output)


def source_of_server(options: EmbedOptions, client: Client) -> Source:
    """Take the vectors from a server. Raises OptionError for FASTA and a first model of English."""
    info = served_model(client)
    if options.holds_fasta and options.model is None and not may_read_proteins(info.name):
        raise OptionError(options.no_proteins(info.name))
    return Remote(client, options.selection, options.selected(info))
