"""The capacity model of `elmo plan`: batch times, a simulation of replicas, bytes a token."""
