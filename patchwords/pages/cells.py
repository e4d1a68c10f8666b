"""Words for the cells of a CSV file: a spreadsheet shows them, and calculates none."""

FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")  # it calculates what begins so, in wide letters too


def is_formula(word: str) -> bool:
    return word.startswith(FORMULA)


def cell(word: str) -> str:
    """Marked as spreadsheets themselves mark a text, where it would be taken for a formula."""
    return f"'{word}" if is_formula(word) else word
