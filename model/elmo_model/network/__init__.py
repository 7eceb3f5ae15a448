"""The network of the paper, readable in one sitting."""
