"""The pictures of a frameworks job."""

from collections.abc import Mapping
from importlib.metadata import version

from pydantic import Field

from grafico.calculations import ArtifactRef, Model, Resources, WorkContext, calculation
from grafico.frameworks.plotting import Compared, Pores, draw_compared, draw_pores
from grafico.frameworks.report import PUBLISHED_PROBE, compared_in, pores_in, pores_note
from grafico.frameworks.result import FrameworkResult

__all__ = ["PICTURE_RESOURCES", "Pictures", "PicturesInput", "draw_frameworks", "pictures_of"]

PICTURE_RESOURCES = Resources(memory_mib=1024, walltime_s=600.0)


class PicturesInput(Model):
    """What there is to draw."""

    label: str
    note: str = Field(default="", description="how pores were measured")
    pores: tuple[Pores, ...] = Field(default=(), description="frameworks in the picture of pores")
    compared: tuple[Compared, ...] = Field(default=(), description="computed beside published values")


class Pictures(Model):
    """Files, by the name under which they are published."""

    files: Mapping[str, ArtifactRef] = Field(description="name: artifact")


@calculation(version="1", resources=PICTURE_RESOURCES, family="python", uses=("matplotlib",))
def draw_frameworks(value: PicturesInput, ctx: WorkContext) -> Pictures:
    """Draw pores.png and pores.svg of several frameworks, published.png and published.svg where anything was published."""
    ctx.used(matplotlib=version("matplotlib"))
    drawn: dict[str, tuple[bytes, bytes]] = {}
    if len(value.pores) > 1:
        drawn["pores"] = draw_pores(value.pores, title=f"{value.label}: pores", note=value.note)
    if value.compared:
        drawn["published"] = draw_compared(
            value.compared,
            title="Computed here and published in CoRE MOF",
            note=f"{value.note}; published: probe {PUBLISHED_PROBE:g} Å",
        )
    files: dict[str, ArtifactRef] = {}
    for name, (png, svg) in drawn.items():
        files[f"{name}.png"] = ctx.artifacts.put(png, "image/png")
        files[f"{name}.svg"] = ctx.artifacts.put(svg, "image/svg+xml")
    return Pictures(files=files)


def pictures_of(result: FrameworkResult) -> PicturesInput | None:
    """Return what there is to draw of a result; ``None`` where that makes no picture."""
    pores, compared = pores_in(result), compared_in(result)
    if len(pores) < 2 and not compared:
        return None
    return PicturesInput(label=result.label, note=pores_note(result), pores=pores, compared=compared)
