"""The client in one file, under this Python and under the one that `OLD_PYTHON` names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import golden
from tests.support.servers import Running

FOLDER = Path(__file__).parents[2] / "client"
PYTHON = os.environ.get("OLD_PYTHON", sys.executable)

# Valid in Python 3.6. Its input is the sentences, its output the path of an npz.
PROGRAM = """
import json, os, sys
import numpy as np
from elmo_client_py36 import ElmoEmbedder, ElmoServerError

sentences = json.loads(sys.stdin.read())
url = os.environ["ELMO_URL"]
# AllenNLP's arguments: the URL of the environment takes the place of the files.
elmo = ElmoEmbedder("options.json", "weights.hdf5", -1)
found = dict(("s%d" % n, vectors) for n, vectors in enumerate(elmo.embed_batch(sentences)))
for number, vectors in enumerate(ElmoEmbedder(url).embed_sentences(iter(sentences), batch_size=2)):
    assert np.array_equal(vectors, found["s%d" % number])
assert np.array_equal(elmo.embed_sentence(sentences[0]), found["s0"])
assert elmo.embed_batch([]) == []
np.savez(sys.argv[1], **found)


def refused(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("not refused")


assert "list of its tokens" in refused(ValueError, lambda: elmo.embed_batch(["a b"]))
other = ElmoEmbedder(url, model="foreign")
assert "foreign" in refused(ElmoServerError, lambda: other.embed_sentence(["a"]))
closed = ElmoEmbedder("http://127.0.0.1:1")
assert "reached" in refused(ElmoServerError, lambda: closed.embed_sentence(["a"]))
del os.environ["ELMO_URL"]
assert "ELMO_URL" in refused(ValueError, lambda: ElmoEmbedder("options.json"))
print(sys.version_info[:2])
"""


@pytest.fixture(scope="module")
def environment(server: Running) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONPATH": str(FOLDER), "ELMO_URL": server.url + "/"}


def run(program: str, *arguments: str, environment: dict[str, str], text: str = "") -> str:
    command = [PYTHON, "-W", "error", "-c", program, *arguments]
    result = subprocess.run(
        command, input=text, capture_output=True, text=True, env=environment, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_vectors_are_allennlps(environment: dict[str, str], tmp_path: Path) -> None:
    expected = golden.arrays("stateless_f64")
    _, members, sentences = next(golden.batches())
    output = tmp_path / "vectors.npz"

    run(PROGRAM, str(output), environment=environment, text=json.dumps(sentences))

    with np.load(output) as found:
        for number, member in enumerate(members):
            answer: Any = expected[f"b0_s{member}_full"][:, 1:-1]
            assert found[f"s{number}"].dtype == np.float32
            np.testing.assert_allclose(found[f"s{number}"], answer, rtol=0, atol=5e-5)


# A server that is busy twice, then answers; the last refusal has no Retry-After.
BUSY = """
import io, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
import numpy as np
import elmo_client_py36

answers = [(503, "0"), (429, None), (503, "9"), (503, "-5"), (503, "nan"), (200, None)]
seen = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        seen.append(self.headers["Authorization"])
        status, wait = answers.pop(0)
        file = io.BytesIO()
        np.savez(file, **{"0": np.ones((3, 1, 2), np.float32)})
        self.send_response(status)
        self.send_header("Content-Length", str(len(file.getvalue())))
        if wait:
            self.send_header("Retry-After", wait)
        self.end_headers()
        self.wfile.write(file.getvalue())

    def log_message(self, *args):
        pass


waits = []
elmo_client_py36.time.sleep = waits.append
server = HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever).start()
url = "http://127.0.0.1:%d" % server.server_port
elmo = elmo_client_py36.ElmoEmbedder(url, api_key="open-sesame")
assert elmo.embed_sentence(["a"]).shape == (3, 1, 2)
server.shutdown()
server.server_close()
assert waits == [2, 4, 9, 16, 30] and seen == ["Bearer open-sesame"] * 6, (waits, seen)
"""


def test_a_busy_server_is_asked_again(environment: dict[str, str]) -> None:
    run(BUSY, environment=environment)
