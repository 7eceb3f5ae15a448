"""The network of the paper: one layer a file, readable in one sitting."""
