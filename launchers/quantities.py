"""Times and sizes as a person reads them."""

_UNITS = ("B", "KiB", "MiB", "GiB")


def duration(seconds: float) -> str:
  """Returns a time such as `2 min 05 s`."""
  minutes, rest = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  if hours:
    return f"{hours} h {minutes:02d} min"
  return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def size(count: float) -> str:
  """Returns a number of bytes such as `3.2 MiB`."""
  power = 0
  while count >= 1024 and power < len(_UNITS) - 1:
    count /= 1024
    power += 1
  return f"{count:,.1f} {_UNITS[power]}" if power else f"{count:,.0f} {_UNITS[0]}"
