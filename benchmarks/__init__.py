"""Speed against the loop a user would otherwise write; each module is one command that prints JSON."""
