"""Job files: their schema, loading them, and wiring a job into a run."""
