"""What a cluster shows in a browser: a page of ours and Dask's own, behind one token."""

from grafico.cluster.dashboard.install import dashboard_link, install, moved, new_token
from grafico.cluster.dashboard.source import StatusSource

__all__ = ["StatusSource", "dashboard_link", "install", "moved", "new_token"]
