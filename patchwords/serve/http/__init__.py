"""The service in HTTP: what is let in, which question it is, and how the answer is said."""
