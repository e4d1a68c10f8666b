"""HTML pages that need no network: markup by construction, words for numbers, drawings, the frame around them."""
