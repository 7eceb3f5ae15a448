"""The programs behind `elmo train` and `elmo perplexity`, and the signals that stop them."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from elmo_model.training.command import perplexity, stop_signals
from elmo_model.training.options import Options
from elmo_model.training.run_folder import Folder
from elmo_model.training.vocabulary import Vocabulary
from tests.support.training import HELDOUT, lines


def test_perplexity_of_a_run_is_the_figure_of_its_log(whole: Options) -> None:
    found = perplexity(whole.run, (str(HELDOUT),))
    assert found.unigram is not None
    assert 1 < found.unigram < len(Vocabulary.read(Folder(whole.run).vocabulary))
    logged = lines(whole.run)[-1]["heldout_perplexity"]
    assert found.perplexity.both == pytest.approx(logged)
    assert found.perplexity.predictions == 190 + 25
    # the softmax lies beside the model that is served; the text is in the folder of the run alone
    served = perplexity(whole.run / "model.safetensors", (str(HELDOUT),))
    assert served == replace(found, unigram=None)


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Let the tests be run by `nohup` or in the background, where signals are ignored."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_recorded_and_acknowledged(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    with stop_signals() as received:
        assert received == []
        os.kill(os.getpid(), number)
        assert received == [number]
        assert signal.getsignal(number) is before  # a second one has its former effect
    assert signal.getsignal(number) is before
    assert f"elmo: {number.name}: finishing the step" in capfd.readouterr().err


def test_an_ignored_sighup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals() as received:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not received
    finally:
        signal.signal(signal.SIGHUP, before)
