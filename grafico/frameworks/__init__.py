"""Metal-organic frameworks: taken apart, recombined, built, relaxed and analyzed."""
