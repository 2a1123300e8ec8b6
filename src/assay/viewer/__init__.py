"""See a run: a page on this machine, or one file that opens anywhere."""
