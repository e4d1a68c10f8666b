"""The page: what a browser needs to show a picture as its words, and the same as one file to send."""
