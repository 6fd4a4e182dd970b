"""What docs/knowledge.md shows runs as it stands, and needs no chemistry."""

import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parent.parent.parent / "docs" / "knowledge.md"


def test_the_guide_runs_without_any_science(tmp_path):
    code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL))
    code += (
        "\nimport sys"
        "\nwings = {name.split('.')[1] for name in sys.modules if name.startswith('grafico.')}"
        "\nassert wings <= {'knowledge', 'calculations', 'errors', 'units'}, wings\n"
    )
    (tmp_path / "guide.py").write_text(code)
    done = subprocess.run([sys.executable, "guide.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
