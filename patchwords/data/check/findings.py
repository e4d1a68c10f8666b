"""What a check of a data set finds: errors, warnings and notes, each with the pictures or classes that it is about."""

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["error", "warning", "note"]
Group = tuple[str, ...]
SHOWN = 2  # examples


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One kind of thing; `groups` holds a name, or several that belong together, for each time it was found."""

    kind: str
    what: str
    groups: tuple[Group, ...]
    severity: Severity = "warning"

    @property
    def count(self) -> int:
        return len(self.groups)

    def examples(self) -> str:
        shown = [" = ".join(group) for group in self.groups[:SHOWN]]
        return "; ".join(shown + ["…"] * (self.count > SHOWN))

    def sentence(self) -> str:
        """For a log: what, how often, and where."""
        return f"{self.what} ({self.count}): {self.examples()}"


@dataclass
class Findings:
    """All of them, and how much was looked at."""

    pictures: dict[str, int]  # by split
    classes: int  # none where nobody labelled the pictures
    errors: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)

    @property
    def every(self) -> list[Finding]:
        return [*self.errors, *self.warnings, *self.notes]

    def sentences(self) -> list[str]:
        """One for each error and warning, the errors first."""
        return [finding.sentence() for finding in (*self.errors, *self.warnings)]

    def add(self, finding: Finding) -> None:
        """Keeps what was found at least once."""
        if finding.count:
            {"error": self.errors, "warning": self.warnings, "note": self.notes}[finding.severity].append(finding)
