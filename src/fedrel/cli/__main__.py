"""Entry point of `fedrel`. It imports little at first, so that Ctrl-C gets a one-line answer from the start."""

import io
import sys


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # do not fail on a name that the terminal cannot show
    try:
        if sys.argv[1:2] in (["coordinator"], ["platform"]):
            from fedrel.cli.node_app import main as start
        else:
            from fedrel.cli.app import main as start
    except KeyboardInterrupt:
        sys.stderr.write("fedrel: interrupted\n")
        sys.exit(130)
    start()


if __name__ == "__main__":
    main()
