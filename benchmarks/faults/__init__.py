"""Faults by schedule: a seed draws which fault hits which of several replicas, and when."""
