"""Units of measure: the dimension and exact size of each name. A name outside the table is not a unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

__all__ = ["UNITS", "Unit"]


@dataclass(frozen=True, slots=True)
class Unit:
    """The dimension and size of one unit."""

    dimension: str
    factor: Fraction
    """Size in the first unit of its dimension."""


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
"""The default units. Months and years vary in length and are not included."""


DIMENSIONS: Mapping[str, tuple[dict[str, int], Fraction]] = MappingProxyType(
    {
        "area": ({"length": 2}, Fraction(1)),
        "volume": ({"length": 3}, Fraction(1, 1000)),
        "speed": ({"length": 1, "time": -1}, Fraction(1)),
    }
)
"""Derived dimensions: the powers of base dimensions, and the size of their first unit."""
EXTRA: Mapping[str, Unit] = MappingProxyType(
    {
        name: Unit(dimension, Fraction(factor))
        for names, dimension, factor in (
            ("in", "length", "0.0254"),
            ("rad radian radians", "radian", "1"),
            ("°C|degrees celsius|celsius", "celsius", "1"),
            ("°F|degrees fahrenheit|fahrenheit", "fahrenheit", "1"),
            ("hrs", "time", "3600"),
            ("mins", "time", "60"),
            ("units unit", "unit", "1"),
            ("N newton newtons", "force", "1"),
            ("J joule joules", "energy", "1"),
            ("kJ kilojoule kilojoules", "energy", "1000"),
            ("W watt watts", "power", "1"),
            ("kW kilowatt kilowatts", "power", "1000"),
            ("V volt volts", "voltage", "1"),
            ("Pa pascal pascals", "pressure", "1"),
            ("Hz hertz", "frequency", "1"),
            ("mol mole moles", "amount", "1"),
        )
        for name in (names.split("|") if "|" in names else names.split())
    }
)
POWERS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}


def measure(text: str) -> tuple[tuple[tuple[str, int], ...], Fraction] | None:
    """Parse a unit such as `square feet`, `cm^2` or `miles per hour` into its dimension and size.

    A dimension is a sorted tuple of base dimensions and their powers. Returns None if the unit is not known.
    """
    powers, factor = dict[str, int](), Fraction(1)
    for i, part in enumerate(text.replace(" per ", "/").split("/")):
        unit = _simple(part.strip())
        if unit is None:
            return None
        sign = -1 if i else 1
        for dimension, power in unit[0].items():
            powers[dimension] = powers.get(dimension, 0) + sign * power
        factor *= unit[1] ** sign
    return tuple(sorted(powers.items())), factor


def _simple(text: str) -> tuple[dict[str, int], Fraction] | None:
    """Powers and size of a unit without a slash."""
    word, _, rest = text.partition(" ")
    power = POWERS.get(word.lower(), 1)
    if power > 1 and rest:
        text = rest
    if text[-2:] in ("^2", "^3") and power == 1:
        text, power = text[:-2], int(text[-1])
    if text.endswith((" squared", " cubed")):
        text, power = text.rpartition(" ")[0], 2 if text.endswith("squared") else 3
    unit = next((table[name] for table in (UNITS, EXTRA) for name in (text, text.lower()) if name in table), None)
    if unit is None:
        return None
    powers, size = DIMENSIONS.get(unit.dimension, ({unit.dimension: 1}, Fraction(1)))
    return {dimension: once * power for dimension, once in powers.items()}, (size * unit.factor) ** power
