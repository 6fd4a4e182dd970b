"""The benchmarks: each measures ratios on this machine and says what they should be."""
