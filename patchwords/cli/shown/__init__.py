"""What `patchwords show` can show, one short file a kind of thing."""
