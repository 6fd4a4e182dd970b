"""Slurm: what a site wants of its jobs, their scripts, the commands, and the fleets of hosts that it runs."""
