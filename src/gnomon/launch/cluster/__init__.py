"""The samplers of a run in a Ray cluster. Only this package imports Ray, when it is used."""
