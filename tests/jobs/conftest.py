"""Fixtures that the tests of jobs and of the command line share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

from tiny_fixtures import bench, job

__all__ = ["bench", "job"]
