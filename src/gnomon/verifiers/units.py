"""Units of measure: to each name its dimension and its exact size. What is not in the table is no unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

__all__ = ["UNITS", "Unit"]


@dataclass(frozen=True, slots=True)
class Unit:
    """How much of its dimension one unit is."""

    dimension: str
    factor: Fraction
    """In the first unit of its dimension."""


TABLE: dict[str, dict[str, str]] = {
    "length": {
        "m meter meters metre metres": "1",
        "km kilometer kilometers kilometre kilometres": "1000",
        "cm centimeter centimeters centimetre centimetres": "1/100",
        "mm millimeter millimeters millimetre millimetres": "1/1000",
        "inch inches": "0.0254",
        "ft foot feet": "0.3048",
        "yd yard yards": "0.9144",
        "mi mile miles": "1609.344",
    },
    "area": {
        "m^2 m2 square-meters square-metres": "1",
        "km^2 km2": "1000000",
        "cm^2 cm2": "1/10000",
        "ft^2 ft2 square-feet": "0.09290304",
    },
    "volume": {"l liter liters litre litres": "1", "ml milliliter milliliters": "1/1000", "m^3 m3": "1000"},
    "mass": {
        "g gram grams": "1",
        "kg kilogram kilograms": "1000",
        "mg milligram milligrams": "1/1000",
        "lb lbs pound pounds": "453.59237",
        "oz ounce ounces": "28.349523125",
    },
    "time": {
        "s sec second seconds": "1",
        "ms millisecond milliseconds": "1/1000",
        "min minute minutes": "60",
        "h hr hour hours": "3600",
        "day days": "86400",
        "week weeks": "604800",
    },
    "speed": {"m/s": "1", "km/h kph": "5/18", "mph": "0.44704"},
    "angle": {"° degree degrees": "1"},
    "dollar": {"$ dollar dollars USD": "1", "cent cents": "1/100"},
    "euro": {"€ euro euros EUR": "1"},
    "pound sterling": {"£ GBP": "1"},
}

UNITS: Mapping[str, Unit] = MappingProxyType(
    {
        name.replace("-", " "): Unit(dimension, Fraction(factor))
        for dimension, names in TABLE.items()
        for spelled, factor in names.items()
        for name in spelled.split()
    }
)
"""The units that are known unless a verifier is given others. Months and years have no one size and are not there."""
