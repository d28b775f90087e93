"""JAX: XLA's own kernels, fusions and reductions, a scan, a sort, and the gradient of a small network."""

import os

from gpu import lacks_hopper as lacks

PACKAGES = ("jax", "jaxlib", "numpy")


def switch(fallback):
    import orias

    return orias.jax.enable(fallback=fallback)


def programs():
    # What is chosen by measured time would differ between two runs.
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"
    import jax
    import jax.numpy as jnp
    import numpy

    def jitted(function, *shapes):
        def make():
            keys = jax.random.split(jax.random.PRNGKey(4), len(shapes))
            inputs = [jax.random.normal(key, shape) for key, shape in zip(keys, shapes)]
            compiled = jax.jit(function)
            kept = {}

            def run():
                kept["out"] = jax.block_until_ready(compiled(*inputs))

            return run, lambda: [numpy.asarray(leaf) for leaf in jax.tree_util.tree_leaves(kept["out"])]

        return make

    def network(weights, biases, x):
        for _ in range(3):
            x = jnp.tanh(x @ weights + biases)
        return jnp.sum(x * x)

    return {
        "softmax": jitted(lambda x: jax.nn.softmax(x, -1), (2048, 4096)),
        "statistics": jitted(lambda x: (x.mean(0), x.std(0), x.max(1), jnp.argmin(x, 1)), (4096, 1024)),
        "scan": jitted(lambda x: jax.lax.associative_scan(jnp.add, x, axis=1), (512, 4096)),
        "sort": jitted(lambda x: jnp.sort(x, -1), (256, 8192)),
        "gradient": jitted(jax.grad(network, argnums=(0, 1)), (512, 512), (512,), (1024, 512)),
    }
