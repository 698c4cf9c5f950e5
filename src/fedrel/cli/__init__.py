"""The `fedrel` command: one file per subcommand."""

__all__: list[str] = []  # nothing here is for other packages to build on
