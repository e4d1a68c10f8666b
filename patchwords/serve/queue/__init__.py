"""Who asks a model waits here: decoded pictures are asked about together, and longer questions take turns with them."""
