"""The drop-in for AllenNLP's `Elmo` module and `batch_to_ids`."""
