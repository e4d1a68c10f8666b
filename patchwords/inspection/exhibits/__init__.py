"""Each figure of an inspection with its numbers and remarks: what the functions of this room say, drawn, for JSON."""
