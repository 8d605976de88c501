"""The tiny base policy's making: synthetic scratch work and the recipe that trains on it."""
