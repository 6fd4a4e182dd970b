"""Which waiting calculation goes to which worker next: first come, first served by kind, and nobody starves."""

from grafico.cluster.placement.backlog import Backlog, Pending, Placed
from grafico.cluster.placement.needs import END_MARGIN_S, Demand, WorkerView, demand, placed, taken, threads_for
from grafico.cluster.placement.refusals import refusal
from grafico.cluster.placement.stations import Station

__all__ = [
    "END_MARGIN_S",
    "Backlog",
    "Demand",
    "Pending",
    "Placed",
    "Station",
    "WorkerView",
    "demand",
    "placed",
    "refusal",
    "taken",
    "threads_for",
]
