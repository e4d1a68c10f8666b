"""The paper's figures 6, 7, 11 and 14 as PNG, one file a figure; numbers come in, bytes go out."""
