"""What a run keeps on the disk: its folder, its lock, its checkpoints, where it ran."""
