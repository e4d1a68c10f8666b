"""report.html, and what a run folder tells when it is read again."""
