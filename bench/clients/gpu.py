"""What clients have in common: whether there is a GPU that Orias compiles for."""

import ctypes


def lacks_hopper():
    """What is missing for a run, in words; nothing if there is a Hopper GPU with its driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "driver of a GPU"
    count, major = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "GPU"
    major_of_capability = 75
    driver.cuDeviceGetAttribute(ctypes.byref(major), major_of_capability, 0)
    return "" if major.value == 9 else f"GPU of compute capability 9 (it is {major.value})"
