"""ELMo vectors from a server, for Python 3.6 and newer: this file and NumPy are all it needs.

    from elmo_client_py36 import ElmoEmbedder  # instead of: from allennlp.commands.elmo import ...

    elmo = ElmoEmbedder("http://localhost:8000")  # or the old arguments, with ELMO_URL set
    vectors = elmo.embed_sentence(["Hello", "world"])  # (3, 2, 2P), float32

Copy it beside a program that cannot leave an old Python. Newer ones use `elmo_client`, which has
connections that stay open, several requests at once and more routes.
"""

import http.client
import io
import json
import os
import time
import urllib.error
import urllib.request
from itertools import islice

import numpy as np

_ATTEMPTS = 6  # of a request that a busy or restarting server refuses
_LONGEST_WAIT = 30  # seconds between two of them


class ElmoServerError(RuntimeError):
    """The server refused a request, or could not be reached."""


class ElmoEmbedder(object):
    """AllenNLP 0.9's class. A server computes the vectors, each sentence's from that alone."""

    def __init__(
        self,
        options_file=None,
        weight_file=None,
        cuda_device=-1,
        api_key=None,
        model=None,
        timeout=300,
    ):
        """Name a server; nothing is sent yet.

        Args:
            options_file: the URL of the server; anything else, such as the path of an options file,
                is replaced by the environment's ELMO_URL.
            weight_file: not used: the server has its own weights.
            cuda_device: not used: the server chooses its device.
            api_key: one of the server's keys; None for the environment's ELMO_API_KEY.
            model: one of the server's models; None for the first one.
            timeout: seconds without a byte from the server.

        Raises ValueError where no URL is given.
        """
        url = str(options_file)
        if not url.startswith(("http://", "https://")):
            url = os.environ.get("ELMO_URL", "")
        if not url.startswith(("http://", "https://")):
            raise ValueError(
                "options_file is %r and ELMO_URL is %r, expected the URL of a server in one of them"
                % (options_file, url)
            )
        self._url = url.rstrip("/") + "/embed"
        self._model = model
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json", "Accept": "application/x-npz"}
        key = api_key or os.environ.get("ELMO_API_KEY")
        if key:
            self._headers["Authorization"] = "Bearer " + key

    def embed_sentence(self, sentence):
        """Return the layers (L + 1, n, 2P) of a list of n tokens."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch):
        """Return the layers of some sentences, in their order, by one request."""
        sentences = [list(sentence) for sentence in batch if not _refuse_text(sentence)]
        if not sentences:
            return []
        body = {"sentences": sentences}
        if self._model is not None:
            body["model"] = self._model
        with np.load(io.BytesIO(self._post(json.dumps(body).encode("ascii")))) as arrays:
            return [arrays[str(number)] for number in range(len(sentences))]

    def embed_sentences(self, sentences, batch_size=64):
        """Yield the layers of any number of sentences, `batch_size` of them a request."""
        rows = iter(sentences)
        batch = list(islice(rows, batch_size))
        while batch:
            for vectors in self.embed_batch(batch):
                yield vectors
            batch = list(islice(rows, batch_size))

    def _post(self, body):
        """Return the body of a response, after waiting while the server is busy or starts."""
        attempt = 0
        while True:
            request = urllib.request.Request(self._url, body, self._headers)
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as response:
                    return response.read()
            except urllib.error.HTTPError as error:
                attempt += 1
                if error.code not in (429, 503) or attempt == _ATTEMPTS:
                    raise ElmoServerError("%s: %s" % (self._url, _detail(error))) from error
                time.sleep(_wait(error.headers.get("Retry-After"), attempt))
            except (OSError, http.client.HTTPException) as error:
                message = "%s: cannot be reached: %s" % (self._url, error)
                raise ElmoServerError(message) from error


def _refuse_text(sentence):
    if isinstance(sentence, str):
        raise ValueError("%r is a string, expected a list of its tokens" % sentence[:64])


def _detail(error):
    """Return what the server says of a refusal: a problem document (RFC 9457), or anything."""
    text = error.read().decode("utf-8", "replace")
    try:
        problem = json.loads(text)
        return "%d: %s" % (error.code, problem["detail"])
    except (ValueError, KeyError, TypeError):
        return "%d: %s" % (error.code, text[:200])


def _wait(retry_after, attempt):
    """Return seconds: those of Retry-After, and at least 2, 4, 8, ..."""
    try:
        named = float(retry_after)
    except (TypeError, ValueError):
        named = 0
    return min(max(2**attempt, named), _LONGEST_WAIT)  # the first one where `named` is NaN
