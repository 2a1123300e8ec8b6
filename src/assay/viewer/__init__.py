"""The page of a run: served on this machine, or written as one file."""
