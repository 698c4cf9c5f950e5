"""The long-running processes of a federation's parties, and what they say to each other."""
