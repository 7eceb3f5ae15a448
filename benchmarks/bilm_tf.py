"""bilm-tf's own graph on TensorFlow, in a process with an interpreter of its own.

The lower half of this file runs there, and needs nothing of this project.
"""

import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Sentences = Sequence[Sequence[str]]


class BilmTf:
    """Tokenised sentences to all layers by bilm-tf, timed in the process that computes them.

    The process ends with this one, when its standard input does.
    """

    def __init__(self, source: Path, interpreter: Path, options: Path, weights: Path) -> None:
        """Start TensorFlow. `source` is a clone of github.com/allenai/bilm-tf."""
        files = map(str, (interpreter, __file__, source, options, weights))
        self._process = subprocess.Popen(
            list(files), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, batches: Sequence[Sentences]) -> float:
        """Return the time that some batches take, from tokens to layers in NumPy."""
        return float(self._ask({"batches": batches}))

    def vectors(self, sentences: Sentences) -> list[list[Any]]:
        """Return the layers of each sentence, (L + 1, longest, 2P), from a state of zeros."""
        found: list[list[Any]] = self._ask({"embed": sentences})
        return found

    def _ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"bilm-tf ended with {self._process.wait()}")
        return json.loads(line)


def _serve(source: str, options: str, weights: str) -> None:
    """Answer the questions of standard input, a line each."""
    out, sys.stdout = sys.stdout, sys.stderr  # bilm-tf prints
    tf: Any = importlib.import_module("tensorflow").compat.v1
    sys.modules["tensorflow"] = tf
    tf.disable_v2_behavior()
    sys.path.append(source)
    bilm = importlib.import_module("bilm")

    read = json.loads(Path(options).read_text(encoding="utf-8"))
    longest = read["char_cnn"]["max_characters_per_token"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as words:
        words.write("<S>\n</S>\n<UNK>\n")
        words.flush()
        batcher = bilm.Batcher(words.name, longest)
    ids = tf.placeholder("int32", shape=(None, None, longest))
    layers = bilm.BidirectionalLanguageModel(options, weights)(ids)["lm_embeddings"]
    start = tf.global_variables_initializer()
    with tf.Session() as session:
        session.run(start)

        def run(sentences: Sentences) -> Any:
            return session.run(layers, {ids: batcher.batch_sentences(sentences)})

        for line in sys.stdin:
            question = json.loads(line)
            if "embed" in question:
                session.run(start)
                answer = run(question["embed"]).tolist()
            else:
                begun = time.perf_counter()
                for batch in question["batches"]:
                    run(batch)
                answer = time.perf_counter() - begun
            print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
