"""From an analysis of pores to entities, and back."""

from collections.abc import Callable
from typing import Any

from grafico.frameworks import steps
from grafico.frameworks.concepts import (
    Channels,
    FrameworkGeometry,
    PoreAnalysis,
    PoreDiameters,
    PoreVolume,
    SurfaceArea,
)

__all__ = ["analysis_entity", "analysis_of"]


def analysis_entity(
    geometry: FrameworkGeometry,
    analysis: steps.PoreAnalysis,
    keys: frozenset[str] = frozenset(),
    once: Callable[[Any], Any] = lambda entity: entity,
) -> PoreAnalysis:
    """Return the entity of an analysis of a geometry's pores.

    Parameters
    ----------
    geometry
        What was analyzed.
    analysis
        What was found.
    keys
        Content keys of the calculation.
    once
        Returns the object that stands for an entity, where there may be one already.
    """
    diameters, area, volume, channels = analysis.diameters, analysis.area, analysis.volume, analysis.channels
    settings = analysis.settings
    common: dict[str, Any] = {"geometry": geometry, "keys": keys, "high_accuracy": settings.high_accuracy}
    probed = common | {"probe_radius": settings.probe_radius, "channel_radius": settings.channel_radius}
    samples, volume_samples = settings.samples, settings.volume_samples
    return PoreAnalysis(
        **probed,
        label=f"pores of {geometry.label}",
        samples=samples,
        volume_samples=volume_samples,
        time_limit=settings.timeout_s,
        density=analysis.density,
        diameters=once(PoreDiameters(**common, lcd=diameters.lcd, pld=diameters.pld, lfpd=diameters.lfpd)),
        area=once(
            SurfaceArea(
                **probed,
                samples=samples,
                accessible_area=area.accessible,
                pocket_area=area.non_accessible,
                gravimetric_area=area.accessible_m2_g,
                gravimetric_pocket_area=area.non_accessible_m2_g,
                volumetric_area=area.accessible_m2_cm3,
            )
        ),
        volume=once(
            PoreVolume(
                **probed,
                volume_samples=volume_samples,
                accessible_volume=volume.accessible,
                pocket_volume=volume.non_accessible,
                specific_volume=volume.accessible_cm3_g,
                specific_pocket_volume=volume.non_accessible_cm3_g,
                accessible_fraction=volume.accessible_fraction,
            )
        ),
        channels=once(
            Channels(
                **common,
                channel_radius=settings.channel_radius,
                channel_count=channels.count,
                channel_dimensionality=channels.dimensionality,
                pockets=channels.pockets,
                framework_dimensionality=channels.framework_dimensionality,
            )
        ),
    )


def analysis_of(entity: PoreAnalysis) -> steps.PoreAnalysis:
    """Return an analysis of pores, equal to that which the entity was made of."""
    diameters, area, volume, channels = entity.diameters, entity.area, entity.volume, entity.channels
    return steps.PoreAnalysis(
        diameters=steps.PoreDiameters(lcd=diameters.lcd, pld=diameters.pld, lfpd=diameters.lfpd),
        area=steps.SurfaceArea(
            accessible=area.accessible_area,
            non_accessible=area.pocket_area,
            accessible_m2_g=area.gravimetric_area,
            non_accessible_m2_g=area.gravimetric_pocket_area,
            accessible_m2_cm3=area.volumetric_area,
        ),
        volume=steps.PoreVolume(
            accessible=volume.accessible_volume,
            non_accessible=volume.pocket_volume,
            accessible_cm3_g=volume.specific_volume,
            non_accessible_cm3_g=volume.specific_pocket_volume,
            accessible_fraction=volume.accessible_fraction,
        ),
        channels=steps.Channels(
            count=channels.channel_count,
            dimensionality=channels.channel_dimensionality,
            pockets=channels.pockets,
            framework_dimensionality=channels.framework_dimensionality,
        ),
        density=entity.density,
        settings=steps.AnalysisSettings(
            probe_radius=entity.probe_radius,
            channel_radius=entity.channel_radius,
            samples=entity.samples,
            volume_samples=entity.volume_samples,
            high_accuracy=entity.high_accuracy,
            timeout_s=entity.time_limit,
        ),
    )
