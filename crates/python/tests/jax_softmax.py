"""Compiles a softmax for an H200 that is not there, switched to Orias before JAX is loaded or after; prints who was asked.

Usage: jax_softmax.py before|after|never
"""

import os
import sys

# No driver is needed to compile.
os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"

#: What XLA is told of the chip.
CHIP = """
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

import orias.counting
import orias.jax

HOW = sys.argv[1]
if HOW == "before":
    switch = orias.jax.enable()

import jax
from jax.experimental import topologies

if HOW == "after":
    switch = orias.jax.enable()

chips = topologies.get_topology_desc("1x1x1", "cuda", target_config=CHIP, topology="1x1x1").devices
place = jax.sharding.SingleDeviceSharding(chips[0])
shape = jax.ShapeDtypeStruct((256, 1024), "f4", sharding=place)
jax.jit(jax.nn.softmax, in_shardings=place, out_shardings=place).lower(shape).compile()
count = orias.counting.count()
print("orias" if count.orias > 0 and count.total == count.orias else "own")
