"""Where `fedrel` starts: quick to load, so that Ctrl-C is answered in one line from the first moment."""

import sys


def main() -> None:
    try:
        from fedrel.cli.app import main as start
    except KeyboardInterrupt:
        sys.stderr.write("fedrel: interrupted\n")
        sys.exit(130)
    start()


if __name__ == "__main__":
    main()
