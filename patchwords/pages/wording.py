"""Numbers as people read them."""

import math

SPACE = "\N{NO-BREAK SPACE}"


def percent(share: float) -> str:
    return f"{100 * share:.1f}{SPACE}%"


def signed(number: float) -> str:
    """A difference, with a minus sign that no line ends after."""
    return f"{number:+.1f}".replace("-", "\N{MINUS SIGN}")


def whole(number: float) -> str:
    return f"{number:,.0f}"


def short(number: float) -> str:
    """Four figures, and no tail of zeros before them."""
    return "< 0.0001" if 0 < number < 1e-4 else f"{number:.4g}"


def plural(number: float, one: str, several: str = "") -> str:
    """1 epoch, 2 epochs, 2.5 epochs."""
    amount = f"{number:,.0f}" if float(number).is_integer() else f"{number:.4g}"
    return f"{amount} {one if number == 1 else several or one + 's'}"


def duration(seconds: float) -> str:
    """The two largest units: 2 h 05 min."""
    total = round(seconds)
    if total < 60:
        return f"{seconds:.1f}{SPACE}s" if seconds < 10 else f"{total}{SPACE}s"
    if total < 3600:
        return f"{total // 60}{SPACE}min {total % 60:02d}{SPACE}s"
    minutes = round(seconds / 60)
    return f"{minutes // 60}{SPACE}h {minutes % 60:02d}{SPACE}min"


def memory(size: float) -> str:
    if size < 1 << 30:
        return f"{size / (1 << 20):.0f}{SPACE}MiB"
    return f"{size / (1 << 30):.1f}{SPACE}GiB"


def interval(share: float, count: int) -> tuple[float, float]:
    """Where the true share lies with 95 % confidence (Wilson, 1927), sound near 0 and 1 and for few pictures."""
    z = 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    reach = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2) / (1 + z * z / count)
    return max(0.0, middle - reach), min(1.0, middle + reach)
