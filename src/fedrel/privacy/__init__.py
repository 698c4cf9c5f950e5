"""What leaves a platform, and in which disguise."""
