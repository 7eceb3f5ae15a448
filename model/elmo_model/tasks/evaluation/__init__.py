"""Evaluation of a network: probes on its frozen layers."""
