"""How frameworks are relaxed: engines behind one door, what counts as converged, one at a time or many at once."""
