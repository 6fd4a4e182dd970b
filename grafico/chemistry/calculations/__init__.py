"""The calculations of chemistry, one file each."""
