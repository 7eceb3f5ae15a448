"""The one error of indexes of uses."""


class IndexFolderError(ValueError):
    """A folder is no index, or the index does not fit; the message is one line that names it."""
