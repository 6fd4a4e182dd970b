"""Where lanes run: profiles, slots, workers."""

from grafico.cluster.backend import open_cluster
from grafico.cluster.load import known_profiles, load_profile
from grafico.cluster.placement import WorkerView
from grafico.cluster.profile import Pool, Profile

__all__ = ["Pool", "Profile", "WorkerView", "known_profiles", "load_profile", "open_cluster"]
