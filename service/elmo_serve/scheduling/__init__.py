"""Scheduling: requests, the fair queue, admission and the engine."""
