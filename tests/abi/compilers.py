"""The C and C++ compilers of this machine that plugin authors may use."""
import shutil

PAIRS = (("gcc", "g++"), ("clang", "clang++"))


def installed():
    """[(C compiler, C++ compiler)], at least one."""
    found = [(shutil.which(c), shutil.which(cxx)) for c, cxx in PAIRS]
    found = [pair for pair in found if all(pair)]
    if not found:
        raise RuntimeError(f"neither {' nor '.join(c for c, _ in PAIRS)} is installed")
    return found
