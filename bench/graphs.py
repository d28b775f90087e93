"""CUDA graphs in which only the kernels' code is exchanged, and how their times are taken.

A program's launches are captured in a graph once. For each assembler the graph is cloned and the functions of its kernel nodes are
replaced by those of another cubin, made from the same PTX: grids, arguments and buffers, down to their addresses, are the same.

How times are taken, here and in `xtask gpu times`: a graph holds so many runs of the program that it takes half a millisecond. In each
round every assembler's graph is launched once between two events, nothing in between, in an order that rotates from round to round. What
is reported is the median over the rounds of the time divided by the reference's time of the same round. The reference's cubin is loaded
a second time and takes part under a name of its own: what its ratio differs from 1 by is noise.
"""

import ctypes
import statistics


class DriverError(Exception):
    pass


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


class Driver:
    """The CUDA driver's functions on graphs."""

    KERNEL_NODE = 0

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'?').decode()}")

    def nodes(self, graph):
        """The kernel nodes of a graph."""
        count = ctypes.c_size_t()
        self.call("cuGraphGetNodes", ctypes.c_void_p(graph), None, ctypes.byref(count))
        nodes = (ctypes.c_void_p * count.value)()
        self.call("cuGraphGetNodes", ctypes.c_void_p(graph), nodes, ctypes.byref(count))
        kernels = []
        for node in nodes:
            kind = ctypes.c_int()
            self.call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
            if kind.value == self.KERNEL_NODE:
                kernels.append(node)
        return kernels

    def parameters(self, node):
        parameters = KernelNode()
        self.call("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(parameters))
        return parameters

    def functions(self, graph):
        """The functions that a graph launches."""
        return {self.parameters(node).function for node in self.nodes(graph)}

    def exchanged(self, graph, functions):
        """A graph ready to launch that has other functions in the places of some."""
        clone, ready = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuGraphClone", ctypes.byref(clone), ctypes.c_void_p(graph))
        for node in self.nodes(graph):
            parameters = self.parameters(node)
            if parameters.function in functions:
                parameters.function = functions[parameters.function]
                parameters.kernel = None
                copy = ctypes.c_void_p()
                self.call("cuGraphNodeFindInClone", ctypes.byref(copy), ctypes.c_void_p(node), clone)
                self.call("cuGraphKernelNodeSetParams_v2", copy, ctypes.byref(parameters))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), clone, ctypes.c_ulonglong(0))
        self.call("cuGraphDestroy", clone)
        return ready

    def launch(self, ready, stream):
        self.call("cuGraphLaunch", ready, ctypes.c_void_p(stream))

    def release(self, ready):
        self.call("cuGraphExecDestroy", ready)


def times(launches, rounds, event):
    """Times of each of several things to launch, by name, in milliseconds: one for each round. `event` makes a timing event.

    A round starts with one launch more that is not timed: while it runs the host gets ahead, so that nothing timed waits for it.
    """
    names = list(launches)
    measured = {name: [] for name in names}
    for turn in range(rounds):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        launches[order[-1]]()
        marks = [event()]
        marks[0].record()
        for name in order:
            launches[name]()
            marks.append(event())
            marks[-1].record()
        marks[-1].synchronize()
        for name, start, end in zip(order, marks, marks[1:]):
            measured[name].append(start.elapsed_time(end))
    return measured


def ratio(times, reference):
    """The median of the paired ratios."""
    return statistics.median(mine / theirs for mine, theirs in zip(times, reference, strict=True))
