"""Numbers whose points may part thousands: they are marked where a table is read, and are none."""

UNPARTED = "write 1234 or, of a fraction, 1,234"
"""What to do about them."""


class Thousands(str):
    """Such a cell: its text."""

    __slots__ = ()
