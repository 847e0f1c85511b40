"""Does a drafter earn its place on this machine? Rules, runs, store and report."""
