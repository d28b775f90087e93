"""JAX: XLA's own kernels, fusions and reductions, a scan, a sort, matrix products by XLA's Triton, and the gradient of a small network."""

import glob
import importlib.util
import os

from gpu import lacks_hopper

PACKAGES = ("jax", "jaxlib", "numpy")

# XLA compiles for a chip that is not there, if it is told what the chip is: what its device says of an H200.
H200 = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000
  l2_cache_size: 62914560
  clock_rate_ghz: 1.98
  device_memory_size: 150000000000
  shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 minor: 0 feature_extension: ACCELERATED_FEATURES }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
device_description_str: "NVIDIA H200"
"""


def _plugins():
    """JAX's packages for CUDA."""
    package = importlib.util.find_spec("jax_plugins")
    folders = package.submodule_search_locations if package else []
    return [name for folder in folders for name in glob.glob(os.path.join(folder, "xla_cuda*"))]


def lacks():
    return lacks_hopper() if _plugins() else "JAX for CUDA"


def lacks_to_compile():
    return "" if _plugins() else "JAX for CUDA"


def switch(fallback):
    import orias

    return orias.jax.enable(fallback=fallback)


def ptxas():
    """Which assembler is compared with: XLA has one in it."""
    return "what XLA takes (nvPTXCompiler, nvJitLink or a ptxas)"


def _functions():
    """Each program: a function and the shapes and types of its inputs."""
    # What is chosen by measured time would differ between two runs. Products are Triton's, as those of cuBLAS call no assembler.
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0 --xla_gpu_triton_gemm_any=true"
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    def network(weights, biases, x):
        for _ in range(3):
            x = jnp.tanh(x @ weights + biases)
        return jnp.sum(x * x)

    def attention(q, k, v):
        weights = jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k).astype("f4") / 8, -1)
        return jnp.einsum("hqk,hkd->hqd", weights.astype(v.dtype), v)

    half = jnp.bfloat16
    heads = ((8, 1024, 64), half)
    return {
        "softmax": (lambda x: jax.nn.softmax(x, -1), ((2048, 4096), "f4")),
        "statistics": (lambda x: (x.mean(0), x.std(0), x.max(1), jnp.argmin(x, 1)), ((4096, 1024), "f4")),
        "scan": (lambda x: jax.lax.associative_scan(jnp.add, x, axis=1), ((512, 4096), "f4")),
        "sort": (lambda x: jnp.sort(x, -1), ((256, 8192), "f4")),
        "product": (lambda x, y: jax.nn.gelu(x @ y), ((2048, 1024), half), ((1024, 2048), half)),
        "attention": (attention, heads, heads, heads),
        "gradient": (jax.grad(network, argnums=(0, 1)), ((512, 512), "f4"), ((512,), "f4"), ((1024, 512), "f4")),
    }


def compiled():
    """Compiles all programs for a chip that is not there."""
    # This JAX needs no driver.
    os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
    functions = _functions()
    import jax
    from jax.experimental import topologies

    description = topologies.get_topology_desc("1x1x1", "cuda", target_config=H200, topology="1x1x1")
    place = jax.sharding.SingleDeviceSharding(description.devices[0])

    def make(function, inputs):
        shapes = [jax.ShapeDtypeStruct(shape, kind, sharding=place) for shape, kind in inputs]
        jax.jit(function, in_shardings=place, out_shardings=place).lower(*shapes).compile()
        return []

    return {name: (lambda row=row: make(row[0], row[1:])) for name, row in functions.items()}


def programs():
    functions = _functions()
    import jax
    import numpy

    if jax.default_backend() != "gpu":
        raise RuntimeError(f"JAX found no GPU: it runs on {jax.default_backend()}")

    def program(function, inputs):
        def make():
            numbers = numpy.random.default_rng(4)
            arrays = [jax.device_put(numbers.standard_normal(shape, "f4").astype(kind)) for shape, kind in inputs]
            compiled = jax.jit(function)
            kept = {}

            def run():
                kept["out"] = jax.block_until_ready(compiled(*arrays))

            return run, lambda: [_plain(leaf) for leaf in jax.tree_util.tree_leaves(kept["out"])]

        return make

    return {name: program(row[0], row[1:]) for name, row in functions.items()}


def _plain(array):
    """An array of a type that NumPy knows: bfloat16 fits into f32."""
    import numpy

    array = numpy.asarray(array)
    return array if array.dtype.kind != "V" and array.dtype.name != "bfloat16" else array.astype("f4")
