"""The graph of the tests is imported by the runs that they start; here it only has to be found."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
