"""Many runs: comparisons of methods, and searches for settings."""
