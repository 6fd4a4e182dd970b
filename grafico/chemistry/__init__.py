"""Molecules: quantum chemistry and ensemble spectroscopy."""
