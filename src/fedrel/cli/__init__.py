"""The `fedrel` command: one file per subcommand."""
