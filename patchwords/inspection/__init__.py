"""Section 4.5, App. D.7 and D.8: what a model learned to see, and where it looks."""
