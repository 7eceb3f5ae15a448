"""The service on a cluster of Ray: an optional dependency, `pip install 'elmo-serve[ray]'`."""
