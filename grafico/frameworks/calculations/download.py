"""Structures by refcode from CoRE MOF, read on a worker: all of a job in one pass through the archive.

A folder of CIF files is read by the controller (:func:`~grafico.frameworks.download.folder_structures`), which is where
it lies.
"""

from importlib.metadata import version
from typing import Literal

from pydantic import Field

from grafico.calculations import Model, Resources, WorkContext, calculation
from grafico.frameworks.download import Downloaded, find_structures

__all__ = ["DownloadInput", "download"]


class DownloadInput(Model):
    """Refcodes, and the data set that has them."""

    refcodes: tuple[str, ...] = Field(min_length=1, description="refcodes, such as IXEJIG, or names of entries")
    dataset: Literal["2019-ASR", "2019-FSR", "2014"] = Field(default="2019-ASR", description="data set of CoRE MOF")


@calculation(version="1", resources=Resources(memory_mib=1024, walltime_s=600.0), family="core-mof", uses=("CoRE_MOF",))
def download(value: DownloadInput, ctx: WorkContext) -> Downloaded:
    """Return structures of CoRE MOF by refcode, with what the data set says about them.

    A refcode that is not there is a failure of its own, with those that are like it; the others are found all the same.
    """
    ctx.used(**{"core-mof": version("core-mof")})
    return find_structures(value.refcodes, value.dataset)
