"""The workers: processes that hold a model on a device, and their pool."""
