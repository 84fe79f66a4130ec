"""``python -m wmlr.cli``, where the program itself is not on the path."""

from wmlr.cli import main

if __name__ == "__main__":
    main()
