"""Where `fedrel` starts: quick to load, so that Ctrl-C is answered in one line from the first moment."""

import io
import sys


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to fail
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
