"""Config to planned measurements: models, specs, keys, file names; what a session holds and lacks."""
