"""Python runs this as it starts, where this folder is on its path: it writes down which files of wmlr have a function
called in the process, each as soon as it is seen, since some processes are killed.
"""

import os
import sys
import threading
from pathlib import Path

HERE = f"{os.sep}wmlr{os.sep}"
FUNCTION = 2
"""The flag of code that has locals of its own: modules and classes that are only loaded have not."""


class Calls:
    """What :func:`sys.setprofile` asks for: it tells of each file of the library once a function of it is called."""

    def __init__(self, tell):
        self.tell, self.seen = tell, set()

    def __call__(self, frame, event, argument):
        code = frame.f_code
        if code in self.seen:
            return
        self.seen.add(code)
        if HERE in code.co_filename and code.co_flags & FUNCTION:
            self.tell(code.co_filename.rpartition(HERE)[2])


def write_down(name):
    with (Path(os.environ["WMLR_TRACED"]) / f"{os.getpid()}.txt").open("a") as file:
        file.write(f"{name}\n")


if "WMLR_TRACED" in os.environ:
    sys.setprofile(Calls(write_down))
    threading.setprofile(sys.getprofile())
