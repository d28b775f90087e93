"""What clients have in common: whether there is a GPU that Orias compiles for, and launching a cubin on it."""

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


class Driver:
    """The first GPU, by the driver's own interface: nothing else is needed to launch a cubin."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} returns {code}")

    def copy_of(self, array):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(array.nbytes))
        self.call("cuMemcpyHtoD_v2", address, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
        return address

    def fetch(self, address, like):
        array = like.copy()
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), address, ctypes.c_size_t(array.nbytes))
        return array
