"""The old name of `elmo_model.models.opening`: its import says so, for one release."""

raise ImportError("elmo_model.pretrained has moved: import elmo_model.models.opening instead")
