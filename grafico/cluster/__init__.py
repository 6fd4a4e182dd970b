"""Where lanes run: profiles, slots, workers."""

from grafico.cluster.backend import open_cluster
from grafico.cluster.layout import WorkerSpec, lay_out
from grafico.cluster.load import known_profiles, load_profile
from grafico.cluster.placement import WorkerView, refusal
from grafico.cluster.profile import Pool, Profile

__all__ = [
    "Pool",
    "Profile",
    "WorkerSpec",
    "WorkerView",
    "known_profiles",
    "lay_out",
    "load_profile",
    "open_cluster",
    "refusal",
]
